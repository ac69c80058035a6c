// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring: a task's calls, in batches, without a wait.
//!
//! # Kernel analogue
//! `io_uring` with `IORING_SETUP_SINGLE_ISSUER`, `IORING_SETUP_DEFER_TASKRUN` and
//! `IORING_SETUP_SUBMIT_ALL`.
//!
//! # States of an operation
//! Prepared -> held (a chain, a drain) -> answered in place; or with the workers; or waiting for a
//! time, or in line for a lock -> its completion is posted -> taken. A chain goes on, and a time is
//! up, while the owner is in the ring: in [`Ring::submit`], [`Ring::wait`],
//! [`Ring::next_completion`].
//!
//! # Fields
//! All are the owner's own; what workers write is behind the desk.
//!
//! # Rules
//! R1. Each operation has a place in the completion queue from its submission on, so the queue does
//!     not overflow; what posts more than once posts more only where there is room.
//! R2. Each submission completes exactly once, but for those that asked for silence, and those that
//!     post more (`more`), whose last completion says so.
//! R3. The owner's table is written by the owner: a file that a worker opened gets its descriptor
//!     here, when the owner comes by.
//!
//! # Divergence: L23, L34, L35, L36, L37, L38
//! What is begun is not ended by force; what comes late comes with the owner.

mod cancel;
mod chain;
mod direct;
mod issue;
mod locks;
mod request;
mod time;

use crate::crew::Crew;
use crate::direct::Direct;
use crate::op::Outcome;
use crate::pool::Pool;
use crate::sqe::{Full, Sqe};
use crate::{Cqe, RingOptions, trace};
use chain::Deferred;
use openpath_abi::Errno;
use openpath_sync::Ended;
use openpath_vfs::{Fd, Task};
use request::Requests;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A completion that nobody has taken.
struct Ready {
    cqe: Cqe,
    /// The descriptor that it tells of for the first time.
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
    // Goes first: what its workers hold is of the task's `Vfs`.
    crew: Crew,
    direct: Direct,
    options: RingOptions,
    submissions: VecDeque<Sqe>,
    requests: Requests,
    /// Whose turn has come.
    runnable: VecDeque<u32>,
    deferred: Deferred,
    /// By when their time is up.
    times: BTreeSet<(Instant, u32)>,
    /// Time-outs that wait for a number of completions.
    counting: Vec<u32>,
    /// Completions that were posted, but for those of time-outs.
    posted: u64,
    completions: VecDeque<Ready>,
    completions_max: usize,
    /// Kept for the next use.
    back: Vec<(u32, Option<Outcome>)>,
    hooked: bool,
    task: Task,
}

/// The most entries of a submission queue (`IORING_MAX_ENTRIES`).
const ENTRIES_MAX: u32 = 1 << 15;

/// How many operations a ring with these options has at most.
///
/// # Errors
/// `EINVAL`.
pub(crate) fn completions_of(options: &RingOptions) -> Result<u32, Errno> {
    let entries = options.entries;
    if entries == 0 || entries > ENTRIES_MAX {
        return Err(Errno::EINVAL);
    }
    match options.completions {
        0 => Ok(entries * 2),
        n if n < entries || n > ENTRIES_MAX * 2 => Err(Errno::EINVAL),
        n => Ok(n),
    }
}

impl Ring {
    /// A ring for `task`, which it owns. Linux: io_uring_setup(2).
    ///
    /// # Errors
    /// `EINVAL` (sizes), `ENOMEM`.
    pub fn new(task: Task, pool: &Pool, options: RingOptions) -> Result<Self, Errno> {
        let completions = completions_of(&options)?;
        let direct = Direct::new(&task, options.slots)?;
        let ring = Self {
            crew: Crew::new(pool, options.workers),
            direct,
            submissions: VecDeque::with_capacity(options.entries as usize),
            requests: Requests::new(completions),
            runnable: VecDeque::new(),
            deferred: Deferred::default(),
            times: BTreeSet::new(),
            counting: Vec::new(),
            posted: 0,
            completions: VecDeque::with_capacity(completions as usize),
            completions_max: completions as usize,
            back: Vec::new(),
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

    /// Ends the ring and gives its task back. What is queued is cancelled, what runs is
    /// interrupted, and a descriptor that no completion was taken of is closed.
    #[must_use]
    pub fn into_task(self) -> Task {
        let Self {
            crew,
            completions,
            requests,
            task,
            ..
        } = self;
        drop(crew);
        // Who waits for a lock leaves the line.
        drop(requests);
        for fd in completions.into_iter().filter_map(|ready| ready.installed) {
            // What the backend had to say goes with the completion.
            let _told = task.close(fd);
        }
        task
    }

    /// What traces call it.
    #[must_use]
    pub fn id(&self) -> u64 {
        std::ptr::from_ref(self.crew.desk()).addr() as u64
    }

    /// Operations that are under way.
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

    /// Submits what was prepared, in order; how many entries. What can be answered at once is;
    /// the rest goes to the workers. A chain is submitted whole. Linux: io_uring_enter(2).
    ///
    /// # Errors
    /// `EBUSY`: none was submitted, since every place of the completion queue is taken by what is
    /// under way or was not taken. All stays prepared.
    pub fn submit(&mut self) -> Result<usize, Errno> {
        self.come_by();
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
        self.leave();
        Ok(submitted)
    }

    /// Whether `count` more completions can be promised (R1).
    fn has_room(&self, count: usize) -> bool {
        self.requests.len() + self.completions.len() + count <= self.completions_max
    }

    /// The next completion, if there is one.
    #[inline]
    pub fn next_completion(&mut self) -> Option<Cqe> {
        if self.completions.is_empty() {
            self.come_by();
            self.leave();
        }
        self.completions.pop_front().map(|ready| ready.cqe)
    }

    /// Waits until `want` completions can be taken, all operations are done, or the time is up; how
    /// many there are. Linux: io_uring_enter(2) with `IORING_ENTER_GETEVENTS`.
    ///
    /// # Errors
    /// `ETIME` (the time was up), `EINTR` ([`Ring::interrupter`]). What has come meanwhile can be
    /// taken.
    pub fn wait(&mut self, want: usize, timeout: Option<Duration>) -> Result<usize, Errno> {
        trace::wait(self.id(), want);
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let waited = loop {
            self.come_by();
            if self.completions.len() >= want || self.requests.len() == 0 {
                break Ok(self.completions.len());
            }
            let first = self.times.first().map(|(at, _)| *at);
            let next = until.into_iter().chain(first).min();
            match self.crew.sleep(next) {
                Err(Ended::Interrupted) => break Err(Errno::EINTR),
                Err(Ended::TimedOut) if until.is_some_and(|until| until <= Instant::now()) => {
                    self.come_by();
                    if self.completions.len() >= want {
                        break Ok(self.completions.len());
                    }
                    break Err(Errno::ETIME);
                }
                Ok(()) | Err(Ended::TimedOut) => {}
            }
        };
        self.leave();
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

    /// What ends a wait of the owner, from any thread. Linux: a pending signal.
    #[must_use]
    pub fn interrupter(&self) -> RingInterrupter {
        RingInterrupter(self.crew.sleeper().clone())
    }

    /// Has `hook` called when there is something to be done in the ring: once for all that has come
    /// since the owner was in it last, now and then once more. That is in a worker's thread, or in
    /// that of whoever frees a lock that the ring waits for: anybody's, also the owner's in a call
    /// of this ring. It must only pass the word on, as by writing to an event descriptor, and take
    /// no lock that those could hold; the owner then takes completions. Linux:
    /// `IORING_REGISTER_EVENTFD`.
    pub fn on_completion(&mut self, hook: impl Fn() + Send + Sync + 'static) {
        self.crew.desk().set_hook(Some(Arc::new(hook)));
        self.hooked = true;
        self.leave();
    }

    /// Takes in what workers have done and whose time is up, and does what can be done then.
    #[inline]
    fn come_by(&mut self) {
        if !self.crew.is_quiet() {
            self.take_back();
        }
        if !self.times.is_empty() {
            self.look_at_the_clock();
        }
        self.run();
    }

    #[cold]
    fn take_back(&mut self) {
        let mut back = std::mem::take(&mut self.back);
        self.crew.returned(|id, outcome| back.push((id, outcome)));
        for (id, outcome) in back.drain(..) {
            match outcome {
                Some(outcome) => self.returned(id, outcome),
                None => self.look_at_lock(id),
            }
        }
        self.back = back;
    }

    /// Does all whose turn has come.
    fn run(&mut self) {
        loop {
            while let Some(id) = self.runnable.pop_front() {
                self.start(id);
            }
            if !self.end_counts() && !self.advance() {
                return;
            }
        }
    }

    /// Sees to it that a host that waits elsewhere hears of what comes.
    #[inline]
    fn leave(&mut self) {
        if self.hooked {
            self.arm();
        }
    }

    #[cold]
    fn arm(&mut self) {
        let first = self.times.first().map(|(at, _)| *at);
        self.crew.set_alarm(first);
        if !self.crew.desk().inbox.arm() {
            // It came since the box was looked at.
            self.crew.desk().ring();
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
pub struct RingInterrupter(openpath_sync::Sleeper);

impl RingInterrupter {
    /// Ends the wait that is going on, or else the next one.
    pub fn interrupt(&self) {
        self.0.interrupt();
    }
}
