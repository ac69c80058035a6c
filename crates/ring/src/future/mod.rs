// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements calls as futures: ready at the first poll if they are cached, woken by a worker
//! otherwise.
//!
//! They depend on no runtime: a future needs a waker, but no thread or timer.
//!
//! # States of a future
//! New -> answered inline; or with a worker -> completed -> answered. If it is dropped earlier, a
//! queued call is recalled, a running one is interrupted, and its worker closes the file that it
//! opened.
//!
//! # Rules
//! R1. The inline attempt is only a call on the task: it allocates nothing, shares no counter, and
//!     looks nothing up.
//! R2. A worker wakes the future of its call, whichever future is polled: no future depends on
//!     another one being polled.
//! R3. A future that finds no free slot waits until one is freed, and tries again.

mod calls;
mod custom;
mod in_flight;
mod locks;
mod ops;

use crate::attempt::Attempted;
use crate::direct::DirectTable;
use crate::op::Outcome;
use crate::options::RingOptions;
use crate::pool::Pool;
use crate::pool_client::PoolClient;
use crate::trace;
use in_flight::InFlight;
use openpath_abi::Errno;
use openpath_vfs::{Reason, Task};
use ops::AsyncOp;
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A task with calls that are futures.
///
/// Futures of its own methods may move to another thread between two polls, one at a time. Those of
/// [`AsyncTask::local`] may be many at once, in one thread.
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
    // Dropped first, as in a ring.
    client: RefCell<PoolClient>,
    calls: RefCell<InFlight>,
    /// Whether a future waits for a slot.
    slot_is_awaited: Cell<bool>,
    inline: bool,
    task: Task,
}

/// An [`AsyncTask`] for many calls at once, in one thread.
#[derive(Clone, Copy, Debug)]
pub struct Local<'t>(&'t AsyncTask);

impl AsyncTask {
    /// For `task`, which it owns. The options of the submission queue and of direct descriptors
    /// have no effect.
    ///
    /// # Errors
    /// `EINVAL` (sizes).
    pub fn new(task: Task, pool: &Pool, options: RingOptions) -> Result<Self, Errno> {
        let slots = options.completions_max()?;
        let this = Self {
            client: RefCell::new(PoolClient::new(pool, options.workers)),
            calls: RefCell::new(InFlight::new(slots)),
            slot_is_awaited: Cell::new(false),
            inline: options.inline,
            task,
        };
        trace::create(this.id(), 0, slots as usize);
        Ok(this)
    }

    /// The task, for blocking calls, and for calls that are not futures.
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

    /// Returns the task. Queued calls are cancelled, and running ones are interrupted.
    #[must_use]
    pub fn into_task(self) -> Task {
        let Self { client, task, .. } = self;
        drop(client);
        task
    }

    /// Calls that workers have, and results that were not polled yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.collect_returned();
        self.calls.borrow().len()
    }

    fn id(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }

    /// Attempts a call inline.
    #[inline(always)]
    fn attempt<P: AsyncOp>(&self, op: &mut P) -> Attempted<P::Out> {
        trace::submit(self.id(), P::CODE, 0, self.inline);
        if !self.inline {
            return Attempted::WouldBlock(None);
        }
        let tried = op.attempt(&self.task);
        if P::OPENS && matches!(tried, Attempted::Answered(_)) {
            self.task.count_open(false);
        }
        tried
    }

    /// Collects what workers have done.
    fn collect_returned(&self) {
        let mut client = self.client.borrow_mut();
        if client.is_quiet() {
            return;
        }
        let mut slot_freed = false;
        // Results of dropped futures are dropped when nothing is borrowed.
        let mut abandoned = Vec::new();
        client.returned(|ticket, outcome| {
            // Futures of locks are woken directly.
            let Some(outcome) = outcome else { return };
            if let Some(outcome) = self.calls.borrow_mut().complete(ticket, outcome) {
                abandoned.push(outcome);
                slot_freed = true;
            }
        });
        drop(client);
        drop(abandoned);
        if slot_freed {
            self.notify_slot_free();
        }
    }

    /// A slot is free: wakes futures that wait for one (R3).
    fn notify_slot_free(&self) {
        if self.slot_is_awaited.replace(false) {
            self.client.borrow().mailbox().notify();
        }
    }

    /// Sends a call to a worker; returns its number, or an error.
    #[cold]
    fn offload<P: AsyncOp>(
        &self,
        op: &P,
        why: Option<Reason>,
        cx: &Context<'_>,
    ) -> Poll<Result<u32, Errno>> {
        let (ticket, waker) = loop {
            self.collect_returned();
            if let Some(slot) = self.calls.borrow_mut().reserve() {
                break slot;
            }
            self.slot_is_awaited.set(true);
            if self.client.borrow().mailbox().wake_on_return(cx.waker()) {
                return Poll::Pending;
            }
        };
        if P::OPENS {
            self.task.count_open(true);
        }
        trace::queue(self.id(), u64::from(ticket), why);
        // Before a worker has the call, so that it finds the waker.
        waker.set(cx.waker());
        let mut client = self.client.borrow_mut();
        let sent = client.send(
            &self.task,
            &DirectTable::none(),
            ticket,
            op.op(),
            Some(waker),
        );
        drop(client);
        if let Err(failed) = sent {
            self.calls.borrow_mut().free(ticket);
            self.notify_slot_free();
            return Poll::Ready(Err(failed.errno));
        }
        Poll::Ready(Ok(ticket))
    }

    /// The result of a call, or has `cx` woken when it comes.
    fn poll_outcome(&self, ticket: u32, cx: &Context<'_>) -> Poll<Outcome> {
        self.collect_returned();
        loop {
            let poll_outcome = self.calls.borrow_mut().collect(ticket, cx.waker());
            if let Some(outcome) = poll_outcome {
                self.notify_slot_free();
                return Poll::Ready(outcome);
            }
            if self.client.borrow().is_quiet() {
                return Poll::Pending;
            }
            // It came before the waker was set.
            self.collect_returned();
        }
    }

    /// The future of this call is dropped.
    #[cold]
    fn abandon(&self, ticket: u32) {
        self.collect_returned();
        let poll_outcome = self.calls.borrow_mut().abandon(ticket);
        if poll_outcome.is_none() {
            let mut client = self.client.borrow_mut();
            let recalled = client.recall(ticket);
            if recalled.is_none() {
                client.interrupt(ticket);
                drop(client);
                // It may have come back before its worker saw the drop.
                self.collect_returned();
                return;
            }
            drop(client);
            self.calls.borrow_mut().free(ticket);
        }
        drop(poll_outcome);
        self.notify_slot_free();
    }
}

impl std::fmt::Debug for AsyncTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncTask").finish_non_exhaustive()
    }
}

/// A call as a future.
#[must_use = "a future does nothing unless it is polled"]
struct Call<R: Deref<Target = AsyncTask>, P: AsyncOp> {
    host: R,
    op: P,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    New,
    /// It waits for a slot; with the reason why it was not answered inline.
    WaitingForSlot(Option<Reason>),
    Offloaded(u32),
    Done,
}

impl<R: Deref<Target = AsyncTask>, P: AsyncOp> Call<R, P> {
    #[inline(always)]
    fn new(host: R, op: P) -> Self {
        Self {
            host,
            op,
            stage: Stage::New,
        }
    }
}

impl<R: Deref<Target = AsyncTask> + Unpin, P: AsyncOp + Unpin> Call<R, P> {
    #[cold]
    fn poll_offloaded(
        &mut self,
        why: Option<Reason>,
        cx: &Context<'_>,
    ) -> Poll<Result<P::Out, Errno>> {
        let host = &*self.host;
        let ticket = match self.stage {
            Stage::Offloaded(ticket) => ticket,
            Stage::Done => return Poll::Pending,
            _ => match host.offload(&self.op, why, cx) {
                Poll::Pending => {
                    self.stage = Stage::WaitingForSlot(why);
                    return Poll::Pending;
                }
                Poll::Ready(Err(errno)) => {
                    self.stage = Stage::Done;
                    return Poll::Ready(Err(errno));
                }
                Poll::Ready(Ok(ticket)) => {
                    self.stage = Stage::Offloaded(ticket);
                    return Poll::Pending;
                }
            },
        };
        match host.poll_outcome(ticket, cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(outcome) => {
                self.stage = Stage::Done;
                let errno = outcome.as_ref().err().map(|failed| failed.errno);
                let done = outcome.as_ref().map_or(0, |done| done.result);
                trace::complete(host.id(), u64::from(ticket), errno.map_or(Ok(done), Err));
                Poll::Ready(self.op.answer(&host.task, outcome))
            }
        }
    }
}

impl<R: Deref<Target = AsyncTask> + Unpin, P: AsyncOp + Unpin> Future for Call<R, P> {
    type Output = Result<P::Out, Errno>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let why = match this.stage {
            Stage::New => match this.host.attempt(&mut this.op) {
                Attempted::Answered(answer) => {
                    this.stage = Stage::Done;
                    return Poll::Ready(answer);
                }
                Attempted::WouldBlock(why) => why,
            },
            Stage::WaitingForSlot(why) => why,
            Stage::Offloaded(_) | Stage::Done => None,
        };
        this.poll_offloaded(why, cx)
    }
}

impl<R: Deref<Target = AsyncTask>, P: AsyncOp> Drop for Call<R, P> {
    #[inline]
    fn drop(&mut self) {
        if let Stage::Offloaded(ticket) = self.stage {
            self.host.abandon(ticket);
        }
    }
}
