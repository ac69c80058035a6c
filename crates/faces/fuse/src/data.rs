// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handles requests about the data and the extended attributes of files, and `STATFS`, as calls of
//! a task.
//!
//! With [`Opens::Never`] a file is opened for the duration of a request: the kernel has checked the
//! access, and the node keeps the file.

use crate::fs::{FuseFs, attr_of};
use crate::options::Opens;
use crate::stats::Request;
use crate::wire::ReplyBuilder;
use crate::worker::{ActingAs, Worker};
use openpath_abi::falloc::RWF_APPEND;
use openpath_abi::fcntl::{
    AT_EMPTY_PATH, F_GETFL, O_ACCMODE, O_APPEND, O_DIRECT, O_DSYNC, O_NOATIME, O_NONBLOCK,
    O_RDONLY, O_RDWR, O_SYNC, O_WRONLY, SEEK_CUR, SEEK_HOLE,
};
use openpath_abi::statx::STATX_SIZE;
use openpath_abi::{Errno, OFlags, StatFs, XattrFlags};
use openpath_vfs::Fd;
use openpath_vfs::fileattr::{FS_IOC_FSSETXATTR, FS_IOC_SETFLAGS};
use std::io::IoSlice;

/// A node, and the descriptor of the opening if the kernel's handle has one.
pub(crate) type OpenNode = (u64, Option<Fd>);

/// The most that one request copies between files, so that no copy occupies a thread for long.
const COPY_MAX: u64 = 64 << 20;
/// How a write reached the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// Directly from the caller.
    Direct,
    /// From a caller that appends to a file that others may have made longer.
    Append,
    /// From the writeback cache.
    Writeback,
}

/// After so many bytes a copy checks whether it was interrupted.
const COPY_STEP: usize = 1 << 20;

impl FuseFs {
    /// Calls `work` with an open descriptor of a file.
    fn with_open<T>(
        &self,
        w: &mut Worker,
        (number, fd): OpenNode,
        access: OFlags,
        work: impl FnOnce(&mut Worker, Fd) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let others = if access & O_ACCMODE == O_WRONLY && self.events.tracks_names {
            self.nodes.mark_written(number)
        } else {
            Vec::new()
        };
        let done = match fd {
            Some(fd) => work(w, fd),
            None => {
                let path_fd = self.nodes.path_fd(number)?;
                w.with_open(path_fd, access, work)
            }
        };
        if !others.is_empty() {
            let attr = attr_of(w, self.nodes.path_fd(number)?)?;
            self.events.size_changed(others, attr.size);
        }
        done
    }

    /// The flags for the server's own open when a caller opens with `flags`.
    pub(crate) fn open_flags(&self, flags: OFlags) -> OFlags {
        let access = if self.writeback && flags & O_ACCMODE == O_WRONLY {
            // Writeback writes whole pages, which the kernel has to read first.
            O_RDWR
        } else {
            flags & O_ACCMODE
        };
        // Each write says whether it appends.
        access | flags & (O_DIRECT | O_SYNC | O_DSYNC | O_NONBLOCK | O_NOATIME)
    }

    /// `O_APPEND` if the caller opened the file so. It is left out with the writeback cache, which
    /// writes whole pages: all of them would go to the end.
    fn append_flag(&self, flags: OFlags) -> OFlags {
        (flags & O_APPEND).only_if(!self.writeback)
    }

    /// `OPEN`; without a descriptor if the kernel is not to ask again.
    pub(crate) fn open(&self, w: &Worker, number: u64, flags: OFlags) -> Result<Fd, Errno> {
        if self.opens == Opens::Never {
            return Err(Errno::ENOSYS);
        }
        let path_fd = self.nodes.path_fd(number)?;
        let flags = self.open_flags(flags) | self.append_flag(flags);
        let fd = w.reopen(path_fd, flags)?;
        if flags & O_ACCMODE == O_RDWR {
            self.nodes.count_writable_open(number, true);
        }
        Ok(fd)
    }

    /// `FLUSH`: the result of closing one of several descriptors of an open file. The locks of the
    /// closing table end.
    pub(crate) fn flush(&self, w: &Worker, fd: Option<Fd>, owner: u64) -> Result<(), Errno> {
        let fd = fd.ok_or(Errno::ENOSYS)?;
        let closed = w.task.dup(fd).and_then(|copy| w.task.close(copy));
        if let Some(locks) = &self.locks {
            // Whatever the tree returned, and after it has handled the written data.
            locks.table_closed(w, fd, owner);
        }
        closed
    }

    /// `RELEASE`.
    pub(crate) fn release(&self, w: &Worker, (number, fd): OpenNode) -> Result<(), Errno> {
        let Some(fd) = fd else { return Ok(()) };
        let flags = w.task.fcntl(fd, F_GETFL, 0);
        if flags.is_ok_and(|flags| OFlags::from_bits_retain(flags as u32) & O_ACCMODE == O_RDWR) {
            self.nodes.count_writable_open(number, false);
        }
        if let Some(locks) = &self.locks {
            locks.opening_released(w, fd);
        }
        w.task.close(fd)
    }

    /// `READ`: up to `size` bytes, straight into the reply. To the kernel a short reply means the
    /// end of the file, so an error after the first piece fails the request. `status` are the flags
    /// of the open file.
    pub(crate) fn read(
        &self,
        w: &mut Worker,
        at: OpenNode,
        (offset, size, status): (u64, usize, OFlags),
        reply: &mut ReplyBuilder<'_>,
    ) -> Result<(), Errno> {
        let offset = i64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        self.with_open(w, at, O_RDONLY | status & O_NOATIME, |w, fd| {
            let is_end = |done| {
                let attr = w.task.statx(fd, b"", AT_EMPTY_PATH, STATX_SIZE);
                attr.is_ok_and(|attr| attr.size == offset.cast_unsigned() + done as u64)
            };
            reply.fill_with(size, |room| {
                let read = |done, more: &mut [u8]| {
                    w.task.pread(fd, more, offset.saturating_add(done as i64))
                };
                read_fully(room, read, is_end)
            })
        })
    }

    /// `WRITE`: how much was written.
    ///
    /// Writeback writes complete or fail: the kernel treats a short reply as complete. If one fails
    /// its data is lost, and close(2) or fsync(2) returns the error. A write past the cache may be
    /// short. An append goes to the end of the file, which the kernel may not know if others made
    /// it longer; then the kernel is told the size, since it cached the data elsewhere. With the
    /// writeback cache the kernel decides itself where the end is.
    ///
    /// Divergence: L75, L93.
    pub(crate) fn write(
        &self,
        w: &mut Worker,
        actor: ActingAs,
        at: OpenNode,
        (offset, kind, status): (u64, WriteKind, OFlags),
        data: &[u8],
    ) -> Result<usize, Errno> {
        let offset = i64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        let access = O_WRONLY | self.append_flag(status);
        w.act_as(actor);
        if kind == WriteKind::Append && !self.writeback {
            return self.append(w, at, offset, data);
        }
        let is_writeback = kind == WriteKind::Writeback;
        let written = self.with_open(w, at, access, |w, fd| {
            let mut done = 0;
            while done < data.len() {
                let more = &data[done..];
                match w.task.pwrite(fd, more, offset.saturating_add(done as i64)) {
                    Ok(0) if is_writeback => return Err(Errno::EIO),
                    Ok(0) => break,
                    Ok(written) => done += written,
                    Err(errno) if done == 0 || is_writeback => return Err(errno),
                    Err(_) => break,
                }
            }
            Ok(done)
        });
        if is_writeback && written.is_err() {
            self.counts.add(Request::Lost, 1);
        }
        written
    }

    /// Appends; the kernel assumes that the data goes to `offset`.
    fn append(
        &self,
        w: &mut Worker,
        at: OpenNode,
        offset: i64,
        data: &[u8],
    ) -> Result<usize, Errno> {
        let (done, end) = self.with_open(w, at, O_WRONLY | O_APPEND, |w, fd| {
            let done = w.task.pwritev2(fd, &[IoSlice::new(data)], -1, RWF_APPEND)?;
            Ok((done, w.task.lseek(fd, 0, SEEK_CUR)?))
        })?;
        if offset.saturating_add(done as i64) != end {
            self.events.size_changed(vec![at.0], end.cast_unsigned());
        }
        Ok(done)
    }

    /// `IOCTL` of requests about the file's flags.
    ///
    /// # Errors
    /// `EPERM`: flags are set in a user namespace with one user, without `CAP_LINUX_IMMUTABLE`.
    pub(crate) fn ioctl(
        &self,
        w: &mut Worker,
        actor: ActingAs,
        at: OpenNode,
        request: u32,
        arg: &mut [u8],
    ) -> Result<i64, Errno> {
        let sets = matches!(request, FS_IOC_SETFLAGS | FS_IOC_FSSETXATTR);
        if sets && self.only.is_some() {
            return Err(Errno::EPERM);
        }
        w.act_as(actor);
        self.with_open(w, at, O_RDONLY, |w, fd| w.task.ioctl(fd, request, arg))
    }

    /// `FSYNC` and `FSYNCDIR`.
    pub(crate) fn fsync(&self, w: &mut Worker, at: OpenNode, data_only: bool) -> Result<(), Errno> {
        self.with_open(w, at, O_RDONLY, |w, fd| {
            if data_only {
                w.task.fdatasync(fd)
            } else {
                w.task.fsync(fd)
            }
        })
    }

    /// `FALLOCATE`.
    pub(crate) fn fallocate(
        &self,
        w: &mut Worker,
        actor: ActingAs,
        at: OpenNode,
        mode: u32,
        (offset, len): (u64, u64),
    ) -> Result<(), Errno> {
        let offset = i64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        let len = i64::try_from(len).map_err(|_| Errno::EFBIG)?;
        w.act_as(actor);
        self.with_open(w, at, O_WRONLY, |w, fd| {
            w.task.fallocate(fd, mode, offset, len)
        })
    }

    /// `LSEEK`, for data and holes. Data in the writeback cache would be holes here, and data
    /// written by a mapping always arrives late: then the kernel is to treat the whole file as
    /// data. Which files may be mapped is known only with [`Opens::Each`].
    ///
    /// Divergence: L63.
    pub(crate) fn lseek(
        &self,
        w: &mut Worker,
        at: OpenNode,
        offset: i64,
        whence: u32,
    ) -> Result<i64, Errno> {
        if self.writeback || self.opens == Opens::Never {
            return Err(Errno::ENOSYS);
        }
        if self.nodes.may_be_mapped(at.0) {
            let size = attr_of(w, self.nodes.path_fd(at.0)?)?.size;
            let size = i64::try_from(size).map_err(|_| Errno::EINVAL)?;
            return match whence {
                _ if offset < 0 || offset >= size => Err(Errno::ENXIO),
                SEEK_HOLE => Ok(size),
                _ => Ok(offset),
            };
        }
        self.with_open(w, at, O_RDONLY, |w, fd| w.task.lseek(fd, offset, whence))
    }

    /// `COPY_FILE_RANGE`: how much was copied; less if it was interrupted.
    pub(crate) fn copy_file_range(
        &self,
        w: &mut Worker,
        actor: ActingAs,
        (from, from_offset): (OpenNode, u64),
        (to, to_offset): (OpenNode, u64),
        len: u64,
    ) -> Result<usize, Errno> {
        let mut from_offset = i64::try_from(from_offset).map_err(|_| Errno::EINVAL)?;
        let mut to_offset = i64::try_from(to_offset).map_err(|_| Errno::EINVAL)?;
        let len = len.min(COPY_MAX) as usize;
        let source = self.nodes.path_fd(from.0)?;
        w.act_as(actor);
        self.with_open(w, to, O_WRONLY, |w, fd| {
            let mut copy = |w: &mut Worker, from: Fd| {
                in_steps(w, len, |w, step| {
                    let (a, b) = (&mut from_offset, &mut to_offset);
                    w.task.copy_file_range(from, Some(a), fd, Some(b), step, 0)
                })
            };
            match from.1 {
                Some(from) => copy(w, from),
                None => w.with_open(source, O_RDONLY, copy),
            }
        })
    }

    /// `STATFS`.
    pub(crate) fn statfs(&self, w: &Worker, number: u64) -> Result<StatFs, Errno> {
        let path_fd = self.nodes.path_fd(number)?;
        w.task.fstatfs(path_fd)
    }

    /// `GETXATTR`.
    pub(crate) fn getxattr(&self, w: &Worker, number: u64, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.check_visible(name)?;
        let path_fd = self.nodes.path_fd(number)?;
        w.task.getxattrat(path_fd, b"", AT_EMPTY_PATH, name)
    }

    /// `LISTXATTR`.
    pub(crate) fn listxattr(&self, w: &Worker, number: u64) -> Result<Vec<u8>, Errno> {
        let path_fd = self.nodes.path_fd(number)?;
        let mut names = w.task.listxattrat(path_fd, b"", AT_EMPTY_PATH)?;
        if self.only.is_some() {
            let all = names.split_inclusive(|byte| *byte == 0);
            let shown = all.filter(|name| {
                self.check_visible(name.strip_suffix(b"\0").unwrap_or(name))
                    .is_ok()
            });
            names = shown.flatten().copied().collect();
        }
        Ok(names)
    }

    /// `SETXATTR`.
    pub(crate) fn setxattr(
        &self,
        w: &Worker,
        number: u64,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<(), Errno> {
        self.check_visible(name)?;
        let path_fd = self.nodes.path_fd(number)?;
        w.task
            .setxattrat(path_fd, b"", AT_EMPTY_PATH, name, value, flags)
    }

    /// `REMOVEXATTR`.
    pub(crate) fn removexattr(&self, w: &Worker, number: u64, name: &[u8]) -> Result<(), Errno> {
        self.check_visible(name)?;
        let path_fd = self.nodes.path_fd(number)?;
        w.task.removexattrat(path_fd, b"", AT_EMPTY_PATH, name)
    }
}

/// Fills `room` until `read` returns nothing, or until a short one ends where the file does;
/// returns how much it filled.
///
/// # Errors
/// The first of `read`, even after some data.
fn read_fully(
    room: &mut [u8],
    mut read: impl FnMut(usize, &mut [u8]) -> Result<usize, Errno>,
    is_end: impl Fn(usize) -> bool,
) -> Result<usize, Errno> {
    let mut done = 0;
    while done < room.len() {
        let more = read(done, &mut room[done..])?;
        done += more;
        if more == 0 || done < room.len() && is_end(done) {
            break;
        }
    }
    Ok(done)
}

/// Does a long operation in steps, until it is done or interrupted.
///
/// # Errors
/// `EINTR`: interrupted before the first step. Those of the first step.
fn in_steps(
    w: &mut Worker,
    len: usize,
    mut step: impl FnMut(&mut Worker, usize) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut done = 0;
    while done < len {
        let asked = (len - done).min(COPY_STEP);
        let more = if w.in_flight.is_interrupted() {
            Err(Errno::EINTR)
        } else {
            step(w, asked)
        };
        match more {
            Err(errno) if done == 0 => return Err(errno),
            Err(_) | Ok(0) => break,
            Ok(more) => done += more,
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ROOT;
    use crate::options::Options;
    use crate::stats::Stats;
    use openpath_mem::{MemFs, MemOptions};
    use openpath_vfs::{Cred, Vfs};

    #[test]
    fn a_write_past_the_cache_may_be_short_and_writeback_may_not() {
        let tree = MemFs::new(MemOptions::default().size(1 << 19));
        let vfs = Vfs::builder().build(tree).expect("a Vfs");
        let task = vfs.task(Cred::root()).expect("a task");
        let (fs, mut workers) = FuseFs::new(&task, &Options::default()).expect("a view");
        let (w, actor) = (&mut workers[0], ActingAs::Owner(0, 0));
        let made = fs.create(w, actor, (ROOT, b"file"), 0o600, O_RDWR);
        let at = (made.expect("made").0.number, None);
        let data = vec![1; 1 << 20];
        let short = fs.write(w, actor, at, (0, WriteKind::Direct, O_RDONLY), &data);
        assert!(short.is_ok_and(|n| n > 0 && n < data.len()), "{short:?}");
        assert_eq!(Stats::new(&fs.counts, 0).lost_writes(), 0);
        let lost = fs.write(w, actor, at, (0, WriteKind::Writeback, O_RDONLY), &data);
        assert_eq!(lost, Err(Errno::ENOSPC));
        assert_eq!(Stats::new(&fs.counts, 0).lost_writes(), 1);
    }

    #[test]
    fn removing_a_list_keeps_the_set_group_id_bit() {
        let tree = MemFs::new(MemOptions::default());
        let vfs = Vfs::builder().build(tree).expect("a Vfs");
        let task = vfs.task(Cred::root()).expect("a task");
        let (fs, mut workers) = FuseFs::new(&task, &Options::default()).expect("a view");
        let (w, actor) = (&mut workers[0], ActingAs::Owner(1000, 2000));
        let made = fs.mknod(w, actor, (ROOT, b"f"), 0o102_644, 0);
        let number = made.expect("made").number;
        let name = openpath_abi::xattr::ACL_ACCESS_NAME;
        // owner rw, user 7 r, group r, mask r, others none.
        let entries = [
            (1u16, 6u16, !0),
            (2, 4, 7),
            (4, 4, !0),
            (16, 4, !0),
            (32, 0, !0u32),
        ];
        let mut list = 2u32.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            list.extend(tag.to_le_bytes());
            list.extend(perm.to_le_bytes());
            list.extend(id.to_le_bytes());
        }
        let mode = |w: &Worker| fs.getattr(w, number).expect("attributes").mode & 0o7777;
        // The kernel says when setting a list strips the bit, and never when removing one does.
        w.act_as(ActingAs::Owner(1000, 1000));
        fs.setxattr(w, number, name, &list, XattrFlags::empty())
            .expect("set");
        fs.removexattr(w, number, name).expect("removed");
        assert_eq!(mode(w), 0o2640);
        w.act_as(ActingAs::Stripped(1000, 1000));
        fs.setxattr(w, number, name, &list, XattrFlags::empty())
            .expect("set");
        assert_eq!(mode(w), 0o640);
    }

    #[test]
    fn an_error_after_a_first_piece_is_not_the_end_of_the_file() {
        let mut room = [0; 8];
        let fails = |done, _: &mut [u8]| if done == 0 { Ok(3) } else { Err(Errno::EIO) };
        assert_eq!(read_fully(&mut room, fails, |_| false), Err(Errno::EIO));
        let ends = |done, _: &mut [u8]| Ok(if done < 6 { 3 } else { 0 });
        assert_eq!(read_fully(&mut room, ends, |_| false), Ok(6));
    }

    #[test]
    fn a_read_up_to_the_size_of_the_file_is_not_repeated() {
        let mut room = [0; 8];
        let mut reads = 0;
        let three = |_, _: &mut [u8]| {
            reads += 1;
            Ok(3)
        };
        assert_eq!(read_fully(&mut room, three, |done| done == 3), Ok(3));
        assert_eq!(reads, 1);
        // The size is not known yet: others append.
        let more = |done, _: &mut [u8]| Ok([3, 0, 0, 2, 0, 0][done]);
        assert_eq!(read_fully(&mut room, more, |done| done == 4), Ok(5));
    }
}
