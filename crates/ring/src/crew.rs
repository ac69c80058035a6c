// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a ring has of a pool: its lane, the stand-ins its jobs go with, and the desk they come back
//! to.
//!
//! # Rules
//! R1. A job goes with a stand-in that was briefed when it was submitted, and with the files that
//!     its descriptors meant then.
//! R2. A stand-in is one job's, and is back before it is another's. An interrupt that ended nothing
//!     is taken back with it.
//! R3. When a crew goes, what is queued goes with it, and what runs is interrupted and comes back
//!     to nobody: what it opened is closed with the desk.

use crate::carry;
use crate::desk::{Desk, Signal};
use crate::direct::Direct;
use crate::locks::Bell;
use crate::op::{Failed, File, Op, Outcome};
use crate::perform::buffers_of;
use crate::pool::{AlarmId, Job, LaneId, Pool, StandIn};
use openpath_abi::Errno;
use openpath_abi::fcntl::AT_FDCWD;
use openpath_sync::{Ended, Parcel, Sleeper};
use openpath_vfs::{Interrupter, OpenFile, Task};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

/// A ring's side of a pool.
pub(crate) struct Crew {
    pool: Pool,
    lane: LaneId,
    desk: Arc<Desk>,
    /// Without a job.
    spare: Vec<StandIn>,
    /// What interrupts a job, by its ticket; as many as ever were away at a time.
    away: Vec<Option<Interrupter>>,
    sleeper: Sleeper,
    alarm: AlarmId,
}

/// Stand-ins that are kept for later.
const SPARE_MAX: usize = 16;

/// The files that an operation is about, from the tables of its owner. A close takes its file out.
fn files_of(task: &Task, direct: &Direct, op: &Op) -> [Option<OpenFile>; 2] {
    let closes = matches!(op, Op::Close(_));
    let get = |task: &Task, fd| {
        if closes {
            task.take_file(fd)
        } else {
            task.file(fd)
        }
        .ok()
    };
    match op.file() {
        Some(File::Fd(fd)) => [get(task, fd), None],
        Some(File::Slot(slot)) => {
            let file = direct.task().zip(direct.fd(slot));
            [file.and_then(|(task, fd)| get(task, fd)), None]
        }
        None => op.dirs().map(|dir| {
            let dir = dir.filter(|&dir| dir != AT_FDCWD);
            dir.and_then(|dir| task.file(dir).ok())
        }),
    }
}

impl Crew {
    /// For a ring, on `workers` of the pool.
    pub(crate) fn new(pool: &Pool, workers: Option<usize>) -> Self {
        Self {
            pool: pool.clone(),
            lane: pool.new_lane(workers),
            desk: Arc::default(),
            spare: Vec::new(),
            away: Vec::new(),
            sleeper: Sleeper::default(),
            alarm: AlarmId::default(),
        }
    }

    pub(crate) fn desk(&self) -> &Desk {
        &self.desk
    }

    /// A stand-in that acts as `task` does now.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn stand_in(&mut self, task: &Task) -> Result<StandIn, Errno> {
        match self.spare.pop() {
            Some(spare) => {
                task.brief(&spare.task)?;
                Ok(spare)
            }
            None => StandIn::of(task),
        }
    }

    /// Takes a stand-in back (R2).
    pub(crate) fn relieve(&mut self, stand_in: StandIn) {
        let _stale = stand_in.interrupter.withdraw();
        if self.spare.len() < SPARE_MAX {
            self.spare.push(stand_in);
        }
    }

    /// Has the tree carry a call out, or sends it to the workers.
    ///
    /// # Errors
    /// `ENOMEM` (no stand-in), `EAGAIN` (no thread).
    pub(crate) fn send(
        &mut self,
        task: &Task,
        direct: &Direct,
        ticket: u32,
        op: Op,
        signal: Option<Signal>,
    ) -> Result<(), Failed> {
        let stand_in = match self.stand_in(task) {
            Ok(stand_in) => stand_in,
            Err(errno) => {
                let returned = buffers_of(op);
                return Err(Failed { errno, returned });
            }
        };
        let interrupter = stand_in.interrupter.clone();
        let job = Job {
            ticket,
            files: files_of(task, direct, &op),
            op: Some(op),
            stand_in: Some(stand_in),
            signal,
            desk: Some(Arc::clone(&self.desk)),
            outcome: None,
            moved: None,
            last: None,
        };
        let at = ticket as usize;
        if at >= self.away.len() {
            self.away.resize_with(at + 1, || None);
        }
        self.away[at] = Some(interrupter);
        let queued =
            carry::begin(&self.pool, Parcel::new(job)).or_else(|job| self.pool.put(self.lane, job));
        queued.map_err(|job| self.refuse(job, Errno::EAGAIN))
    }

    /// Ends a job that no worker has.
    fn refuse(&mut self, job: Parcel<Job>, errno: Errno) -> Failed {
        let job = job.open();
        self.away[job.ticket as usize] = None;
        let returned = job.op.map(buffers_of).unwrap_or_default();
        if let Some(stand_in) = job.stand_in {
            self.relieve(stand_in);
        }
        Failed { errno, returned }
    }

    /// Takes a job back that no worker has begun; as if cancelled.
    pub(crate) fn recall(&mut self, ticket: u32) -> Option<Failed> {
        let job = self.pool.recall(self.lane, ticket)?;
        Some(self.refuse(job, Errno::ECANCELED))
    }

    /// Interrupts a job that a worker has.
    pub(crate) fn interrupt(&self, ticket: u32) {
        if let Some(Some(interrupter)) = self.away.get(ticket as usize) {
            interrupter.interrupt();
        }
    }

    /// Whether nothing has come back since it was last asked.
    #[inline(always)]
    pub(crate) fn is_quiet(&self) -> bool {
        self.desk.inbox.is_empty()
    }

    /// What has come back: what came of a job, or nothing, which tells of a lock ([`Job::word`]).
    pub(crate) fn returned(&mut self, mut each: impl FnMut(u32, Option<Outcome>)) {
        for job in self.desk.inbox.take() {
            let job = job.open();
            let Some(stand_in) = job.stand_in else {
                each(job.ticket, None);
                continue;
            };
            self.away[job.ticket as usize] = None;
            self.relieve(stand_in);
            let outcome = job.outcome.unwrap_or_else(|| Err(Errno::EIO.into()));
            each(job.ticket, Some(outcome));
        }
    }

    /// What tells the owner that an operation has come to its lock.
    pub(crate) fn bell(&self, ticket: u32) -> Waker {
        Bell::waker(Job::word(ticket, &self.desk))
    }

    /// Sleeps until something comes back.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn sleep(&self, until: Option<Instant>) -> Result<(), Ended> {
        self.desk.sleep(&self.sleeper, until)
    }

    /// What ends the sleep of the owner, as a signal does.
    pub(crate) fn sleeper(&self) -> &Sleeper {
        &self.sleeper
    }

    /// Has the owner told at `at`, wherever it waits.
    pub(crate) fn set_alarm(&mut self, at: Option<Instant>) {
        self.pool.set_alarm(&mut self.alarm, &self.desk, at);
    }
}

impl Drop for Crew {
    /// R3
    fn drop(&mut self) {
        self.set_alarm(None);
        self.desk.set_hook(None);
        let queued = self.pool.end_lane(self.lane);
        drop(queued);
        for interrupter in self.away.iter().flatten() {
            interrupter.interrupt();
        }
    }
}
