// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of an open file: read(2), write(2), pread(2), pwrite(2), lseek(2).
//!
//! # Locks
//! A write holds the file's `InodeNames` lock, so that `O_APPEND` finds the end and nobody cuts the
//! file meanwhile. A read holds nothing of the core's.
//!
//! # Limits
//! A FIFO has no buffer: reading finds nobody who writes, and nothing can be written (`EAGAIN`).

use super::target::Target;
use crate::file::OpenFile;
use crate::inode::{Extent, SetAttr};
use crate::special;
use openpath_abi::fcntl::{
    O_APPEND, O_NOATIME, SEEK_CUR, SEEK_DATA, SEEK_END, SEEK_HOLE, SEEK_SET,
};
use openpath_abi::limits::MAX_LFS_FILESIZE;
use openpath_abi::{Errno, mode};

/// The most that one call moves (`MAX_RW_COUNT`).
const ONCE_MAX: usize = 0x7fff_f000;

/// An offset as the caller gave it, and the end of what it asks for (`rw_verify_area`).
///
/// # Errors
/// `EINVAL` if the end is past the largest offset.
fn verify_area(offset: i64, len: usize) -> Result<(), Errno> {
    let len = i64::try_from(len).map_err(|_| Errno::EINVAL)?;
    offset.checked_add(len).map(|_| ()).ok_or(Errno::EINVAL)
}

impl OpenFile<'_> {
    /// Reads from `offset` on, whatever the file's own offset. Linux: pread(2).
    ///
    /// # Errors
    /// `EINVAL` (offset above 2^63 - 1), `EBADF` (`O_PATH`), `ESPIPE` (a FIFO), `EBADF` (not open
    /// for reading), `EINVAL` (the end overflows), `EISDIR`, what the backend meets.
    pub fn pread(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let offset = i64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        let target = self.full_target()?;
        if target.inode.kind() == mode::S_IFIFO {
            return Err(Errno::ESPIPE);
        }
        self.read_at(&target, buf, offset)
    }

    /// Reads from the file's offset on, and moves it. Linux: read(2).
    ///
    /// # Errors
    /// `EBADF` (`O_PATH`, not open for reading), `EINVAL` (the end overflows), `EISDIR`, `EAGAIN`
    /// (a FIFO open for writing too), what the backend meets.
    pub fn read(&self, buf: &mut [u8]) -> Result<usize, Errno> {
        let target = self.full_target()?;
        let offset = self.pos.get();
        let done = self.read_at(&target, buf, offset)?;
        if target.inode.kind() == mode::S_IFREG {
            self.pos.set(offset.saturating_add_unsigned(done as u64));
        }
        Ok(done)
    }

    fn read_at(&self, target: &Target<'_>, buf: &mut [u8], offset: i64) -> Result<usize, Errno> {
        if !self.readable() {
            return Err(Errno::EBADF);
        }
        verify_area(offset, buf.len())?;
        let len = buf.len().min(ONCE_MAX);
        let buf = &mut buf[..len];
        let inode = target.inode;
        match inode.kind() {
            mode::S_IFREG => {}
            mode::S_IFDIR => return Err(Errno::EISDIR),
            _ => return special::read(inode, buf, self.writable()),
        }
        let from = offset.cast_unsigned();
        let done = inode.shielded(|ops| ops.read_at(inode, buf, from))?;
        self.accessed(target);
        Ok(done)
    }

    /// Moves the access time after reading through this file (`file_accessed`).
    pub(super) fn accessed(&self, target: &Target<'_>) {
        if self.flags() & O_NOATIME == 0 {
            target.touch_atime();
        }
    }

    /// Writes from `offset` on, whatever the file's own offset; with `O_APPEND` at the end, as
    /// Linux does. Linux: pwrite(2).
    ///
    /// # Errors
    /// `EINVAL` (offset above 2^63 - 1), `EBADF` (`O_PATH`), `ESPIPE` (a FIFO), `EBADF` (not open
    /// for writing), `EINVAL` (the end overflows), `EFBIG`, what the backend meets.
    pub fn pwrite(&self, data: &[u8], offset: u64) -> Result<usize, Errno> {
        let offset = i64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        let target = self.full_target()?;
        if target.inode.kind() == mode::S_IFIFO {
            return Err(Errno::ESPIPE);
        }
        self.write_at(&target, data, offset).map(|(done, _)| done)
    }

    /// Writes from the file's offset on, or at its end with `O_APPEND`, and moves the offset.
    /// Linux: write(2).
    ///
    /// # Errors
    /// `EBADF` (`O_PATH`, not open for writing), `EINVAL` (the end overflows), `EFBIG`, `EAGAIN` (a
    /// FIFO), what the backend meets.
    pub fn write(&self, data: &[u8]) -> Result<usize, Errno> {
        let target = self.full_target()?;
        let (done, end) = self.write_at(&target, data, self.pos.get())?;
        self.pos.set(end);
        Ok(done)
    }

    /// Writes; how much, and the offset after it.
    fn write_at(
        &self,
        target: &Target<'_>,
        data: &[u8],
        offset: i64,
    ) -> Result<(usize, i64), Errno> {
        if !self.writable() {
            return Err(Errno::EBADF);
        }
        verify_area(offset, data.len())?;
        let data = &data[..data.len().min(ONCE_MAX)];
        let inode = target.inode;
        if inode.kind() != mode::S_IFREG {
            return special::write(inode, data).map(|done| (done, offset));
        }
        if data.is_empty() {
            return Ok((0, offset));
        }
        let _held = inode.lock_names();
        let from = if self.flags() & O_APPEND != 0 {
            inode.size()
        } else {
            offset.cast_unsigned()
        };
        let room = MAX_LFS_FILESIZE.cast_unsigned().saturating_sub(from);
        if room == 0 {
            return Err(Errno::EFBIG);
        }
        let len = usize::try_from(room).unwrap_or(usize::MAX).min(data.len());
        let now = target.core.vfs.clock.now();
        if let Some(kept) = target.drop_privileges(now)? {
            target.setattr(&SetAttr {
                mode: Some(kept),
                ctime: Some(now),
                ..SetAttr::default()
            })?;
        }
        let done = inode.shielded(|ops| ops.write_at(inode, &data[..len], from, now))?;
        Ok((done, from.saturating_add(done as u64).cast_signed()))
    }

    /// Moves the file's offset; the new one. Linux: lseek(2).
    ///
    /// A directory goes to any cookie, forward from the start or from where it is. The null and
    /// zero devices stay at 0.
    ///
    /// # Errors
    /// `EBADF` (`O_PATH`), `EINVAL` (whence), `ESPIPE` (a FIFO), `ENXIO` (no such data or hole),
    /// `EINVAL` (before the start, or past the largest offset).
    pub fn lseek(&self, offset: i64, whence: u32) -> Result<i64, Errno> {
        let target = self.full_target()?;
        if whence > SEEK_HOLE {
            return Err(Errno::EINVAL);
        }
        let to = match target.inode.kind() {
            mode::S_IFREG => self.seek_file(&target, offset, whence)?,
            mode::S_IFDIR => match whence {
                SEEK_SET => offset,
                SEEK_CUR => self.pos.get().wrapping_add(offset),
                _ => return Err(Errno::EINVAL),
            },
            mode::S_IFIFO => return Err(Errno::ESPIPE),
            _ => 0,
        };
        // Two offsets of which one is not negative overflow to a negative one at most.
        if to < 0 {
            return Err(Errno::EINVAL);
        }
        self.pos.set(to);
        Ok(to)
    }

    fn seek_file(&self, target: &Target<'_>, offset: i64, whence: u32) -> Result<i64, Errno> {
        let inode = target.inode;
        let extent = match whence {
            SEEK_CUR => return Ok(self.pos.get().wrapping_add(offset)),
            SEEK_END => return Ok(inode.size().cast_signed().wrapping_add(offset)),
            SEEK_DATA => Extent::Data,
            SEEK_HOLE => Extent::Hole,
            _ => return Ok(offset),
        };
        let from = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        let _held = inode.hold_names();
        let to = inode.shielded(|ops| ops.seek_extent(inode, from, extent))?;
        i64::try_from(to).map_err(|_| Errno::EINVAL)
    }
}
