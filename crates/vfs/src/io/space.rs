// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements calls on the space of a file: fallocate(2), posix_fadvise(2).
//!
//! # Kernel analogue
//! `vfs_fallocate`, `vfs_fadvise`.

use crate::file_ops::Fd;
use crate::inode::{SetAttr, flag};
use crate::task::Task;
use openpath_abi::falloc::{
    FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE,
    FALLOC_FL_UNSHARE_RANGE, FALLOC_FL_WRITE_ZEROES, FALLOC_FL_ZERO_RANGE, POSIX_FADV_NOREUSE,
};
use openpath_abi::{Errno, mode};

impl Task {
    /// Allocates, frees or moves space of the file at `fd` (`FALLOC_FL_*`). Linux: fallocate(2).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (negative, or nothing), `EOPNOTSUPP` (mode), `EBADF`
    /// (not open for writing), `EPERM` (append-only, immutable), `ESPIPE`, `EISDIR`, `ENODEV` (not
    /// a regular file), `EFBIG`, what the backend meets.
    pub fn fallocate(&self, fd: Fd, how: u32, offset: i64, len: i64) -> Result<(), Errno> {
        let file = self.core.fdget_full(fd)?;
        if offset < 0 || len <= 0 {
            return Err(Errno::EINVAL);
        }
        let keeps = how & FALLOC_FL_KEEP_SIZE != 0;
        match how & !FALLOC_FL_KEEP_SIZE {
            0 | FALLOC_FL_UNSHARE_RANGE | FALLOC_FL_ZERO_RANGE => {}
            FALLOC_FL_PUNCH_HOLE if keeps => {}
            FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_INSERT_RANGE | FALLOC_FL_WRITE_ZEROES
                if !keeps => {}
            _ => return Err(Errno::EOPNOTSUPP),
        }
        if !file.writable() {
            return Err(Errno::EBADF);
        }
        let target = file.target()?;
        let inode = target.inode;
        let flags = inode.flags();
        let appends = flags & flag::APPEND_ONLY != 0 && how & !FALLOC_FL_KEEP_SIZE != 0;
        if appends || flags & flag::IMMUTABLE != 0 {
            return Err(Errno::EPERM);
        }
        match inode.kind() {
            mode::S_IFREG => {}
            mode::S_IFIFO => return Err(Errno::ESPIPE),
            mode::S_IFDIR => return Err(Errno::EISDIR),
            _ => return Err(Errno::ENODEV),
        }
        // The largest file ends at the largest offset.
        offset.checked_add(len).ok_or(Errno::EFBIG)?;
        let _held = inode.lock_names();
        let now = self.core.vfs.clock.now();
        let (offset, len) = (offset.cast_unsigned(), len.cast_unsigned());
        self.core
            .vfs
            .dcache
            .with_room(|| inode.shielded(|ops| ops.fallocate(inode, how, offset, len, now)))?;
        if let Some(kept) = target.drop_privileges(now)? {
            target.setattr(&SetAttr {
                mode: Some(kept),
                ctime: Some(now),
                ..SetAttr::default()
            })?;
        }
        file.tell_allocated();
        Ok(())
    }

    /// Advice on the use of data; memory needs none. Linux: posix_fadvise(2).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `ESPIPE` (a FIFO), `EINVAL` (negative length, unknown advice).
    pub fn posix_fadvise(&self, fd: Fd, offset: i64, len: i64, advice: u32) -> Result<(), Errno> {
        let _anywhere = offset;
        let file = self.core.fdget_full(fd)?;
        if file.inode()?.kind() == mode::S_IFIFO {
            return Err(Errno::ESPIPE);
        }
        if len < 0 || advice > POSIX_FADV_NOREUSE {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }
}
