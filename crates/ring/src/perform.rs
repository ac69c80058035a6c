// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a call as a worker does: to the end, however long that takes.
//!
//! # Rules
//! R1. A file of the owner's call is put into the proxy task's table for the duration of the call,
//!     and taken out without being closed.
//! R2. A file that is opened leaves the proxy task's table before the owner learns of it: it is in
//!     no table until the owner installs it.

use crate::op::{Done, Failed, Op, OpenCall, Outcome, Output, PathArg, ReturnedBuffers};
use openpath_abi::Errno;
use openpath_abi::fcntl::{AT_FDCWD, O_CLOEXEC, O_RDONLY};
use openpath_vfs::{Bytes, Fd, OpenFile, Task};
use std::io::{IoSlice, IoSliceMut};

/// Files in the table of a proxy task, for the duration of a call.
struct Borrowed<'a> {
    task: &'a Task,
    fds: [Fd; 2],
}

impl<'a> Borrowed<'a> {
    /// Installs `files`; a file that was not open stays so.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    fn new(task: &'a Task, files: &[Option<OpenFile>; 2]) -> Result<Self, Errno> {
        let mut borrowed = Self {
            task,
            fds: [CLOSED; 2],
        };
        for (fd, file) in borrowed.fds.iter_mut().zip(files) {
            if let Some(file) = file {
                *fd = task.install(file, O_RDONLY)?;
            }
        }
        Ok(borrowed)
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        for fd in self.fds.into_iter().filter(|&fd| fd != CLOSED) {
            // R1
            let _taken = self.task.take_file(fd);
        }
    }
}

/// A descriptor that is neither open nor the working directory.
const CLOSED: Fd = -1;

/// Makes the call.
pub(crate) fn perform(task: &Task, op: Op, files: [Option<OpenFile>; 2]) -> Outcome {
    let borrowed = match Borrowed::new(task, &files) {
        Ok(borrowed) => borrowed,
        Err(errno) => {
            let returned = buffers_of(op);
            return Err(Failed { errno, returned });
        }
    };
    drop(files);
    call(task, op, borrowed.fds)
}

/// The directory of a path, in the proxy task's table.
fn dir(path: &PathArg, fd: Fd) -> Fd {
    if path.dir == AT_FDCWD { AT_FDCWD } else { fd }
}

/// Makes the call with files in the table of `task`.
pub(crate) fn call(task: &Task, op: Op, [fd, to]: [Fd; 2]) -> Outcome {
    let nothing = |(): ()| Done::default();
    match op {
        Op::Open(at, how, _) => Ok(open(task, dir(&at, fd), &at.path, how)?),
        Op::Stat(at, flags) => {
            let stat = task.fstatat(dir(&at, fd), &at.path, flags)?;
            Ok(Done::with(Output::Stat(stat)))
        }
        Op::Statx(at, flags, mask) => {
            let statx = task.statx(dir(&at, fd), &at.path, flags, mask)?;
            Ok(Done::with(Output::Statx(statx)))
        }
        Op::Close(_) => Ok(task.close(fd).map(nothing)?),
        Op::Read(_, mut buf, offset) => {
            let done = read(task, fd, &mut buf, offset, 0);
            read_into_one(buf, done)
        }
        Op::Readv(_, mut bufs, offset) => {
            let done = readv(task, fd, &mut bufs, offset, 0);
            read_into_many(bufs, done)
        }
        Op::Write(_, data, offset) => written(data.len(), write(task, fd, &data, offset, 0)),
        Op::Writev(_, data, offset) => written(length(&data), writev(task, fd, &data, offset, 0)),
        Op::Sync(_, false) => Ok(task.fsync(fd).map(nothing)?),
        Op::Sync(_, true) => Ok(task.fdatasync(fd).map(nothing)?),
        Op::Truncate(_, len) => Ok(task.ftruncate(fd, len).map(nothing)?),
        Op::Allocate(_, how, offset, len) => {
            Ok(task.fallocate(fd, how, offset, len).map(nothing)?)
        }
        Op::List(_, max) => {
            let entries = task.getdents64(fd, max)?;
            Ok(Done {
                result: entries.len() as u64,
                output: Output::Entries(entries),
                ..Done::default()
            })
        }
        Op::Unlink(at, flags) => Ok(task.unlinkat(dir(&at, fd), &at.path, flags).map(nothing)?),
        Op::Rename(at, new, flags) => {
            let (from, into) = (dir(&at, fd), dir(&new, to));
            Ok(task
                .renameat2(from, &at.path, into, &new.path, flags)
                .map(nothing)?)
        }
        Op::Mkdir(at, mode) => Ok(task.mkdirat(dir(&at, fd), &at.path, mode).map(nothing)?),
        Op::Symlink(target, at) => Ok(task
            .symlinkat(&target, dir(&at, fd), &at.path)
            .map(nothing)?),
        Op::Link(at, new, flags) => {
            let (from, into) = (dir(&at, fd), dir(&new, to));
            Ok(task
                .linkat(from, &at.path, into, &new.path, flags)
                .map(nothing)?)
        }
        Op::Custom(custom) => {
            let work = custom.work.ok_or(Errno::EIO)?;
            Ok(Done {
                custom: Some(work(task, [fd, to])?),
                ..Done::default()
            })
        }
    }
}

/// Opens, and takes the file out of the table (R2).
///
/// # Errors
/// Those of the open.
fn open(task: &Task, dir: Fd, path: &[u8], how: OpenCall) -> Result<Done, Errno> {
    let fd = match how {
        OpenCall::Openat(flags, mode) => task.openat(dir, path, flags, mode),
        OpenCall::Openat2(how) => task.openat2(dir, path, &how),
    }?;
    let file = task.take_file(fd)?;
    let cloexec = how.flags() & u64::from(O_CLOEXEC) != 0;
    Ok(Done {
        opened: Some((file, cloexec)),
        ..Done::default()
    })
}

/// The buffers of an operation that is not run.
pub(crate) fn buffers_of(op: Op) -> ReturnedBuffers {
    match op {
        Op::Read(_, buf, _) => ReturnedBuffers::One(buf),
        Op::Readv(_, bufs, _) => ReturnedBuffers::Many(bufs),
        _ => ReturnedBuffers::None,
    }
}

/// Reads into `buf`, with `RWF_*` flags. A file without offsets is read at its position.
///
/// # Errors
/// Those of preadv2(2).
pub(crate) fn read(
    task: &Task,
    fd: Fd,
    buf: &mut [u8],
    offset: i64,
    flags: u32,
) -> Result<usize, Errno> {
    let read = match (flags, offset) {
        (0, -1) => task.read(fd, buf),
        (0, _) => task.pread(fd, buf, offset),
        _ => task.preadv2(fd, &mut [IoSliceMut::new(buf)], offset, flags),
    };
    match read {
        Err(Errno::ESPIPE) if offset >= 0 => self::read(task, fd, buf, -1, flags),
        read => read,
    }
}

/// As [`read`], into several buffers.
///
/// # Errors
/// Those of preadv2(2).
pub(crate) fn readv(
    task: &Task,
    fd: Fd,
    bufs: &mut [Vec<u8>],
    offset: i64,
    flags: u32,
) -> Result<usize, Errno> {
    let mut slices: Vec<_> = bufs.iter_mut().map(|buf| IoSliceMut::new(buf)).collect();
    match task.preadv2(fd, &mut slices, offset, flags) {
        Err(Errno::ESPIPE) if offset >= 0 => readv(task, fd, bufs, -1, flags),
        read => read,
    }
}

/// Writes, with `RWF_*` flags. A file without offsets is written at its position.
///
/// # Errors
/// Those of pwritev2(2).
pub(crate) fn write(
    task: &Task,
    fd: Fd,
    data: &[u8],
    offset: i64,
    flags: u32,
) -> Result<usize, Errno> {
    let written = match (flags, offset) {
        (0, -1) => task.write(fd, data),
        (0, _) => task.pwrite(fd, data, offset),
        _ => task.pwritev2(fd, &[IoSlice::new(data)], offset, flags),
    };
    match written {
        Err(Errno::ESPIPE) if offset >= 0 => write(task, fd, data, -1, flags),
        written => written,
    }
}

/// As [`write()`], of several pieces.
///
/// # Errors
/// Those of pwritev2(2).
pub(crate) fn writev(
    task: &Task,
    fd: Fd,
    data: &[Bytes],
    offset: i64,
    flags: u32,
) -> Result<usize, Errno> {
    let pieces: Vec<_> = data.iter().map(|piece| IoSlice::new(piece)).collect();
    match task.pwritev2(fd, &pieces, offset, flags) {
        Err(Errno::ESPIPE) if offset >= 0 => writev(task, fd, data, -1, flags),
        written => written,
    }
}

/// The result of a read into one buffer.
pub(crate) fn read_into_one(mut buf: Vec<u8>, read: Result<usize, Errno>) -> Outcome {
    let asked = buf.len();
    match read {
        Ok(done) => {
            buf.truncate(done);
            Ok(moved(done, asked, Output::Buffer(buf)))
        }
        Err(errno) => Err(Failed {
            errno,
            returned: ReturnedBuffers::One(buf),
        }),
    }
}

/// The result of a read into several buffers.
pub(crate) fn read_into_many(mut bufs: Vec<Vec<u8>>, read: Result<usize, Errno>) -> Outcome {
    let asked = bufs.iter().map(Vec::len).sum();
    let done = match read {
        Ok(done) => done,
        Err(errno) => {
            let returned = ReturnedBuffers::Many(bufs);
            return Err(Failed { errno, returned });
        }
    };
    let mut left = done;
    for buf in &mut bufs {
        let len = left.min(buf.len());
        left -= len;
        buf.truncate(len);
    }
    Ok(moved(done, asked, Output::Buffers(bufs)))
}

/// The result of a write of `asked` bytes.
pub(crate) fn written(asked: usize, written: Result<usize, Errno>) -> Outcome {
    Ok(moved(written?, asked, Output::None))
}

fn moved(done: usize, asked: usize, output: Output) -> Done {
    Done {
        result: done as u64,
        output,
        short: done != asked,
        ..Done::default()
    }
}

/// The bytes of several pieces.
pub(crate) fn length(data: &[Bytes]) -> usize {
    data.iter().map(|piece| piece.len()).sum()
}
