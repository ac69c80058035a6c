// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens FIFOs: an opener waits until a peer (a reader for a writer, or a writer for a reader) has
//! opened the FIFO too.
//!
//! # Kernel analogue
//! `fifo_open`, `wait_for_partner`, `wake_up_partner`.
//!
//! # Rules
//! R1. An opener counts as an end before it waits, so that two that wait for each other meet; if it
//!     is interrupted, it is uncounted.
//! R2. It waits for a peer to come, not for one to be there: the counts of all openers so far tell.

use super::end::PipeEnd;
use super::{Pipe, PipeAccounting};
use crate::config::Limits;
use crate::cred::Cred;
use crate::lock_order::InodePipes;
use openpath_abi::fcntl::{O_ACCMODE, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY};
use openpath_abi::{Errno, OFlags};
use openpath_sync::{Mutex, Waiter, Wake};
use std::sync::{Arc, Weak};

/// The pipe of an inode, as long as it has an open end (`i_pipe`).
pub(crate) type InodePipe = Mutex<Weak<Pipe>, InodePipes>;

/// The task that opens a FIFO, and the account of its capacity.
#[derive(Clone, Copy)]
pub(crate) struct Opener<'a> {
    pub(crate) accounting: &'a Arc<PipeAccounting>,
    pub(crate) limits: &'a Limits,
    pub(crate) cred: &'a Cred,
    /// Sleeps until a peer comes; `None`: the open does not wait.
    pub(crate) sleeper: Option<&'a Waiter>,
}

/// Opens a FIFO, whose inode keeps its pipe at `place`; `None` if it would wait for a peer without
/// a sleeper.
///
/// # Errors
/// `ENOMEM` (the user has as many pages of pipes as allowed), `EINVAL` (neither for reading nor for
/// writing), `ENXIO` (only for writing, without waiting, and without a reader), `EINTR` (while it
/// waited for a peer).
pub(crate) fn open_fifo(
    place: &InodePipe,
    flags: OFlags,
    opener: Opener<'_>,
) -> Result<Option<PipeEnd>, Errno> {
    join(pipe_at(place, opener)?, flags, opener.sleeper)
}

/// The pipe of the inode, made if it has no open end.
///
/// # Errors
/// `ENOMEM`.
fn pipe_at(place: &InodePipe, opener: Opener<'_>) -> Result<Arc<Pipe>, Errno> {
    let mut place = place.lock();
    if let Some(pipe) = place.upgrade() {
        return Ok(pipe);
    }
    let share = opener.accounting.share(opener.cred, opener.limits)?;
    let pipe = Pipe::new(share, false);
    *place = Arc::downgrade(&pipe);
    Ok(pipe)
}

/// Whether an end with these flags reads, and whether it writes.
///
/// # Errors
/// `EINVAL`: neither.
fn sides(flags: OFlags) -> Result<(bool, bool), Errno> {
    match flags & O_ACCMODE {
        O_RDONLY => Ok((true, false)),
        O_WRONLY => Ok((false, true)),
        O_RDWR => Ok((true, true)),
        _ => Err(Errno::EINVAL),
    }
}

/// Whether a new end would be without a peer; one that is both is its own.
fn is_alone(sides: (bool, bool), readers: bool, writers: bool) -> bool {
    match sides {
        (true, false) => !writers,
        (false, true) => !readers,
        _ => false,
    }
}

/// Whether opening the FIFO would wait for a peer now.
///
/// # Errors
/// As [`open_fifo`], except those of taking resources.
#[cold]
pub(crate) fn would_meet(place: &InodePipe, flags: OFlags) -> Result<bool, Errno> {
    let sides = sides(flags)?;
    let pipe = place.lock().upgrade();
    let (readers, writers) = pipe.map_or((false, false), |pipe| {
        let state = pipe.state.lock();
        (state.readers != 0, state.writers != 0)
    });
    let alone = is_alone(sides, readers, writers);
    let may_wait = !flags.contains(O_NONBLOCK);
    if alone && sides.1 && !may_wait {
        return Err(Errno::ENXIO);
    }
    Ok(alone && may_wait)
}

/// A new end of the pipe, when it has a peer or needs none; `None` if it would wait for one without
/// a sleeper.
fn join(
    pipe: Arc<Pipe>,
    flags: OFlags,
    sleeper: Option<&Waiter>,
) -> Result<Option<PipeEnd>, Errno> {
    let (reads, writes) = sides(flags)?;
    let may_wait = !flags.contains(O_NONBLOCK);
    let (came, alone, wake) = {
        let mut state = pipe.state.lock();
        let alone = is_alone((reads, writes), state.readers != 0, state.writers != 0);
        if alone && writes && !may_wait {
            return Err(Errno::ENXIO);
        }
        if alone && may_wait && sleeper.is_none() {
            return Ok(None);
        }
        let came = state.came(!reads);
        let first = reads && state.readers == 0 || writes && state.writers == 0;
        state.enter(reads, writes);
        let wake = if first {
            state.opening.wake_all()
        } else {
            Wake::default()
        };
        (came, alone, wake)
    };
    // For such a reader there is no hangup until a writer comes that it has not seen.
    let seen = if alone && !may_wait { came } else { 0 };
    let end = PipeEnd::new(pipe, reads, writes, seen);
    drop(wake);
    if let Some(sleeper) = sleeper
        && alone
        && may_wait
    {
        end.meet(came, sleeper)?;
    }
    Ok(Some(end))
}

impl PipeEnd {
    /// Waits until a peer comes that is not among the first `came`.
    ///
    /// # Errors
    /// `EINTR`.
    fn meet(&self, came: u64, sleeper: &Waiter) -> Result<(), Errno> {
        let pipe = self.pipe();
        let mut state = pipe.state.lock();
        while state.came(!self.reads()) == came {
            let waited = pipe
                .state
                .wait(state, |state| &mut state.opening, sleeper, None);
            state = waited.map_err(|_| Errno::EINTR)?;
        }
        Ok(())
    }
}
