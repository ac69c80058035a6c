// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads that do what would hold the owner of a ring up.
//!
//! # Kernel analogue
//! io-wq: `io_wq_enqueue`, `io_wqe_worker`, `io_wq_cancel_cb`; one pool serves many rings here.
//!
//! # States of a job
//! Queued in its ring's lane -> taken back by its ring; or run by a worker -> left at the ring's
//! desk. A ring that goes takes back what is queued, and interrupts what runs.
//!
//! # Locks
//! One, `PoolQueues`, for lanes, turns and threads. Nothing is run, dropped or woken while it is
//! held.
//!
//! # Rules
//! R1. Lanes take turns: a lane that has jobs and may have one more worker is in the round once.
//! R2. No lane has more workers at a time than its share, which leaves one for others.
//! R3. Who queues what may be run wakes an idle worker, or starts one while there are fewer than
//!     allowed. A worker looks before it sleeps, with the lock held.
//!
//! # Limits
//! A call that a backend does not end, and that cannot be interrupted, keeps its thread.

mod alarm;
mod lane;
mod options;
mod worker;

pub use options::PoolOptions;

pub(crate) use alarm::AlarmId;
pub(crate) use lane::LaneId;
pub(crate) use worker::{Job, StandIn};

use crate::desk::Desk;
use alarm::Alarms;
use lane::Lanes;
use openpath_sync::{Ended, Mutex, Parcel, Sleeper, WaitQueue};
use openpath_vfs::lock_order::PoolQueues;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Worker threads for any number of rings. Clones are the same pool; when the last is gone, and
/// with it every ring, its threads end.
///
/// ```
/// use openpath_ring::{Pool, PoolOptions};
/// let pool = Pool::new(PoolOptions::default());
/// assert_eq!(pool.threads(), 0, "they start when there is something to do");
/// ```
#[derive(Clone)]
pub struct Pool(Arc<Handle>);

struct Handle(Arc<Inner>);

pub(crate) struct Inner {
    options: PoolOptions,
    /// The lane of what was carried by a tree and is to be closed.
    closing: LaneId,
    state: Mutex<State, PoolQueues>,
}

struct State {
    lanes: Lanes,
    alarms: Alarms,
    /// Workers without a job.
    asleep: WaitQueue,
    idle: usize,
    /// Idle ones that have been woken and have not looked yet.
    woken: usize,
    threads: usize,
    /// How many were ever started, for their names.
    started: u64,
    /// No more jobs will come.
    over: bool,
    /// Who waits for the threads to end.
    ends: WaitQueue,
}

/// A pool in figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolStats {
    /// Threads there are.
    pub threads: usize,
    /// Threads without a job.
    pub idle: usize,
    /// Jobs that wait for a thread.
    pub queued: usize,
    /// Threads that were ever started.
    pub started: u64,
}

impl Pool {
    /// A pool, without a thread yet.
    #[must_use]
    pub fn new(options: PoolOptions) -> Self {
        let mut lanes = Lanes::default();
        let closing = lanes.add(options.share());
        let state = State {
            lanes,
            alarms: Alarms::default(),
            asleep: WaitQueue::default(),
            idle: 0,
            woken: 0,
            threads: 0,
            started: 0,
            over: false,
            ends: WaitQueue::default(),
        };
        let inner = Inner {
            options,
            closing,
            state: Mutex::new(state),
        };
        Self(Arc::new(Handle(Arc::new(inner))))
    }

    /// Threads there are now.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.stats().threads
    }

    /// What it is doing.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        let state = self.0.0.state.lock();
        PoolStats {
            threads: state.threads,
            idle: state.idle,
            queued: state.lanes.queued(),
            started: state.started,
        }
    }

    /// How it was set up.
    #[must_use]
    pub fn options(&self) -> &PoolOptions {
        &self.0.0.options
    }

    /// A lane for a ring that may have `workers` at a time, or what the pool allows.
    pub(crate) fn new_lane(&self, workers: Option<usize>) -> LaneId {
        let share = self.options().share();
        let share = workers.map_or(share, |workers| workers.clamp(1, share));
        self.0.0.state.lock().lanes.add(share)
    }

    /// Gives a lane up; what was queued in it.
    pub(crate) fn end_lane(&self, lane: LaneId) -> Vec<Parcel<Job>> {
        self.0.0.state.lock().lanes.end(lane)
    }

    /// Takes a job back that no worker has begun.
    pub(crate) fn recall(&self, lane: LaneId, ticket: u32) -> Option<Parcel<Job>> {
        let is_it = |job: &Parcel<Job>| job.ticket == ticket;
        self.0.0.state.lock().lanes.recall(lane, is_it)
    }

    /// Who closes jobs that a tree has carried, for as long as that takes.
    pub(crate) fn closers(&self) -> Closers {
        Closers(Arc::clone(&self.0.0))
    }

    /// Queues a job.
    ///
    /// # Errors
    /// The job, if there is no thread and none can be started.
    pub(crate) fn put(&self, lane: LaneId, job: Parcel<Job>) -> Result<(), Parcel<Job>> {
        put(&self.0.0, lane, job)
    }

    /// Has `desk` rung at `at`, instead of when was said before.
    pub(crate) fn set_alarm(&self, id: &mut AlarmId, desk: &Arc<Desk>, at: Option<Instant>) {
        alarm::set(&self.0.0, id, desk, at);
    }
}

/// Where a job lies for as long as it is one.
fn place_of(job: &Parcel<Job>) -> usize {
    std::ptr::from_ref::<Job>(job).addr()
}

/// Queues a job.
///
/// # Errors
/// The job, if there is no thread and none can be started.
fn put(inner: &Arc<Inner>, lane: LaneId, job: Parcel<Job>) -> Result<(), Parcel<Job>> {
    let mut state = inner.state.lock();
    let place = place_of(&job);
    state.lanes.put(lane, job);
    if !state.lanes.has_next() {
        // Its lane has its share of workers, who go on with it.
        return Ok(());
    }
    if state.idle > state.woken {
        state.woken += 1;
        let wake = state.asleep.wake_one();
        drop(state);
        drop(wake);
        return Ok(());
    }
    if state.threads >= inner.options.threads_max.max(1) {
        return Ok(());
    }
    state.threads += 1;
    state.started += 1;
    let name = format!("{}-{}", inner.options.name, state.started);
    drop(state);
    let theirs = Arc::clone(inner);
    if crate::thread::start(name, move || worker::work(&theirs)).is_ok() {
        return Ok(());
    }
    let mut state = inner.state.lock();
    state.threads -= 1;
    if state.threads > 0 {
        return Ok(());
    }
    // Another may have come and gone with it meanwhile.
    state
        .lanes
        .recall(lane, |job| place_of(job) == place)
        .map_or(Ok(()), Err)
}

/// The workers of a pool, for what a tree has carried.
pub(crate) struct Closers(Arc<Inner>);

impl Closers {
    /// Queues a job to be closed. It may come when the pool itself is gone, and is done all the
    /// same.
    ///
    /// # Errors
    /// The job, if there is no thread and none can be started.
    pub(crate) fn put(&self, job: Parcel<Job>) -> Result<(), Parcel<Job>> {
        put(&self.0, self.0.closing, job)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.stats()).finish()
    }
}

impl Drop for Handle {
    /// Every ring is gone, so nothing is queued. Threads that run what a ring left behind were
    /// interrupted; who does not end in time is left to itself.
    fn drop(&mut self) {
        let until = Instant::now() + self.0.options.end_within;
        let sleeper = Sleeper::default();
        let mut state = self.0.state.lock();
        state.over = true;
        let wake = state.asleep.wake_all();
        let alarm = state.alarms.wake();
        drop(state);
        drop((wake, alarm));
        let mut state = self.0.state.lock();
        while state.threads > 0 || state.alarms.is_kept() {
            let waited = self
                .0
                .state
                .wait(state, |state| &mut state.ends, &sleeper, Some(until));
            state = match waited {
                Ok(state) => state,
                Err((_, Ended::TimedOut | Ended::Interrupted)) => return,
            };
        }
    }
}
