// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines how each call of a future is attempted inline, with borrowed arguments, how a worker
//! makes it, with copies, and what its caller gets.

use crate::attempt::{self, Attempted};
use crate::op::{Destination, Done, File, Op, OpenCall, Outcome, Output, PathArg};
use crate::perform;
use openpath_abi::fcntl::O_CLOEXEC;
use openpath_abi::{AtFlags, Errno, Mode, RenameFlags, Stat, Statx, StatxMask};
use openpath_vfs::{Bytes, DirEntry, Fd, Task};

/// A call.
pub(super) trait AsyncOp {
    /// The type of its result.
    type Out;
    /// Its number in `linux/io_uring.h`.
    const CODE: u8;
    /// Whether it opens a file.
    const OPENS: bool = false;
    /// Attempts it inline.
    fn attempt(&mut self, task: &Task) -> Attempted<Self::Out>;
    /// The call for a worker.
    fn op(&self) -> Op;
    /// The result of a worker, for the caller.
    ///
    /// # Errors
    /// Those of the call; of an open `EMFILE`, `ENOMEM`.
    fn answer(&mut self, task: &Task, outcome: Outcome) -> Result<Self::Out, Errno>;
}

/// The result of a worker, unless it is an error.
fn done(outcome: Outcome) -> Result<Done, Errno> {
    outcome.map_err(|failed| failed.errno)
}

/// A path, and the directory that it is relative to.
#[derive(Clone, Copy)]
pub(super) struct PathRef<'a>(pub(super) Fd, pub(super) &'a [u8]);

impl PathRef<'_> {
    fn to_arg(self) -> PathArg {
        PathArg {
            dir: self.0,
            path: Bytes::from(self.1),
        }
    }
}

pub(super) struct Open<'a>(pub(super) PathRef<'a>, pub(super) OpenCall);

impl AsyncOp for Open<'_> {
    type Out = Fd;
    const CODE: u8 = 28;
    const OPENS: bool = true;

    #[inline(always)]
    fn attempt(&mut self, task: &Task) -> Attempted<Fd> {
        attempt::open(task, self.0.0, self.0.1, &self.1)
    }

    fn op(&self) -> Op {
        Op::Open(self.0.to_arg(), self.1, Destination::Fd)
    }

    fn answer(&mut self, task: &Task, outcome: Outcome) -> Result<Fd, Errno> {
        let opened = done(outcome)?.opened;
        let (file, cloexec) = opened.ok_or(Errno::EIO)?;
        task.install(&file, O_CLOEXEC.only_if(cloexec))
    }
}

pub(super) struct StatAt<'a>(pub(super) PathRef<'a>, pub(super) AtFlags);

impl AsyncOp for StatAt<'_> {
    type Out = Stat;
    const CODE: u8 = 21;

    #[inline(always)]
    fn attempt(&mut self, task: &Task) -> Attempted<Stat> {
        attempt::stat(task, self.0.0, self.0.1, self.1)
    }

    fn op(&self) -> Op {
        Op::Stat(self.0.to_arg(), self.1)
    }

    fn answer(&mut self, _task: &Task, outcome: Outcome) -> Result<Stat, Errno> {
        match done(outcome)?.output {
            Output::Stat(stat) => Ok(stat),
            _ => Err(Errno::EIO),
        }
    }
}

pub(super) struct StatxAt<'a>(
    pub(super) PathRef<'a>,
    pub(super) AtFlags,
    pub(super) StatxMask,
);

impl AsyncOp for StatxAt<'_> {
    type Out = Statx;
    const CODE: u8 = 21;

    #[inline(always)]
    fn attempt(&mut self, task: &Task) -> Attempted<Statx> {
        attempt::statx(task, self.0.0, self.0.1, self.1, self.2)
    }

    fn op(&self) -> Op {
        Op::Statx(self.0.to_arg(), self.1, self.2)
    }

    fn answer(&mut self, _task: &Task, outcome: Outcome) -> Result<Statx, Errno> {
        match done(outcome)?.output {
            Output::Statx(statx) => Ok(statx),
            _ => Err(Errno::EIO),
        }
    }
}

pub(super) struct Close(pub(super) Fd);

impl AsyncOp for Close {
    type Out = ();
    const CODE: u8 = 19;

    #[inline(always)]
    fn attempt(&mut self, task: &Task) -> Attempted<()> {
        attempt::close(task, self.0)
    }

    fn op(&self) -> Op {
        Op::Close(File::Fd(self.0))
    }

    fn answer(&mut self, _task: &Task, outcome: Outcome) -> Result<(), Errno> {
        done(outcome).map(drop)
    }
}

pub(super) struct Read<'a>(pub(super) Fd, pub(super) &'a mut [u8], pub(super) i64);

impl AsyncOp for Read<'_> {
    type Out = usize;
    const CODE: u8 = 22;

    #[inline]
    fn attempt(&mut self, task: &Task) -> Attempted<usize> {
        let Self(fd, buf, offset) = self;
        attempt::data(task, *fd, |flags| {
            perform::read(task, *fd, buf, *offset, flags)
        })
    }

    fn op(&self) -> Op {
        Op::Read(File::Fd(self.0), vec![0; self.1.len()], self.2)
    }

    fn answer(&mut self, _task: &Task, outcome: Outcome) -> Result<usize, Errno> {
        match done(outcome)?.output {
            Output::Buffer(read) => {
                let into = self.1.get_mut(..read.len()).ok_or(Errno::EIO)?;
                into.copy_from_slice(&read);
                Ok(read.len())
            }
            _ => Err(Errno::EIO),
        }
    }
}

pub(super) struct Write<'a>(pub(super) Fd, pub(super) &'a [u8], pub(super) i64);

impl AsyncOp for Write<'_> {
    type Out = usize;
    const CODE: u8 = 23;

    #[inline]
    fn attempt(&mut self, task: &Task) -> Attempted<usize> {
        let Self(fd, data, offset) = *self;
        attempt::data(task, fd, |flags| {
            perform::write(task, fd, data, offset, flags)
        })
    }

    fn op(&self) -> Op {
        Op::Write(File::Fd(self.0), Bytes::from(self.1), self.2)
    }

    fn answer(&mut self, _task: &Task, outcome: Outcome) -> Result<usize, Errno> {
        // At most the requested length.
        Ok(done(outcome)?.result as usize)
    }
}

pub(super) struct List(pub(super) Fd, pub(super) usize);

impl AsyncOp for List {
    type Out = Vec<DirEntry>;
    const CODE: u8 = 255;

    fn attempt(&mut self, _task: &Task) -> Attempted<Vec<DirEntry>> {
        Attempted::WouldBlock(None)
    }

    fn op(&self) -> Op {
        Op::List(File::Fd(self.0), self.1)
    }

    fn answer(&mut self, _task: &Task, outcome: Outcome) -> Result<Vec<DirEntry>, Errno> {
        match done(outcome)?.output {
            Output::Entries(entries) => Ok(entries),
            _ => Err(Errno::EIO),
        }
    }
}

/// Calls that change something, which always go to a worker.
pub(super) enum Change<'a> {
    Sync(Fd, bool),
    Truncate(Fd, i64),
    Allocate(Fd, u32, i64, i64),
    Unlink(PathRef<'a>, AtFlags),
    Rename(PathRef<'a>, PathRef<'a>, RenameFlags),
    Mkdir(PathRef<'a>, Mode),
    Symlink(&'a [u8], PathRef<'a>),
    Link(PathRef<'a>, PathRef<'a>, AtFlags),
}

impl AsyncOp for Change<'_> {
    type Out = ();
    const CODE: u8 = 0;

    fn attempt(&mut self, _task: &Task) -> Attempted<()> {
        Attempted::WouldBlock(Some(openpath_vfs::Reason::Change))
    }

    fn op(&self) -> Op {
        match *self {
            Self::Sync(fd, data) => Op::Sync(File::Fd(fd), data),
            Self::Truncate(fd, len) => Op::Truncate(File::Fd(fd), len),
            Self::Allocate(fd, how, offset, len) => Op::Allocate(File::Fd(fd), how, offset, len),
            Self::Unlink(at, flags) => Op::Unlink(at.to_arg(), flags),
            Self::Rename(at, to, flags) => Op::Rename(at.to_arg(), to.to_arg(), flags),
            Self::Mkdir(at, mode) => Op::Mkdir(at.to_arg(), mode),
            Self::Symlink(target, at) => Op::Symlink(Bytes::from(target), at.to_arg()),
            Self::Link(at, to, flags) => Op::Link(at.to_arg(), to.to_arg(), flags),
        }
    }

    fn answer(&mut self, _task: &Task, outcome: Outcome) -> Result<(), Errno> {
        done(outcome).map(drop)
    }
}
