// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves the position of the next read or write: lseek(2).

use crate::file::Filp;
use crate::file_ops::Fd;
use crate::inode::{Extent, shield};
use crate::target::Target;
use crate::task::Task;
use openpath_abi::fcntl::{SEEK_CUR, SEEK_DATA, SEEK_END, SEEK_HOLE, SEEK_SET};
use openpath_abi::{Errno, mode};

impl Task {
    /// Moves the position of the file at `fd`; the new one. Linux: lseek(2).
    ///
    /// A directory goes to any cookie, forward from the start or from its position. A device goes
    /// where its driver says; the built-in ones stay at 0.
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (whence), `ESPIPE` (a FIFO, a stream), `ENXIO` (no
    /// such data or hole), `EINVAL` (before the start, or past the largest offset), what the driver
    /// meets.
    pub fn lseek(&self, fd: Fd, offset: i64, whence: u32) -> Result<i64, Errno> {
        let file = self.core.fdget_full(fd)?;
        let _pos = file.hold_pos();
        let target = file.target()?;
        if whence > SEEK_HOLE {
            return Err(Errno::EINVAL);
        }
        let to = match target.inode.kind() {
            mode::S_IFREG => file.seek_file(&target, offset, whence)?,
            mode::S_IFDIR => match whence {
                SEEK_SET => offset,
                SEEK_CUR => file.pos().wrapping_add(offset),
                _ => return Err(Errno::EINVAL),
            },
            mode::S_IFIFO | mode::S_IFSOCK => return Err(Errno::ESPIPE),
            _ => file.seek_device(offset, whence)?,
        };
        // Two offsets of which one is not negative overflow to a negative one at most.
        if to < 0 {
            return Err(Errno::EINVAL);
        }
        file.set_pos(to);
        Ok(to)
    }
}

impl Filp<'_> {
    /// Where a driver says: without its word, always at 0.
    fn seek_device(&self, offset: i64, whence: u32) -> Result<i64, Errno> {
        let Some(own) = self.own_ops() else {
            return Ok(0);
        };
        if own.is_stream() {
            return Err(Errno::ESPIPE);
        }
        let to = shield(|| own.seek(self.pos(), offset, whence).transpose())?;
        Ok(to.unwrap_or(0))
    }

    fn seek_file(&self, target: &Target<'_>, offset: i64, whence: u32) -> Result<i64, Errno> {
        let inode = target.inode;
        let extent = match whence {
            SEEK_CUR => return Ok(self.pos().wrapping_add(offset)),
            SEEK_END => {
                target.confirm()?;
                return Ok(inode.size().cast_signed().wrapping_add(offset));
            }
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
