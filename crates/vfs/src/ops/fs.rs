// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements calls on whole trees: statfs(2), fstatfs(2), sync(2), syncfs(2).

use super::resolve;
use crate::file::PathStart;
use crate::file_ops::Fd;
use crate::task::Task;
use crate::walk::lflag;
use openpath_abi::{Errno, StatFs};

impl Task {
    /// Figures of the tree that `path` is in, and flags of its mount. Linux: statfs(2).
    ///
    /// # Errors
    /// `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk, what the backend meets.
    pub fn statfs(&self, path: &[u8]) -> Result<StatFs, Errno> {
        let held = resolve(&self.core, PathStart::Cwd, path, lflag::FOLLOW)?;
        held.target()?.statfs()
    }

    /// Brings all mounted trees to stable storage; errors are dropped. Linux: sync(2).
    pub fn sync(&self) {
        for sb in self.core.vfs.trees() {
            if !sb.is_read_only() {
                // As in Linux, no error is reported: syncfs(2) reports it.
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
