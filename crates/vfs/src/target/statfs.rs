// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes what statfs(2) says of a file's tree: the backend's figures, and the flags of the
//! mount.
//!
//! # Kernel analogue
//! `vfs_statfs`, `calculate_f_flags`.

use super::Target;
use crate::object::mflag;
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

impl Target<'_> {
    pub(crate) fn statfs(&self) -> Result<StatFs, Errno> {
        // Unlinked files that are closed give their space back now.
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
