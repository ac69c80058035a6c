// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the ring that serves the streams of one guest, beside its task and over the same
//! descriptors.
//!
//! A stream lives in the resource table and cannot reach the store that holds the guest's task, and
//! its operations continue between the guest's calls. So the streams share this ring.
//!
//! # States of an operation
//! Begun -> completed in place, or in flight -> completed -> taken. An operation frees its slot
//! when it completes, and the ticket then holds its result: streams that ask late, or never, take
//! no slot from others.
//!
//! # Locks
//! `inner` is held for a call on the ring, which does not wait, and `wakers` to add or take a
//! waker. `wakers` may be taken, and a waker called, with `inner` held, so a waker must not poll
//! directly.
//!
//! # Rules
//! R1. A waiting stream registers its waker before it checks, so that a completion in between wakes
//!     it.
//! R2. The number of operations in flight is bounded: a stream without a slot is woken at the next
//!     completion, and tries again.
//! R3. Completions are taken in under `inner`, and the waiting stream is woken before its slot is
//!     reused.

use openpath_abi::Errno;
use openpath_ring::{Cancel, Output, Pool, Ring, RingOptions, Sqe};
use openpath_vfs::{DataWait, Fd, Task};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The most operations of one guest's streams in flight.
const SLOTS: usize = 16;
/// `user_data` of operations that drop their result.
const IGNORED: u64 = u64::MAX;

/// The result of an operation, once it has completed.
type SharedCompletion = Arc<Mutex<Option<Completion>>>;

/// A begun operation: its slot, while it is in flight, and its result.
#[derive(Debug)]
pub(super) struct Ticket {
    at: usize,
    completion: SharedCompletion,
}

/// The result of an operation.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) result: Result<u64, Errno>,
    pub(super) output: Output,
}

enum Slot {
    Free,
    InFlight(SharedCompletion),
    /// In flight, and its result will be dropped.
    Forgotten,
}

struct Inner {
    ring: Ring,
    slots: [Slot; SLOTS],
    wakers: Arc<Mutex<Wakers>>,
}

/// Wakers of the streams that wait: for the result of a slot, and for a free slot.
#[derive(Default)]
struct Wakers {
    slots: [Option<Waker>; SLOTS],
    for_free_slot: Vec<Waker>,
}

/// The ring that serves the streams of one guest. See the module head.
pub(super) struct StreamRing {
    inner: Mutex<Inner>,
    wakers: Arc<Mutex<Wakers>>,
}

/// Locks, and ignores poison: no change here takes two steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes all waiting streams, with no lock held.
fn wake_all(wakers: &Mutex<Wakers>) {
    let all = std::mem::take(&mut *lock(wakers));
    let wakers = all.slots.into_iter().flatten().chain(all.for_free_slot);
    wakers.for_each(Waker::wake);
}

impl StreamRing {
    /// Creates the ring over the descriptors of `task`, which are the guest's.
    ///
    /// # Errors
    /// As [`Ring::new`].
    pub(super) fn new(task: Task, pool: &Pool) -> Result<Self, Errno> {
        let mut options = RingOptions::default();
        options.entries = 4;
        // One for each operation, and one for its cancel.
        options.completions = 2 * SLOTS as u32;
        let mut ring = Ring::new(task, pool, options)?;
        let wakers = Arc::<Mutex<Wakers>>::default();
        let to_wake = Arc::clone(&wakers);
        ring.on_completion(move || wake_all(&to_wake));
        Ok(Self {
            inner: Mutex::new(Inner {
                ring,
                slots: [const { Slot::Free }; SLOTS],
                wakers: Arc::clone(&wakers),
            }),
            wakers,
        })
    }

    /// Begins an operation; `None` without a free slot (R2).
    pub(super) fn begin(&self, make: impl FnOnce() -> Sqe) -> Option<Ticket> {
        let mut inner = lock(&self.inner);
        inner.harvest();
        let free = |slot: &Slot| matches!(slot, Slot::Free);
        let at = inner.slots.iter().position(free)?;
        let completion = SharedCompletion::default();
        inner.slots[at] = Slot::InFlight(Arc::clone(&completion));
        if !inner.submit(make().user_data(at as u64)) {
            inner.slots[at] = Slot::Free;
            return None;
        }
        inner.harvest();
        Some(Ticket { at, completion })
    }

    /// Begins an operation, or has `cx` woken when a slot may be free.
    pub(super) fn poll_begin(&self, make: impl Fn() -> Sqe, cx: &Context<'_>) -> Poll<Ticket> {
        if let Some(ticket) = self.begin(&make) {
            return Poll::Ready(ticket);
        }
        {
            let mut wakers = lock(&self.wakers);
            if !wakers
                .for_free_slot
                .iter()
                .any(|other| other.will_wake(cx.waker()))
            {
                wakers.for_free_slot.push(cx.waker().clone());
            }
        }
        // R1
        self.begin(&make).map_or(Poll::Pending, Poll::Ready)
    }

    /// Takes the result of an operation, if it has completed.
    pub(super) fn take(&self, ticket: &Ticket) -> Option<Completion> {
        lock(&self.inner).harvest();
        lock(&ticket.completion).take()
    }

    /// Takes the result of an operation, or has `cx` woken when it completes.
    pub(super) fn poll(&self, ticket: &Ticket, cx: &Context<'_>) -> Poll<Completion> {
        if let Some(completion) = self.take(ticket) {
            return Poll::Ready(completion);
        }
        // Without `inner`, it could complete here and its slot be reused (R3).
        let mut inner = lock(&self.inner);
        if lock(&ticket.completion).is_none() {
            lock(&self.wakers).slots[ticket.at] = Some(cx.waker().clone());
            // R1
            inner.harvest();
        }
        lock(&ticket.completion)
            .take()
            .map_or(Poll::Pending, Poll::Ready)
    }

    /// Drops the result of an operation, and cancels it if `cancel` is set.
    pub(super) fn forget(&self, ticket: &Ticket, cancel: bool) {
        let mut inner = lock(&self.inner);
        inner.harvest();
        if lock(&ticket.completion).is_some() {
            return;
        }
        inner.slots[ticket.at] = Slot::Forgotten;
        if cancel {
            let which = Cancel::UserData(ticket.at as u64);
            inner.submit(Sqe::cancel(which).user_data(IGNORED));
            inner.harvest();
        }
    }

    /// Closes a descriptor that only streams held.
    pub(super) fn close(&self, fd: Fd) {
        match self.begin(|| Sqe::close(fd)) {
            Some(ticket) => self.forget(&ticket, false),
            // The error is dropped, as that of close(2) in a thread that exits.
            None => drop(lock(&self.inner).ring.task().close(fd)),
        }
    }

    /// Whether data of `fd` is available without a wait.
    pub(super) fn never_waits(&self, fd: Fd) -> bool {
        lock(&self.inner).ring.task().data_wait(fd) == Some(DataWait::Never)
    }

    /// Makes a call on the task, which must not wait.
    pub(super) fn call_now<T>(&self, call: impl FnOnce(&Task) -> T) -> T {
        call(lock(&self.inner).ring.task())
    }
}

impl Inner {
    /// Submits one entry; returns whether that succeeded.
    fn submit(&mut self, sqe: Sqe) -> bool {
        self.ring.prepare(sqe).is_ok() && self.ring.submit().is_ok()
    }

    /// Takes in all completions.
    fn harvest(&mut self) {
        while let Some(cqe) = self.ring.next_completion() {
            let at = usize::try_from(cqe.user_data).unwrap_or(SLOTS);
            let Some(slot) = self.slots.get_mut(at) else {
                continue;
            };
            if let Slot::InFlight(completion) = std::mem::replace(slot, Slot::Free) {
                *lock(&completion) = Some(Completion {
                    result: cqe.result,
                    output: cqe.output,
                });
            }
            // R3
            let waits = lock(&self.wakers).slots[at].take();
            if let Some(waker) = waits {
                waker.wake();
            }
        }
    }
}

impl fmt::Debug for StreamRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamRing").finish_non_exhaustive()
    }
}
