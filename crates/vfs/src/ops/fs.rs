// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole trees: statfs(2), fstatfs(2), sync(2), syncfs(2).

use super::resolve;
use super::target::Target;
use crate::file_ops::Fd;
use crate::object::mflag;
use crate::task::{At, Task};
use crate::walk::lflag;
use openpath_abi::mount::{
    ST_NOATIME, ST_NODEV, ST_NODIRATIME, ST_NOEXEC, ST_NOSUID, ST_NOSYMFOLLOW, ST_RDONLY,
    ST_RELATIME, ST_VALID,
};
use openpath_abi::{Errno, StatFs};

/// Flags of a mount as statfs(2) shows them.
const SHOWN: [(u64, u64); 8] = [
    (mflag::READ_ONLY, ST_RDONLY),
    (mflag::NO_SUID, ST_NOSUID),
    (mflag::NO_DEV, ST_NODEV),
    (mflag::NO_EXEC, ST_NOEXEC),
    (mflag::NO_ATIME, ST_NOATIME),
    (mflag::NO_DIR_ATIME, ST_NODIRATIME),
    (mflag::REL_ATIME, ST_RELATIME),
    (mflag::NO_SYM_FOLLOW, ST_NOSYMFOLLOW),
];

impl Task {
    /// Figures of the tree that `path` is in, and flags of its mount. Linux: statfs(2).
    ///
    /// # Errors
    /// `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk, what the backend meets.
    pub fn statfs(&self, path: &[u8]) -> Result<StatFs, Errno> {
        let held = resolve(&self.core, At::Cwd, path, lflag::FOLLOW)?;
        held.target()?.statfs()
    }

    /// Brings all mounted trees to stable storage, whatever each says about it. Linux: sync(2).
    pub fn sync(&self) {
        for sb in self.core.vfs.trees() {
            if !sb.is_read_only() {
                // As in Linux, nobody is told: syncfs(2) tells.
                let _told = sb.shielded(|ops| ops.sync());
            }
        }
    }
}

impl Task {
    /// Figures of the tree that the file at `fd` is in; works with `O_PATH` too. Linux: fstatfs(2).
    ///
    /// # Errors
    /// `EBADF` (not open), what the backend meets.
    pub fn fstatfs(&self, fd: Fd) -> Result<StatFs, Errno> {
        self.core.fdget(fd)?.target()?.statfs()
    }

    /// Brings the tree that the file at `fd` is in to stable storage. Linux: syncfs(2).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), what the backend meets.
    pub fn syncfs(&self, fd: Fd) -> Result<(), Errno> {
        let file = self.core.fdget_full(fd)?;
        let sb = &file.mount()?.sb;
        if sb.is_read_only() {
            return Ok(());
        }
        sb.shielded(|ops| ops.sync())
    }
}

impl Target<'_> {
    pub(crate) fn statfs(&self) -> Result<StatFs, Errno> {
        // What was unlinked and is not open any more gives its room back now.
        self.core.vfs.dcache.collect();
        let sb = &self.mount.sb;
        let mut figures = sb.shielded(|ops| ops.statfs())?;
        if figures.frsize == 0 {
            figures.frsize = figures.bsize;
        }
        let mount = self.mount_flags();
        figures.flags = ST_VALID;
        for (flag, shown) in SHOWN {
            if mount.has(flag) {
                figures.flags |= shown;
            }
        }
        if sb.is_read_only() {
            figures.flags |= ST_RDONLY;
        }
        Ok(figures)
    }
}
