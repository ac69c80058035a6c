// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the streams of one guest are served: a ring beside the guest's task, over the same
//! descriptors.
//!
//! A stream lives in the table of resources and cannot reach the store that its guest's task is in,
//! and what it has begun goes on between the guest's calls. So streams share this.
//!
//! # States of an operation
//! Begun -> answered in place, or away -> landed -> taken. It gives its place back when it lands,
//! with what came of it in the ticket: streams that ask late, or never, take no place from others.
//!
//! # Locks
//! `inner`, for a call on the ring, which waits for nothing; `told`, for a waker. `inner` may be
//! held where `told` is taken, and where a waker is called, which must not poll in the same breath.
//!
//! # Rules
//! R1. Who waits leaves its waker before it looks, so that what lands in between wakes it.
//! R2. Operations under way are bounded: who finds no place is woken when something lands, and
//!     looks again.
//! R3. What lands is taken in under `inner`, and who waits for it is woken before its place is
//!     another's.

use openpath_abi::Errno;
use openpath_ring::{Cancel, Output, Pool, Ring, RingOptions, Sqe};
use openpath_vfs::{DataWait, Fd, Task};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Operations that streams of one guest have under way at a time.
const PLACES: usize = 16;
/// `user_data` of what nobody asks after.
const NOBODY: u64 = u64::MAX;

/// What came of an operation, once it has landed.
type Came = Arc<Mutex<Option<Landed>>>;

/// An operation that was begun: its place, as long as nothing came of it.
#[derive(Debug)]
pub(super) struct Ticket {
    at: usize,
    came: Came,
}

/// What came of an operation.
#[derive(Debug)]
pub(super) struct Landed {
    pub(super) result: Result<u64, Errno>,
    pub(super) output: Output,
}

enum Place {
    Free,
    Away(Came),
    /// Nobody asks for it any more.
    Forgotten,
}

struct Inner {
    ring: Ring,
    places: [Place; PLACES],
    told: Arc<Mutex<Told>>,
}

/// Who waits: by place, and for a place.
#[derive(Default)]
struct Told {
    places: [Option<Waker>; PLACES],
    room: Vec<Waker>,
}

/// The streams' side of a guest's task. See the module head.
pub(super) struct Side {
    inner: Mutex<Inner>,
    told: Arc<Mutex<Told>>,
}

/// What a thread that panicked left is whole: nothing here is done in two steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes everyone, with no lock held.
fn tell(told: &Mutex<Told>) {
    let all = std::mem::take(&mut *lock(told));
    let wakers = all.places.into_iter().flatten().chain(all.room);
    wakers.for_each(Waker::wake);
}

impl Side {
    /// For a task with the descriptors of the guest.
    ///
    /// # Errors
    /// As [`Ring::new`].
    pub(super) fn new(task: Task, pool: &Pool) -> Result<Self, Errno> {
        let mut options = RingOptions::default();
        options.entries = 4;
        // Each operation and the cancelling of it.
        options.completions = 2 * PLACES as u32;
        let mut ring = Ring::new(task, pool, options)?;
        let told = Arc::<Mutex<Told>>::default();
        let theirs = Arc::clone(&told);
        ring.on_completion(move || tell(&theirs));
        Ok(Self {
            inner: Mutex::new(Inner {
                ring,
                places: [const { Place::Free }; PLACES],
                told: Arc::clone(&told),
            }),
            told,
        })
    }

    /// Begins an operation; none if there is no place (R2).
    pub(super) fn begin(&self, make: impl FnOnce() -> Sqe) -> Option<Ticket> {
        let mut inner = lock(&self.inner);
        inner.harvest();
        let free = |place: &Place| matches!(place, Place::Free);
        let at = inner.places.iter().position(free)?;
        let came = Came::default();
        inner.places[at] = Place::Away(Arc::clone(&came));
        if !inner.submit(make().user_data(at as u64)) {
            inner.places[at] = Place::Free;
            return None;
        }
        inner.harvest();
        Some(Ticket { at, came })
    }

    /// As [`Side::begin`], or has `cx` woken when there may be a place.
    pub(super) fn begin_when(&self, make: impl Fn() -> Sqe, cx: &Context<'_>) -> Poll<Ticket> {
        if let Some(ticket) = self.begin(&make) {
            return Poll::Ready(ticket);
        }
        {
            let mut told = lock(&self.told);
            if !told.room.iter().any(|other| other.will_wake(cx.waker())) {
                told.room.push(cx.waker().clone());
            }
        }
        // R1
        self.begin(&make).map_or(Poll::Pending, Poll::Ready)
    }

    /// What came of an operation, if it has landed.
    pub(super) fn take(&self, ticket: &Ticket) -> Option<Landed> {
        lock(&self.inner).harvest();
        lock(&ticket.came).take()
    }

    /// What came of an operation, or has `cx` woken when it lands.
    pub(super) fn poll(&self, ticket: &Ticket, cx: &Context<'_>) -> Poll<Landed> {
        if let Some(landed) = self.take(ticket) {
            return Poll::Ready(landed);
        }
        // Without `inner` it could land here, and the place be another's by now (R3).
        let mut inner = lock(&self.inner);
        if lock(&ticket.came).is_none() {
            lock(&self.told).places[ticket.at] = Some(cx.waker().clone());
            // R1
            inner.harvest();
        }
        lock(&ticket.came).take().map_or(Poll::Pending, Poll::Ready)
    }

    /// Nobody asks for it any more; `cancel`: nor is it to be done.
    pub(super) fn forget(&self, ticket: &Ticket, cancel: bool) {
        let mut inner = lock(&self.inner);
        inner.harvest();
        if lock(&ticket.came).is_some() {
            return;
        }
        inner.places[ticket.at] = Place::Forgotten;
        if cancel {
            let which = Cancel::UserData(ticket.at as u64);
            inner.submit(Sqe::cancel(which).user_data(NOBODY));
            inner.harvest();
        }
    }

    /// Closes a descriptor that only streams had.
    pub(super) fn close(&self, fd: Fd) {
        match self.begin(|| Sqe::close(fd)) {
            Some(ticket) => self.forget(&ticket, false),
            // As in close(2) of a thread that ends, nobody hears what it had to say.
            None => drop(lock(&self.inner).ring.task().close(fd)),
        }
    }

    /// Whether data of `fd` is there without a wait.
    pub(super) fn is_at_once(&self, fd: Fd) -> bool {
        lock(&self.inner).ring.task().data_wait(fd) == Some(DataWait::Never)
    }

    /// Calls at once on the task, which has to be one that does not wait.
    pub(super) fn at_once<T>(&self, call: impl FnOnce(&Task) -> T) -> T {
        call(lock(&self.inner).ring.task())
    }
}

impl Inner {
    /// Submits one entry; whether it could be.
    fn submit(&mut self, sqe: Sqe) -> bool {
        self.ring.prepare(sqe).is_ok() && self.ring.submit().is_ok()
    }

    /// Takes in what has landed.
    fn harvest(&mut self) {
        while let Some(cqe) = self.ring.next_completion() {
            let at = usize::try_from(cqe.user_data).unwrap_or(PLACES);
            let Some(place) = self.places.get_mut(at) else {
                continue;
            };
            if let Place::Away(came) = std::mem::replace(place, Place::Free) {
                *lock(&came) = Some(Landed {
                    result: cqe.result,
                    output: cqe.output,
                });
            }
            // R3
            let waits = lock(&self.told).places[at].take();
            if let Some(waker) = waits {
                waker.wake();
            }
        }
    }
}

impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Side").finish_non_exhaustive()
    }
}
