// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inline attempt: what can be answered in the owner's thread without a wait.
//!
//! # Kernel analogue
//! `io_issue_sqe` with `IO_URING_F_NONBLOCK`.
//!
//! # Rules
//! R1. An attempt answers what the call would answer, or leaves nothing behind.
//! R2. A caller's own `RESOLVE_CACHED` is its wish to hear `EAGAIN`: no worker is asked.
//! R3. What changes names, or waits for a disk by its nature, is not attempted.

use crate::op::{Done, How, Op, Outcome, Output};
use crate::perform;
use openpath_abi::Errno;
use openpath_abi::falloc::RWF_NOWAIT;
use openpath_abi::fcntl::{F_GETFL, F_SETFL, O_NONBLOCK};
use openpath_abi::resolve::RESOLVE_CACHED;
use openpath_vfs::{DataWait, Fd, Reason, Task, TryError};

/// What an attempt gives: an answer, or why it is a worker's to find.
pub(crate) enum Tried<T> {
    Answer(Result<T, Errno>),
    Later(Option<Reason>),
}

use Tried::{Answer, Later};

impl<T> Tried<T> {
    /// What a try of the core gives.
    #[inline(always)]
    fn of(task: &Task, tried: Result<T, TryError>) -> Self {
        match tried {
            Ok(value) => Answer(Ok(value)),
            Err(TryError::Errno(errno)) => Answer(Err(errno)),
            Err(TryError::WouldBlock) => Later(task.last_reason()),
        }
    }
}

/// Opens.
#[inline(always)]
pub(crate) fn open(task: &Task, dir: Fd, path: &[u8], how: &How) -> Tried<Fd> {
    let tried = match how {
        How::Flags(flags, mode) => task.try_openat(dir, path, *flags, *mode),
        How::Strict(how) => task.try_openat2(dir, path, how),
    };
    match tried {
        Err(TryError::WouldBlock) if how.resolve() & RESOLVE_CACHED != 0 => {
            Answer(Err(Errno::EAGAIN))
        }
        tried => Tried::of(task, tried),
    }
}

/// Opens as a ring does: a FIFO is opened as with `O_NONBLOCK`, and is without it afterwards. So it
/// opens for reading at once, and for writing with `ENXIO` while nobody reads.
fn open_in_ring(task: &Task, dir: Fd, path: &[u8], how: &How) -> Tried<Fd> {
    let tried = open(task, dir, path, how);
    if !matches!(tried, Later(Some(Reason::Peer))) {
        return tried;
    }
    let tried = open(task, dir, path, &how.nonblocking());
    if let Answer(Ok(fd)) = tried
        && let Ok(flags) = task.fcntl(fd, F_GETFL, 0)
    {
        // It is open, and can be told so much.
        let _told = task.fcntl(fd, F_SETFL, flags & !u64::from(O_NONBLOCK));
    }
    tried
}

/// What a file is, by its path.
#[inline(always)]
pub(crate) fn stat(task: &Task, dir: Fd, path: &[u8], flags: u32) -> Tried<openpath_abi::Stat> {
    Tried::of(task, task.try_fstatat(dir, path, flags))
}

/// What a file is, by its path, as far as `mask` asks.
#[inline(always)]
pub(crate) fn statx(
    task: &Task,
    dir: Fd,
    path: &[u8],
    flags: u32,
    mask: u32,
) -> Tried<openpath_abi::Statx> {
    Tried::of(task, task.try_statx(dir, path, flags, mask))
}

/// Moves data by `call`, which is given `RWF_*` flags.
#[inline]
pub(crate) fn data(
    task: &Task,
    fd: Fd,
    call: impl FnOnce(u32) -> Result<usize, Errno>,
) -> Tried<usize> {
    match task.data_wait(fd) {
        // Not open: what the call says about its other arguments comes first.
        None | Some(DataWait::Never) => Answer(call(0)),
        Some(DataWait::Asked { nonblocking }) => match call(RWF_NOWAIT) {
            Err(Errno::EAGAIN) if !nonblocking => Later(None),
            moved => Answer(moved),
        },
        Some(DataWait::Always) => Later(None),
    }
}

/// Closes.
#[inline]
pub(crate) fn close(task: &Task, fd: Fd) -> Tried<()> {
    if task.data_wait(fd) == Some(DataWait::Always) {
        return Later(None);
    }
    Answer(task.close(fd))
}

/// Attempts an operation that is about `fd`, or about a path; where it is a worker's, it is as it
/// was.
pub(crate) fn attempt(task: &Task, fd: Fd, op: &mut Op) -> Tried<Done> {
    match op {
        Op::Open(at, how, _) => open_in_ring(task, at.dir, &at.path, how).map(Done::installed),
        Op::Stat(at, flags) => {
            stat(task, at.dir, &at.path, *flags).map(|stat| Done::with(Output::Stat(stat)))
        }
        Op::Statx(at, flags, mask) => statx(task, at.dir, &at.path, *flags, *mask)
            .map(|statx| Done::with(Output::Statx(statx))),
        Op::Close(_) => close(task, fd).map(|()| Done::default()),
        _ => Later(Some(Reason::Change)),
    }
}

/// As [`attempt`], for what moves data; the buffers leave the operation with the answer.
pub(crate) fn move_data(task: &Task, fd: Fd, op: &mut Op) -> Option<Outcome> {
    let tried = match op {
        Op::Read(_, buf, offset) => data(task, fd, |flags| {
            perform::read(task, fd, buf, *offset, flags)
        }),
        Op::Readv(_, bufs, offset) => data(task, fd, |flags| {
            perform::readv(task, fd, bufs, *offset, flags)
        }),
        Op::Write(_, bytes, offset) => data(task, fd, |flags| {
            perform::write(task, fd, bytes, *offset, flags)
        }),
        Op::Writev(_, pieces, offset) => data(task, fd, |flags| {
            perform::writev(task, fd, pieces, *offset, flags)
        }),
        _ => return None,
    };
    let Answer(moved) = tried else { return None };
    Some(match op {
        Op::Read(_, buf, _) => perform::read_into_one(std::mem::take(buf), moved),
        Op::Readv(_, bufs, _) => perform::read_into_many(std::mem::take(bufs), moved),
        Op::Write(_, bytes, _) => perform::written(bytes.len(), moved),
        Op::Writev(_, pieces, _) => perform::written(perform::length(pieces), moved),
        _ => return None,
    })
}

impl<T> Tried<T> {
    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> Tried<U> {
        match self {
            Answer(answer) => Answer(answer.map(f)),
            Later(why) => Later(why),
        }
    }
}
