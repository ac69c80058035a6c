// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements pipes (pipe(7), fifo(7)): the data, ends and waiters of FIFOs of any file system, and
//! of pipes made by pipe2(2).
//!
//! # Kernel analogue
//! `struct pipe_inode_info` and `pipefifo_fops`: as there, a FIFO's pipe is the core's and no
//! backend gets its data.
//!
//! This module has the pipe and its ends. An open of a FIFO begins in `open::grant`, pipe2(2) is in
//! `ops::pipe`, and sendfile(2) into a pipe in `io::splice`.
//!
//! # States
//! None -> made by the first open of the inode -> kept by the open ends, and by openers that wait
//! for a peer -> gone with the last of them, and all unread data with it.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | the inode's pipe | its own lock | the same |
//! | all of a pipe's state | the pipe's lock | the same |
//! | pages of each user | the accounting lock | the same |
//!
//! # Rules
//! R1. A change of a pipe wakes, before it releases the lock, one waiter that can go on now, and
//!     all of them if the other side is gone ([`State::settle`]). A woken waiter does the same, so
//!     none sleeps beside data or room.
//! R2. Ends are counted by [`PipeEnd`], and uncounted when it is dropped: by a close, or by an open
//!     that failed.
//! R3. Memory is taken when data is written, up to the capacity; capacities are counted for users
//!     and for the `Vfs`.
//!
//! # Guarantees
//! G1. Up to `PIPE_BUF` (4096) bytes are written whole or not at all.
//! G2. An opener that saw a peer come is let through, even if that is gone again.
//!
//! # Limits
//! * `SIGPIPE` is the host's: every `EPIPE` of a write is one, unless `RWF_NOSIGNAL` was given. So
//!   are the signals of `O_ASYNC`.
//! * There is no splice(2), tee(2) or vmsplice(2), and no watch queue (`O_NOTIFICATION_PIPE`).

mod accounting;
mod end;
mod open;
mod ring;
mod size;
mod splice;

pub(crate) use accounting::PipeAccounting;
pub(crate) use end::PipeEnd;
pub(crate) use open::{InodePipe, Opener, open_fifo, would_meet};
pub(crate) use ring::SLOT;

use crate::lock_order::PipeState;
use accounting::PipeCharge;
use openpath_sync::{Mutex, WaitQueue, Wake};
use ring::Ring;
use std::sync::Arc;

/// Slots of a new pipe (`PIPE_DEF_BUFFERS`).
const SLOTS: u32 = 16;
/// Slots of a new pipe of a user with many pipes (`PIPE_MIN_DEF_BUFFERS`).
const SLOTS_MIN: u32 = 2;

/// A pipe.
pub(crate) struct Pipe {
    state: Mutex<State, PipeState>,
    /// Without a name: made by pipe2(2).
    anonymous: bool,
}

/// What the lock of a pipe protects.
struct State {
    ring: Ring,
    /// Slots that another task is about to fill without the lock.
    reserved: usize,
    /// Slots there may be, as they are counted for its user.
    share: PipeCharge,
    readers: u32,
    writers: u32,
    /// How many readers ever came.
    readers_seen: u64,
    /// How many writers ever came.
    writers_seen: u64,
    /// Openers that wait for a peer.
    opening: WaitQueue,
    /// Readers that wait for data.
    reading: WaitQueue,
    /// Writers that wait for room.
    writing: WaitQueue,
}

impl Pipe {
    fn new(share: PipeCharge, anonymous: bool) -> Arc<Self> {
        let state = State {
            ring: Ring::default(),
            reserved: 0,
            share,
            readers: 0,
            writers: 0,
            readers_seen: 0,
            writers_seen: 0,
            opening: WaitQueue::default(),
            reading: WaitQueue::default(),
            writing: WaitQueue::default(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            anonymous,
        })
    }

    /// Both ends of a new pipe without a name: the reading one, and the writing one.
    pub(crate) fn ends(share: PipeCharge) -> (PipeEnd, PipeEnd) {
        let pipe = Self::new(share, true);
        pipe.state.lock().enter(true, true);
        let read_end = PipeEnd::new(Arc::clone(&pipe), true, false, 0);
        (read_end, PipeEnd::new(pipe, false, true, 0))
    }
}

impl State {
    /// Free slots.
    fn room(&self) -> usize {
        let used = self.ring.slots() + self.reserved;
        (self.share.slots() as usize).saturating_sub(used)
    }

    /// The waiters to wake after a change (R1); woken when the lock is released.
    fn settle(&mut self) -> [Wake; 2] {
        let reading = if self.writers == 0 {
            self.reading.wake_all()
        } else if self.ring.is_empty() {
            Wake::default()
        } else {
            self.reading.wake_one()
        };
        let writing = if self.readers == 0 {
            self.writing.wake_all()
        } else if self.room() == 0 {
            Wake::default()
        } else {
            self.writing.wake_one()
        };
        [reading, writing]
    }
}
