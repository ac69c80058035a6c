// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the worker pool: threads for calls that would block the owner of a ring.
//!
//! # Kernel analogue
//! io-wq: `io_wq_enqueue`, `io_wqe_worker`, `io_wq_cancel_cb`; one pool serves many rings here.
//!
//! # States of a job
//! Queued in its ring's lane -> recalled by its ring; or run by a worker -> posted to the ring's
//! mailbox. A ring that is dropped recalls its queued jobs, and interrupts those that run.
//!
//! # Locks
//! One, `PoolQueues`, for lanes and threads. Nothing is run, dropped or woken while it is held.
//!
//! # Rules
//! R1. Lanes are served in turn: a lane with jobs that may have another worker is ready, and queued
//!     once.
//! R2. No lane has more workers at a time than its share, which leaves one for others.
//! R3. When a job is queued that may run, an idle worker is woken, or one is started while there
//!     are fewer than allowed. A worker checks for jobs before it sleeps, with the lock held.
//!
//! # Limits
//! A call that the backend does not end, and that cannot be interrupted, keeps its thread.

mod lane;
mod options;
mod timer;
mod worker;

pub use options::PoolOptions;

pub(crate) use lane::LaneId;
pub(crate) use timer::TimerId;

use crate::job::{Job, Mailbox};
use lane::Lanes;
use openpath_sync::{Message, Mutex, WaitError, WaitQueue, Waiter};
use openpath_vfs::lock_order::PoolQueues;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;
use timer::Timers;

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
    /// The lane for jobs that the backend has done.
    completion_lane: LaneId,
    state: Mutex<State, PoolQueues>,
}

struct State {
    lanes: Lanes,
    timers: Timers,
    /// Workers without a job.
    asleep: WaitQueue,
    idle: usize,
    /// Idle workers that were woken and have not checked yet.
    woken: usize,
    threads: usize,
    /// How many were ever started, for their names.
    started: u64,
    /// No more jobs will come.
    shutting_down: bool,
    /// Wakes the drop of the pool when a thread ends.
    thread_ends: WaitQueue,
}

/// The figures of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PoolStats {
    /// Threads.
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
        let completion_lane = lanes.add(options.share());
        let state = State {
            lanes,
            timers: Timers::default(),
            asleep: WaitQueue::default(),
            idle: 0,
            woken: 0,
            threads: 0,
            started: 0,
            shutting_down: false,
            thread_ends: WaitQueue::default(),
        };
        let inner = Inner {
            options,
            completion_lane,
            state: Mutex::new(state),
        };
        Self(Arc::new(Handle(Arc::new(inner))))
    }

    /// Threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.stats().threads
    }

    /// The figures of the pool.
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

    /// The options of the pool.
    #[must_use]
    pub fn options(&self) -> &PoolOptions {
        &self.0.0.options
    }

    /// A lane for a ring with `workers` at a time, or as many as the pool allows.
    pub(crate) fn new_lane(&self, workers: Option<usize>) -> LaneId {
        let share = self.options().share();
        let share = workers.map_or(share, |workers| workers.clamp(1, share));
        self.0.0.state.lock().lanes.add(share)
    }

    /// Removes a lane; returns its queued jobs.
    pub(crate) fn end_lane(&self, lane: LaneId) -> Vec<Message<Job>> {
        self.0.0.state.lock().lanes.end(lane)
    }

    /// Recalls a job that no worker has begun.
    pub(crate) fn recall(&self, lane: LaneId, ticket: u32) -> Option<Message<Job>> {
        let is_it = |job: &Message<Job>| job.ticket == ticket;
        self.0.0.state.lock().lanes.recall(lane, is_it)
    }

    /// The lane in which jobs of a backend are completed, for as long as one holds it.
    pub(crate) fn completions(&self) -> CompletionLane {
        CompletionLane(Arc::clone(&self.0.0))
    }

    /// Queues a job.
    ///
    /// # Errors
    /// The job, if there is no thread and none can be started.
    pub(crate) fn put(&self, lane: LaneId, job: Message<Job>) -> Result<(), Message<Job>> {
        put(&self.0.0, lane, job)
    }

    /// Has `mailbox` notified at `at`, instead of the time that was set before.
    pub(crate) fn set_timer(&self, id: &mut TimerId, mailbox: &Arc<Mailbox>, at: Option<Instant>) {
        timer::set(&self.0.0, id, mailbox, at);
    }
}

/// The address of a job, which identifies it.
fn address_of(job: &Message<Job>) -> usize {
    std::ptr::from_ref::<Job>(job).addr()
}

/// Queues a job.
///
/// # Errors
/// The job, if there is no thread and none can be started.
fn put(inner: &Arc<Inner>, lane: LaneId, job: Message<Job>) -> Result<(), Message<Job>> {
    let mut state = inner.state.lock();
    let address = address_of(&job);
    state.lanes.put(lane, job);
    if !state.lanes.has_next() {
        // Its lane has its share of workers, which will take it.
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
    // Another worker may have come, run it and gone meanwhile.
    state
        .lanes
        .recall(lane, |job| address_of(job) == address)
        .map_or(Ok(()), Err)
}

/// The workers of a pool, for jobs of a backend.
pub(crate) struct CompletionLane(Arc<Inner>);

impl CompletionLane {
    /// Queues a job to be completed. This also works, and the job is run, when the pool itself is
    /// gone.
    ///
    /// # Errors
    /// The job, if there is no thread and none can be started.
    pub(crate) fn put(&self, job: Message<Job>) -> Result<(), Message<Job>> {
        put(&self.0, self.0.completion_lane, job)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.stats()).finish()
    }
}

impl Drop for Handle {
    /// Every ring is gone, so nothing is queued. Threads that still run jobs were interrupted;
    /// those that do not end in time are left behind.
    fn drop(&mut self) {
        let until = Instant::now() + self.0.options.shutdown_timeout;
        let sleeper = Waiter::default();
        let mut state = self.0.state.lock();
        state.shutting_down = true;
        let wake = state.asleep.wake_all();
        let timer = state.timers.wake();
        drop(state);
        drop((wake, timer));
        let mut state = self.0.state.lock();
        while state.threads > 0 || state.timers.has_thread() {
            let waited =
                self.0
                    .state
                    .wait(state, |state| &mut state.thread_ends, &sleeper, Some(until));
            state = match waited {
                Ok(state) => state,
                Err((_, WaitError::TimedOut | WaitError::Interrupted)) => return,
            };
        }
    }
}
