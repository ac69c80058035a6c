// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attempts a call inline: answers it in the owner's thread if that needs no wait.
//!
//! # Kernel analogue
//! `io_issue_sqe` with `IO_URING_F_NONBLOCK`.
//!
//! # Rules
//! R1. An attempt returns what the call would return, or has no effect.
//! R2. A caller that sets `RESOLVE_CACHED` wants `EAGAIN`: its call does not go to a worker.
//! R3. Calls that change names, or that wait for a disk by their nature, are not attempted.

use crate::op::{Done, Op, OpenCall, Outcome, Output};
use crate::perform;
use openpath_abi::falloc::RWF_NOWAIT;
use openpath_abi::fcntl::{F_GETFL, F_SETFL, O_NONBLOCK};
use openpath_abi::resolve::RESOLVE_CACHED;
use openpath_abi::{AtFlags, Errno, StatxMask};
use openpath_vfs::{DataWait, Fd, Reason, Task, TryError};

/// The result of an attempt, or why a worker has to make the call.
pub(crate) enum Attempted<T> {
    Answered(Result<T, Errno>),
    WouldBlock(Option<Reason>),
}

use Attempted::{Answered, WouldBlock};

impl<T> Attempted<T> {
    /// The result of a non-blocking call of the core.
    #[inline(always)]
    fn of(task: &Task, attempted: Result<T, TryError>) -> Self {
        match attempted {
            Ok(value) => Answered(Ok(value)),
            Err(TryError::Errno(errno)) => Answered(Err(errno)),
            Err(TryError::WouldBlock) => WouldBlock(task.last_reason()),
        }
    }
}

/// Opens a path.
#[inline(always)]
pub(crate) fn open(task: &Task, dir: Fd, path: &[u8], how: &OpenCall) -> Attempted<Fd> {
    let attempted = match how {
        OpenCall::Openat(flags, mode) => task.try_openat(dir, path, *flags, *mode),
        OpenCall::Openat2(how) => task.try_openat2(dir, path, how),
    };
    match attempted {
        Err(TryError::WouldBlock) if how.resolve().contains(RESOLVE_CACHED) => {
            Answered(Err(Errno::EAGAIN))
        }
        attempted => Attempted::of(task, attempted),
    }
}

/// Opens as a ring does: a FIFO is opened with `O_NONBLOCK`, which is cleared afterwards. So an
/// open for reading succeeds at once, and one for writing fails with `ENXIO` while there is no
/// reader.
fn open_in_ring(task: &Task, dir: Fd, path: &[u8], how: &OpenCall) -> Attempted<Fd> {
    let attempted = open(task, dir, path, how);
    if !matches!(attempted, WouldBlock(Some(Reason::Peer))) {
        return attempted;
    }
    let attempted = open(task, dir, path, &how.nonblocking());
    if let Answered(Ok(fd)) = attempted
        && let Ok(flags) = task.fcntl(fd, F_GETFL, 0)
    {
        // The descriptor is open, so this cannot fail.
        let _told = task.fcntl(fd, F_SETFL, flags & !u64::from(O_NONBLOCK));
    }
    attempted
}

/// The attributes of the file at a path.
#[inline(always)]
pub(crate) fn stat(
    task: &Task,
    dir: Fd,
    path: &[u8],
    flags: AtFlags,
) -> Attempted<openpath_abi::Stat> {
    Attempted::of(task, task.try_fstatat(dir, path, flags))
}

/// The attributes of the file at a path that `mask` asks for.
#[inline(always)]
pub(crate) fn statx(
    task: &Task,
    dir: Fd,
    path: &[u8],
    flags: AtFlags,
    mask: StatxMask,
) -> Attempted<openpath_abi::Statx> {
    Attempted::of(task, task.try_statx(dir, path, flags, mask))
}

/// Moves data by `call`, which gets `RWF_*` flags.
#[inline]
pub(crate) fn data(
    task: &Task,
    fd: Fd,
    call: impl FnOnce(u32) -> Result<usize, Errno>,
) -> Attempted<usize> {
    match task.data_wait(fd) {
        // Not open: errors of the other arguments come first.
        None | Some(DataWait::Never) => Answered(call(0)),
        Some(DataWait::Asked { nonblocking }) => match call(RWF_NOWAIT) {
            Err(Errno::EAGAIN) if !nonblocking => WouldBlock(None),
            moved => Answered(moved),
        },
        Some(DataWait::Always) => WouldBlock(None),
    }
}

/// Closes a descriptor.
#[inline]
pub(crate) fn close(task: &Task, fd: Fd) -> Attempted<()> {
    if task.data_wait(fd) == Some(DataWait::Always) {
        return WouldBlock(None);
    }
    Answered(task.close(fd))
}

/// Attempts an operation on `fd`, or on a path; without a result, the operation is unchanged.
pub(crate) fn attempt(task: &Task, fd: Fd, op: &mut Op) -> Attempted<Done> {
    match op {
        Op::Open(at, how, _) => open_in_ring(task, at.dir, &at.path, how).map(Done::installed),
        Op::Stat(at, flags) => {
            stat(task, at.dir, &at.path, *flags).map(|stat| Done::with(Output::Stat(stat)))
        }
        Op::Statx(at, flags, mask) => statx(task, at.dir, &at.path, *flags, *mask)
            .map(|statx| Done::with(Output::Statx(statx))),
        Op::Close(_) => close(task, fd).map(|()| Done::default()),
        _ => WouldBlock(Some(Reason::Change)),
    }
}

/// As [`attempt`], for operations that move data; a result takes the buffers out of the operation.
pub(crate) fn move_data(task: &Task, fd: Fd, op: &mut Op) -> Option<Outcome> {
    let attempted = match op {
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
    let Answered(moved) = attempted else {
        return None;
    };
    Some(match op {
        Op::Read(_, buf, _) => perform::read_into_one(std::mem::take(buf), moved),
        Op::Readv(_, bufs, _) => perform::read_into_many(std::mem::take(bufs), moved),
        Op::Write(_, bytes, _) => perform::written(bytes.len(), moved),
        Op::Writev(_, pieces, _) => perform::written(perform::length(pieces), moved),
        _ => return None,
    })
}

impl<T> Attempted<T> {
    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> Attempted<U> {
        match self {
            Answered(answer) => Answered(answer.map(f)),
            WouldBlock(why) => WouldBlock(why),
        }
    }
}
