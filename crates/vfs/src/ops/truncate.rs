// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets the length of a file: truncate(2), ftruncate(2).
//!
//! # Kernel analogue
//! `vfs_truncate`, `do_ftruncate`, `do_truncate`.
//!
//! # Rules
//! R1. ftruncate(2) always moves the times. truncate(2) moves them if the length changes, or if the
//!     file has blocks, as tmpfs does.

use super::resolve;
use crate::config::Profile;
use crate::file::PathStart;
use crate::file_ops::Fd;
use crate::inode::{SetAttr, flag};
use crate::perm::{self, MAY_WRITE};
use crate::target::Target;
use crate::task::Task;
use crate::walk::lflag;
use openpath_abi::{Errno, mode};

impl Task {
    /// Sets the length of the regular file `path`. Linux: truncate(2).
    ///
    /// # Errors
    /// In this order:
    /// * `EINVAL` (negative), `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk;
    /// * `EISDIR`, `EINVAL` (not a regular file);
    /// * `EROFS` (superblock), `EPERM` (immutable), `EACCES`;
    /// * `EROFS` (mount; before Linux 6.14 it came before these three);
    /// * `EPERM` (append-only), `ETXTBSY`, `EINTR` (while it waited for a lease), what the backend
    ///   meets (`EFBIG`).
    pub fn truncate(&self, path: &[u8], len: i64) -> Result<(), Errno> {
        let len = u64::try_from(len).map_err(|_| Errno::EINVAL)?;
        let held = resolve(&self.core, PathStart::Cwd, path, lflag::FOLLOW)?;
        let target = held.target()?;
        let inode = target.inode;
        match inode.kind() {
            mode::S_IFREG => {}
            mode::S_IFDIR => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        if self.core.vfs.config.profile < Profile::V6_18 && target.is_read_only() {
            return Err(Errno::EROFS);
        }
        perm::inode_permission(&self.core.cred(), &target.mount.sb, inode, MAY_WRITE)?;
        let _writing = target.begin_write()?;
        if inode.flags() & flag::APPEND_ONLY != 0 {
            return Err(Errno::EPERM);
        }
        let _writing_inode = self.core.want_write_inode(target.path_ids, inode)?;
        self.core.break_for_truncate(inode)?;
        target.set_length(len, false)
    }
}

impl Task {
    /// Sets the length of the file at `fd`. Linux: ftruncate(2).
    ///
    /// # Errors
    /// `EINVAL` (negative), `EBADF` (not open, `O_PATH`), `EINVAL` (not a regular file, not open
    /// for writing), `EPERM` (append-only), `EAGAIN` (a delegation is in the way, and its break has
    /// begun), what the backend meets (`EFBIG`).
    pub fn ftruncate(&self, fd: Fd, len: i64) -> Result<(), Errno> {
        let len = u64::try_from(len).map_err(|_| Errno::EINVAL)?;
        let file = self.core.fdget_full(fd)?;
        let target = file.target()?;
        if target.inode.kind() != mode::S_IFREG || !file.writable() {
            return Err(Errno::EINVAL);
        }
        if target.inode.flags() & flag::APPEND_ONLY != 0 {
            return Err(Errno::EPERM);
        }
        target.confirm()?;
        target.set_length(len, true)
    }
}

impl Target<'_> {
    /// Sets the length, and the times (R1; `always`: whatever the length was).
    fn set_length(&self, len: u64, always: bool) -> Result<(), Errno> {
        let inode = self.inode;
        let _held = inode.lock_names();
        self.core.ask_before_cut(inode)?;
        let now = self.core.vfs.clock.now();
        let mode = self.drop_privileges(now)?;
        let old = inode.attr();
        let moved = (always || old.size != len || old.blocks != 0).then_some(now);
        self.setattr(&SetAttr {
            size: Some(len),
            mode,
            mtime: moved,
            ctime: moved,
            ..SetAttr::default()
        })
    }
}
