// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls as futures: ready at the first poll when they are cached, woken by a worker otherwise.
//!
//! Nothing here belongs to a runtime: a future needs a waker, and gives no thread or timer.
//!
//! # States of a future
//! New -> answered in place; or with a worker -> landed -> answered. Dropped before: what is queued
//! is taken back, what runs is interrupted, and its worker closes what it opened.
//!
//! # Rules
//! R1. The inline attempt is a call on the task and no more: nothing is allocated, counted with
//!     others, or looked up.
//! R2. A worker wakes the future whose call it did, whoever else is polled: no future depends on
//!     another being polled.
//! R3. A future that finds every place taken waits until one is given back, and looks again.

mod calls;
mod flight;
mod locks;
mod plan;
mod work;

use crate::attempt::Tried;
use crate::crew::Crew;
use crate::direct::Direct;
use crate::op::Outcome;
use crate::ring::completions_of;
use crate::{Pool, RingOptions, trace};
use flight::Flights;
use openpath_abi::Errno;
use openpath_vfs::{Reason, Task};
use plan::Plan;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A task whose calls are futures.
///
/// Its own methods give futures that may go to another thread between two polls, one at a time.
/// Those of [`AsyncTask::local`] are many at once, in one thread.
///
/// ```
/// use openpath_abi::fcntl::O_RDONLY;
/// use openpath_mem::{MemFs, MemOptions};
/// use openpath_ring::{AsyncTask, Pool, PoolOptions, RingOptions};
/// use openpath_vfs::{Cred, Vfs};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), openpath_abi::Errno> {
/// let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()))?;
/// let pool = Pool::new(PoolOptions::default());
/// let mut task = AsyncTask::new(vfs.task(Cred::root())?, &pool, RingOptions::default())?;
/// task.mkdirat(openpath_abi::fcntl::AT_FDCWD, b"/etc", 0o755).await?;
/// let fd = task.open(b"/etc", O_RDONLY, 0).await?;
/// let (a, b) = tokio::join!(task.local().stat(b"/etc"), task.local().stat(b"/"));
/// assert!(a?.ino != b?.ino);
/// task.close(fd).await?;
/// # Ok(())
/// # }
/// ```
pub struct AsyncTask {
    // Goes first, as in a ring.
    crew: RefCell<Crew>,
    flights: RefCell<Flights>,
    /// Whether a future waits for a place.
    is_crowded: Cell<bool>,
    inline: bool,
    task: Task,
}

/// An [`AsyncTask`] for many calls at once, in one thread.
#[derive(Clone, Copy)]
pub struct Local<'t>(&'t AsyncTask);

impl AsyncTask {
    /// For `task`, which it owns. Of the options, what is said of a submission queue and of direct
    /// descriptors has no meaning here.
    ///
    /// # Errors
    /// `EINVAL` (sizes).
    pub fn new(task: Task, pool: &Pool, options: RingOptions) -> Result<Self, Errno> {
        let places = completions_of(&options)?;
        let this = Self {
            crew: RefCell::new(Crew::new(pool, options.workers)),
            flights: RefCell::new(Flights::new(places)),
            is_crowded: Cell::new(false),
            inline: options.inline,
            task,
        };
        trace::create(this.id(), 0, places as usize);
        Ok(this)
    }

    /// The task, for calls that wait, and those that are no futures.
    #[inline]
    #[must_use]
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// For many calls at once.
    #[must_use]
    pub fn local(&self) -> Local<'_> {
        Local(self)
    }

    /// Gives the task back. What is queued is cancelled, and what runs is interrupted.
    #[must_use]
    pub fn into_task(self) -> Task {
        let Self { crew, task, .. } = self;
        drop(crew);
        task
    }

    /// Calls that workers have, or had and nobody has asked for yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.come_by();
        self.flights.borrow().len()
    }

    fn id(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }

    /// Tries to answer without a wait.
    #[inline(always)]
    fn attempt<P: Plan>(&self, plan: &mut P) -> Tried<P::Out> {
        trace::submit(self.id(), P::CODE, 0, self.inline);
        if !self.inline {
            return Tried::Later(None);
        }
        let tried = plan.attempt(&self.task);
        if P::OPENS && matches!(tried, Tried::Answer(_)) {
            self.task.count_open(false);
        }
        tried
    }

    /// Takes in what workers have done.
    fn come_by(&self) {
        let mut crew = self.crew.borrow_mut();
        if crew.is_quiet() {
            return;
        }
        let mut given_back = false;
        // What was abandoned is dropped when nothing is borrowed.
        let mut forgotten = Vec::new();
        crew.returned(|ticket, outcome| {
            // Futures hear of their locks themselves.
            let Some(outcome) = outcome else { return };
            if let Some(outcome) = self.flights.borrow_mut().land(ticket, outcome) {
                forgotten.push(outcome);
                given_back = true;
            }
        });
        drop(crew);
        drop(forgotten);
        if given_back {
            self.give_back();
        }
    }

    /// A place is free: who waits for one is told (R3).
    fn give_back(&self) {
        if self.is_crowded.replace(false) {
            self.crew.borrow().desk().ring();
        }
    }

    /// Leaves a call to a worker; its ticket, or what came of it at once.
    #[cold]
    fn offload<P: Plan>(
        &self,
        plan: &P,
        why: Option<Reason>,
        cx: &Context<'_>,
    ) -> Poll<Result<u32, Errno>> {
        let (ticket, signal) = loop {
            self.come_by();
            if let Some(place) = self.flights.borrow_mut().take_off() {
                break place;
            }
            self.is_crowded.set(true);
            if self.crew.borrow().desk().await_room(cx.waker()) {
                return Poll::Pending;
            }
        };
        if P::OPENS {
            self.task.count_open(true);
        }
        trace::queue(self.id(), u64::from(ticket), why);
        // Before a worker has it, so that it finds whom to wake.
        signal.set(cx.waker());
        let mut crew = self.crew.borrow_mut();
        let sent = crew.send(&self.task, &Direct::none(), ticket, plan.op(), Some(signal));
        drop(crew);
        if let Err(failed) = sent {
            self.flights.borrow_mut().free(ticket);
            self.give_back();
            return Poll::Ready(Err(failed.errno));
        }
        Poll::Ready(Ok(ticket))
    }

    /// What came of a call, or has `cx` woken when it comes.
    fn landed(&self, ticket: u32, cx: &Context<'_>) -> Poll<Outcome> {
        self.come_by();
        loop {
            let landed = self.flights.borrow_mut().collect(ticket, cx.waker());
            if let Some(outcome) = landed {
                self.give_back();
                return Poll::Ready(outcome);
            }
            if self.crew.borrow().is_quiet() {
                return Poll::Pending;
            }
            // It came before the waker was in its place.
            self.come_by();
        }
    }

    /// A future of this call is no more.
    #[cold]
    fn abandon(&self, ticket: u32) {
        self.come_by();
        let landed = self.flights.borrow_mut().abandon(ticket);
        if landed.is_none() {
            let mut crew = self.crew.borrow_mut();
            let recalled = crew.recall(ticket);
            if recalled.is_none() {
                crew.interrupt(ticket);
                drop(crew);
                // It may have come back before its worker could know.
                self.come_by();
                return;
            }
            drop(crew);
            self.flights.borrow_mut().free(ticket);
        }
        drop(landed);
        self.give_back();
    }
}

impl std::fmt::Debug for AsyncTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncTask").finish_non_exhaustive()
    }
}

/// A call as a future.
#[must_use = "a future does nothing unless it is polled"]
struct Call<R: Deref<Target = AsyncTask>, P: Plan> {
    host: R,
    plan: P,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    New,
    /// It waits for a place, for this reason.
    Waiting(Option<Reason>),
    Away(u32),
    Over,
}

impl<R: Deref<Target = AsyncTask>, P: Plan> Call<R, P> {
    #[inline(always)]
    fn new(host: R, plan: P) -> Self {
        Self {
            host,
            plan,
            stage: Stage::New,
        }
    }
}

impl<R: Deref<Target = AsyncTask> + Unpin, P: Plan + Unpin> Call<R, P> {
    #[cold]
    fn poll_slowly(
        &mut self,
        why: Option<Reason>,
        cx: &Context<'_>,
    ) -> Poll<Result<P::Out, Errno>> {
        let host = &*self.host;
        let ticket = match self.stage {
            Stage::Away(ticket) => ticket,
            Stage::Over => return Poll::Pending,
            _ => match host.offload(&self.plan, why, cx) {
                Poll::Pending => {
                    self.stage = Stage::Waiting(why);
                    return Poll::Pending;
                }
                Poll::Ready(Err(errno)) => {
                    self.stage = Stage::Over;
                    return Poll::Ready(Err(errno));
                }
                Poll::Ready(Ok(ticket)) => {
                    self.stage = Stage::Away(ticket);
                    return Poll::Pending;
                }
            },
        };
        match host.landed(ticket, cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(outcome) => {
                self.stage = Stage::Over;
                let errno = outcome.as_ref().err().map(|failed| failed.errno);
                let done = outcome.as_ref().map_or(0, |done| done.result);
                trace::complete(host.id(), u64::from(ticket), errno.map_or(Ok(done), Err));
                Poll::Ready(self.plan.answer(&host.task, outcome))
            }
        }
    }
}

impl<R: Deref<Target = AsyncTask> + Unpin, P: Plan + Unpin> Future for Call<R, P> {
    type Output = Result<P::Out, Errno>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let why = match this.stage {
            Stage::New => match this.host.attempt(&mut this.plan) {
                Tried::Answer(answer) => {
                    this.stage = Stage::Over;
                    return Poll::Ready(answer);
                }
                Tried::Later(why) => why,
            },
            Stage::Waiting(why) => why,
            Stage::Away(_) | Stage::Over => None,
        };
        this.poll_slowly(why, cx)
    }
}

impl<R: Deref<Target = AsyncTask>, P: Plan> Drop for Call<R, P> {
    #[inline]
    fn drop(&mut self) {
        if let Stage::Away(ticket) = self.stage {
            self.host.abandon(ticket);
        }
    }
}
