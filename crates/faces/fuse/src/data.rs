// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about what is in a file, and about its extended attributes.
//!
//! Where files are not opened one by one ([`Opens::Never`]) a file is opened for the length of the
//! request: that it may be was decided by the kernel, and that it is still there is what its node
//! sees to.

use crate::options::Opens;
use crate::pool::{Who, Worker};
use crate::view::View;
use openpath_abi::fcntl::{
    AT_EMPTY_PATH, O_ACCMODE, O_DIRECT, O_DSYNC, O_NOATIME, O_NONBLOCK, O_RDONLY, O_RDWR, O_SYNC,
    O_WRONLY,
};
use openpath_abi::{Errno, StatFs};
use openpath_vfs::Fd;

/// A file, and the descriptor that it is open at, if it is one of the kernel's own opening.
pub(crate) type At = (u64, Option<Fd>);

/// Most that one request reads.
const READ_MAX: usize = 1 << 20;
/// Most that one request copies between files, so that none holds a thread for long.
const COPY_MAX: u64 = 64 << 20;

impl View {
    /// Does something with an open file.
    fn with<T>(
        &self,
        who: Who,
        (number, fd): At,
        access: u32,
        work: impl FnOnce(&mut Worker, Fd) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if let Some(fd) = fd {
            return self.pool.run(who, |w| work(w, fd));
        }
        let place = self.nodes.place(number)?;
        self.pool.run(who, |w| w.opened(place, access, work))
    }

    /// The flags with which a file is opened that the kernel opens with `flags`.
    pub(crate) fn kept_flags(&self, flags: u32) -> u32 {
        let access = if self.writeback && flags & O_ACCMODE == O_WRONLY {
            // What is written back is whole pages, which have to be read first.
            O_RDWR
        } else {
            flags & O_ACCMODE
        };
        // Where an append goes is the kernel's to say.
        access | flags & (O_DIRECT | O_SYNC | O_DSYNC | O_NONBLOCK | O_NOATIME)
    }

    /// `OPEN`; no descriptor if the kernel is not to ask again.
    pub(crate) fn open(&self, number: u64, flags: u32) -> Result<Fd, Errno> {
        if self.opens == Opens::Never {
            return Err(Errno::ENOSYS);
        }
        let place = self.nodes.place(number)?;
        let flags = self.kept_flags(flags);
        self.pool.run(Who::Anyone, |w| w.task.reopen(place, flags))
    }

    /// `FLUSH`: what closing one of several descriptors of an open file says.
    pub(crate) fn flush(&self, fd: Option<Fd>) -> Result<(), Errno> {
        let fd = fd.ok_or(Errno::ENOSYS)?;
        self.pool.run(Who::Anyone, |w| {
            let copy = w.task.dup(fd)?;
            w.task.close(copy)
        })
    }

    /// `RELEASE`.
    pub(crate) fn release(&self, fd: Option<Fd>) -> Result<(), Errno> {
        let Some(fd) = fd else { return Ok(()) };
        self.pool.run(Who::Anyone, |w| w.task.close(fd))
    }

    /// `READ`: gives what was read to `show`.
    pub(crate) fn read(
        &self,
        at: At,
        offset: u64,
        size: usize,
        show: impl FnOnce(&[u8]),
    ) -> Result<(), Errno> {
        let offset = i64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        let size = size.min(READ_MAX);
        self.with(Who::Anyone, at, O_RDONLY, |w, fd| {
            if w.buffer.len() < size {
                w.buffer.resize(size, 0);
            }
            let mut done = 0;
            while done < size {
                let more = &mut w.buffer[done..size];
                match w.task.pread(fd, more, offset.saturating_add(done as i64)) {
                    Ok(0) => break,
                    Ok(read) => done += read,
                    Err(errno) if done == 0 => return Err(errno),
                    Err(_) => break,
                }
            }
            show(&w.buffer[..done]);
            Ok(())
        })
    }

    /// `WRITE`: how much was written.
    pub(crate) fn write(&self, who: Who, at: At, offset: u64, data: &[u8]) -> Result<usize, Errno> {
        let offset = i64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        self.with(who, at, O_WRONLY, |w, fd| {
            let mut done = 0;
            while done < data.len() {
                let more = &data[done..];
                match w.task.pwrite(fd, more, offset.saturating_add(done as i64)) {
                    Ok(0) => break,
                    Ok(written) => done += written,
                    Err(errno) if done == 0 => return Err(errno),
                    Err(_) => break,
                }
            }
            Ok(done)
        })
    }

    /// `FSYNC` and `FSYNCDIR`.
    pub(crate) fn sync(&self, at: At, data_only: bool) -> Result<(), Errno> {
        self.with(Who::Anyone, at, O_RDONLY, |w, fd| {
            if data_only {
                w.task.fdatasync(fd)
            } else {
                w.task.fsync(fd)
            }
        })
    }

    /// `FALLOCATE`.
    pub(crate) fn allocate(
        &self,
        who: Who,
        at: At,
        mode: u32,
        (offset, len): (u64, u64),
    ) -> Result<(), Errno> {
        let offset = i64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        let len = i64::try_from(len).map_err(|_| Errno::EFBIG)?;
        self.with(who, at, O_WRONLY, |w, fd| {
            w.task.fallocate(fd, mode, offset, len)
        })
    }

    /// `LSEEK`, for data and holes. What the kernel has not written back yet would be holes here:
    /// then it is to take whole files for data.
    ///
    /// Divergence: L63.
    pub(crate) fn seek(&self, at: At, offset: i64, whence: u32) -> Result<i64, Errno> {
        if self.writeback {
            return Err(Errno::ENOSYS);
        }
        self.with(Who::Anyone, at, O_RDONLY, |w, fd| {
            w.task.lseek(fd, offset, whence)
        })
    }

    /// `COPY_FILE_RANGE`: how much was copied.
    pub(crate) fn copy(
        &self,
        who: Who,
        (from, from_offset): (At, u64),
        (to, to_offset): (At, u64),
        len: u64,
    ) -> Result<usize, Errno> {
        let mut from_offset = i64::try_from(from_offset).map_err(|_| Errno::EINVAL)?;
        let mut to_offset = i64::try_from(to_offset).map_err(|_| Errno::EINVAL)?;
        let len = len.min(COPY_MAX) as usize;
        let source = self.nodes.place(from.0)?;
        self.with(who, to, O_WRONLY, |w, fd| {
            let mut copy = |w: &mut Worker, from: Fd| {
                let (a, b) = (&mut from_offset, &mut to_offset);
                w.task.copy_file_range(from, Some(a), fd, Some(b), len, 0)
            };
            match from.1 {
                Some(from) => copy(w, from),
                None => w.opened(source, O_RDONLY, copy),
            }
        })
    }

    /// `STATFS`.
    pub(crate) fn figures(&self, number: u64) -> Result<StatFs, Errno> {
        let place = self.nodes.place(number)?;
        self.pool.run(Who::Anyone, |w| w.task.fstatfs(place))
    }

    /// `GETXATTR`.
    pub(crate) fn getxattr(&self, number: u64, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let place = self.nodes.place(number)?;
        self.pool.run(Who::Anyone, |w| {
            w.task.getxattrat(place, b"", AT_EMPTY_PATH, name)
        })
    }

    /// `LISTXATTR`.
    pub(crate) fn listxattr(&self, number: u64) -> Result<Vec<u8>, Errno> {
        let place = self.nodes.place(number)?;
        self.pool.run(Who::Anyone, |w| {
            w.task.listxattrat(place, b"", AT_EMPTY_PATH)
        })
    }

    /// `SETXATTR`.
    pub(crate) fn setxattr(
        &self,
        number: u64,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<(), Errno> {
        let place = self.nodes.place(number)?;
        self.pool.run(Who::Anyone, |w| {
            w.task
                .setxattrat(place, b"", AT_EMPTY_PATH, name, value, flags)
        })
    }

    /// `REMOVEXATTR`.
    pub(crate) fn removexattr(&self, number: u64, name: &[u8]) -> Result<(), Errno> {
        let place = self.nodes.place(number)?;
        self.pool.run(Who::Anyone, |w| {
            w.task.removexattrat(place, b"", AT_EMPTY_PATH, name)
        })
    }
}
