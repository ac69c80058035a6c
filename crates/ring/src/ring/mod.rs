// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the ring: it takes calls of a task in batches, does not wait for them, and returns a
//! completion for each.
//!
//! # Kernel analogue
//! `io_uring` with `IORING_SETUP_SINGLE_ISSUER`, `IORING_SETUP_DEFER_TASKRUN` and
//! `IORING_SETUP_SUBMIT_ALL`.
//!
//! # States of an operation
//! Prepared -> held (by a chain or a drain) -> answered inline; or offloaded; or waiting for a time
//! or a lock -> its completion is posted -> taken. Chains continue and time-outs expire while the
//! owner is in the ring: in [`Ring::submit`], [`Ring::wait`], [`Ring::next_completion`].
//!
//! # Fields
//! All belong to the owner; workers only write to the mailbox.
//!
//! # Rules
//! R1. Each operation reserves an entry of the completion queue at submission, so the queue does
//!     not overflow. An operation that posts several completions posts more than one only if there
//!     is room.
//! R2. Each submission completes exactly once. Exceptions are silent entries, and those that post
//!     several completions (`more`), of which the last one says so.
//! R3. Only the owner writes to its file table: a file that a worker opened gets its descriptor
//!     when the owner collects the result.
//!
//! # Divergence: L23, L34, L35, L36, L37, L38
//! Running calls are not killed; late results are seen when the owner enters the ring.

mod cancel;
mod chain;
mod direct;
mod issue;
mod locks;
mod request;
mod time;

use crate::cqe::Cqe;
use crate::direct::DirectTable;
use crate::op::Outcome;
use crate::options::RingOptions;
use crate::pool::Pool;
use crate::pool_client::PoolClient;
use crate::sqe::{Full, Sqe};
use crate::trace;
use chain::Deferred;
use openpath_abi::Errno;
use openpath_sync::WaitError;
use openpath_vfs::{Fd, Task};
use request::Requests;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A completion that was not taken.
struct Ready {
    cqe: Cqe,
    /// The descriptor that it reports for the first time.
    installed: Option<Fd>,
}

/// A submission and completion queue of one task. See the module head.
///
/// ```
/// use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY};
/// use openpath_mem::{MemFs, MemOptions};
/// use openpath_ring::{Pool, PoolOptions, Ring, RingOptions, Sqe};
/// use openpath_vfs::{Cred, Vfs};
///
/// # fn main() -> Result<(), openpath_abi::Errno> {
/// let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()))?;
/// let task = vfs.task(Cred::root())?;
/// task.mkdir(b"/etc", 0o755)?;
/// task.close(task.creat(b"/etc/motd", 0o644)?)?;
///
/// let pool = Pool::new(PoolOptions::default());
/// let mut ring = Ring::new(task, &pool, RingOptions::default())?;
/// ring.prepare(Sqe::openat(AT_FDCWD, b"/etc/motd", O_RDONLY, 0).user_data(1))?;
/// ring.prepare(Sqe::openat(AT_FDCWD, b"/etc/none", O_RDONLY, 0).user_data(2))?;
/// assert_eq!(ring.submit()?, 2);
/// ring.wait(2, None)?;
/// let mut done: Vec<_> = std::iter::from_fn(|| ring.next_completion()).collect();
/// done.sort_by_key(|cqe| cqe.user_data);
/// assert_eq!(done[0].result, Ok(0), "the lowest descriptor");
/// assert_eq!(done[1].result, Err(openpath_abi::Errno::ENOENT));
/// # Ok(())
/// # }
/// ```
pub struct Ring {
    // Dropped first: its workers hold references into the task's `Vfs`.
    client: PoolClient,
    direct: DirectTable,
    options: RingOptions,
    submissions: VecDeque<Sqe>,
    requests: Requests,
    /// Operations that can begin.
    runnable: VecDeque<u32>,
    deferred: Deferred,
    /// When operations time out.
    timers: BTreeSet<(Instant, u32)>,
    /// Time-outs that wait for a number of completions.
    counting: Vec<u32>,
    /// Completions that were posted, except those of time-outs.
    posted: u64,
    completions: VecDeque<Ready>,
    completions_max: usize,
    /// Kept, to be reused.
    returned: Vec<(u32, Option<Outcome>)>,
    hooked: bool,
    task: Task,
}

impl Ring {
    /// A ring for `task`, which it owns. Linux: io_uring_setup(2).
    ///
    /// # Errors
    /// `EINVAL` (sizes), `ENOMEM`.
    pub fn new(task: Task, pool: &Pool, options: RingOptions) -> Result<Self, Errno> {
        let completions = options.completions_max()?;
        let direct = DirectTable::new(&task, options.slots)?;
        let ring = Self {
            client: PoolClient::new(pool, options.workers),
            direct,
            submissions: VecDeque::with_capacity(options.entries as usize),
            requests: Requests::new(completions),
            runnable: VecDeque::new(),
            deferred: Deferred::default(),
            timers: BTreeSet::new(),
            counting: Vec::new(),
            posted: 0,
            completions: VecDeque::with_capacity(completions as usize),
            completions_max: completions as usize,
            returned: Vec::new(),
            hooked: false,
            options,
            task,
        };
        trace::create(
            ring.id(),
            ring.options.entries as usize,
            ring.completions_max,
        );
        Ok(ring)
    }

    /// The task, for calls beside the ring.
    #[inline]
    #[must_use]
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// Ends the ring and returns its task. Queued calls are cancelled, running ones are
    /// interrupted, and descriptors of completions that were not taken are closed.
    #[must_use]
    pub fn into_task(self) -> Task {
        let Self {
            client,
            completions,
            requests,
            task,
            ..
        } = self;
        drop(client);
        // Requests that wait for locks leave their queues.
        drop(requests);
        for fd in completions.into_iter().filter_map(|ready| ready.installed) {
            // The error of the backend goes with the completion.
            let _told = task.close(fd);
        }
        task
    }

    /// The ring's id in traces.
    #[must_use]
    pub fn id(&self) -> u64 {
        std::ptr::from_ref(self.client.mailbox()).addr() as u64
    }

    /// Operations in progress.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.requests.len()
    }

    /// Completions that can be taken now.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.completions.len()
    }

    /// The direct descriptors in use.
    #[must_use]
    pub fn slots(&self) -> Vec<u32> {
        self.direct.in_use()
    }

    /// Puts an entry into the submission queue.
    ///
    /// # Errors
    /// [`Full`], with the entry.
    #[inline]
    pub fn prepare(&mut self, sqe: Sqe) -> Result<(), Full> {
        if self.submissions.len() >= self.options.entries as usize {
            return Err(Full(sqe));
        }
        self.submissions.push_back(sqe);
        Ok(())
    }

    /// Submits what was prepared, in order; returns how many entries. Calls that can be answered
    /// inline are; the rest goes to the workers. A chain is submitted as a whole. Linux:
    /// io_uring_enter(2).
    ///
    /// # Errors
    /// `EBUSY`: none was submitted, because operations in progress and completions that were not
    /// taken fill the completion queue. All entries stay prepared.
    pub fn submit(&mut self) -> Result<usize, Errno> {
        self.collect_returned();
        let mut submitted = 0;
        while !self.submissions.is_empty() {
            let members = self.chain_length();
            if !self.has_room(members) {
                if submitted == 0 {
                    return Err(Errno::EBUSY);
                }
                break;
            }
            self.submit_chain(members);
            self.run();
            submitted += members;
        }
        self.rearm();
        Ok(submitted)
    }

    /// Whether `count` more completions can be reserved (R1).
    fn has_room(&self, count: usize) -> bool {
        self.requests.len() + self.completions.len() + count <= self.completions_max
    }

    /// The next completion, if there is one.
    #[inline]
    pub fn next_completion(&mut self) -> Option<Cqe> {
        if self.completions.is_empty() {
            self.collect_returned();
            self.rearm();
        }
        self.completions.pop_front().map(|ready| ready.cqe)
    }

    /// Waits until `want` completions can be taken, all operations are done, or the time is up;
    /// returns how many can be taken. Linux: io_uring_enter(2) with `IORING_ENTER_GETEVENTS`.
    ///
    /// # Errors
    /// `ETIME` (the time is up), `EINTR` ([`Ring::interrupter`]). Completions that came meanwhile
    /// can be taken.
    pub fn wait(&mut self, want: usize, timeout: Option<Duration>) -> Result<usize, Errno> {
        trace::wait(self.id(), want);
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let waited = loop {
            self.collect_returned();
            if self.completions.len() >= want || self.requests.len() == 0 {
                break Ok(self.completions.len());
            }
            let first = self.timers.first().map(|(at, _)| *at);
            let next = until.into_iter().chain(first).min();
            match self.client.sleep(next) {
                Err(WaitError::Interrupted) => break Err(Errno::EINTR),
                Err(WaitError::TimedOut) if until.is_some_and(|until| until <= Instant::now()) => {
                    self.collect_returned();
                    if self.completions.len() >= want {
                        break Ok(self.completions.len());
                    }
                    break Err(Errno::ETIME);
                }
                Ok(()) | Err(WaitError::TimedOut) => {}
            }
        };
        self.rearm();
        waited
    }

    /// Submits what was prepared and waits for `want` completions.
    ///
    /// # Errors
    /// As [`Ring::submit`], unless nothing is prepared, and [`Ring::wait`].
    pub fn submit_and_wait(&mut self, want: usize) -> Result<usize, Errno> {
        self.submit()?;
        self.wait(want, None)
    }

    /// Ends a wait of the owner, from any thread. Linux: a pending signal.
    #[must_use]
    pub fn interrupter(&self) -> RingInterrupter {
        RingInterrupter(self.client.sleeper().clone())
    }

    /// Has `hook` called when there is something to do in the ring: once for everything since the
    /// owner was in it last, and sometimes once more. It is called in a worker's thread, or in the
    /// thread that frees a lock that the ring waits for, which may be the owner's in a call of this
    /// ring. It must only pass on a signal, for example by an eventfd, and take no lock that those
    /// threads may hold; the owner then takes completions. Linux: `IORING_REGISTER_EVENTFD`.
    pub fn on_completion(&mut self, hook: impl Fn() + Send + Sync + 'static) {
        self.client.mailbox().set_hook(Some(Arc::new(hook)));
        self.hooked = true;
        self.rearm();
    }

    /// Collects what workers have done, expires time-outs, and begins what can begin.
    #[inline]
    fn collect_returned(&mut self) {
        if !self.client.is_quiet() {
            self.take_returned();
        }
        if !self.timers.is_empty() {
            self.expire_timers();
        }
        self.run();
    }

    #[cold]
    fn take_returned(&mut self) {
        let mut returned = std::mem::take(&mut self.returned);
        self.client
            .returned(|id, outcome| returned.push((id, outcome)));
        for (id, outcome) in returned.drain(..) {
            match outcome {
                Some(outcome) => self.returned(id, outcome),
                None => self.poll_lock(id),
            }
        }
        self.returned = returned;
    }

    /// Begins all operations that can begin.
    fn run(&mut self) {
        loop {
            while let Some(id) = self.runnable.pop_front() {
                self.start(id);
            }
            if !self.end_due_counts() && !self.release_deferred() {
                return;
            }
        }
    }

    /// Makes sure that a host that waits elsewhere is notified.
    #[inline]
    fn rearm(&mut self) {
        if self.hooked {
            self.arm();
        }
    }

    #[cold]
    fn arm(&mut self) {
        let first = self.timers.first().map(|(at, _)| *at);
        self.client.set_timer(first);
        if !self.client.mailbox().inbox.arm() {
            // It came after the inbox was checked.
            self.client.mailbox().notify();
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("id", &self.id())
            .field("prepared", &self.submissions.len())
            .field("in_flight", &self.in_flight())
            .field("ready", &self.ready())
            .finish()
    }
}

/// Ends a wait of the owner of a ring, from any thread.
#[derive(Clone, Debug)]
pub struct RingInterrupter(openpath_sync::Waiter);

impl RingInterrupter {
    /// Ends the present wait, or else the next one.
    pub fn interrupt(&self) {
        self.0.interrupt();
    }
}
