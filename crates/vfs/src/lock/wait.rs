// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits for a file lock: a thread sleeps until a release stores its answer, or a waiter without a
//! thread has its waker called.

use super::context::LockContext;
use super::context::Locks;
use super::queue::QueuePosition;
use crate::lock_order::LockAnswer;
use openpath_abi::Errno;
use openpath_sync::{Mutex, WaitQueue, Waiter, Wake, Word, spin_until};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// How a request waits, if a lock blocks it.
#[derive(Clone, Copy)]
pub(crate) enum WhenBlocked<'a> {
    /// Not at all.
    Now,
    /// Its thread sleeps.
    Asleep(&'a Waiter),
    /// No thread does ([`crate::LockWait`]).
    Later,
}

/// The waiters to wake, when no lock is held any more.
pub(crate) type Wakes = Vec<WakeOnDrop>;

/// A waiter that has its answer, and is woken when this is dropped.
pub(crate) struct WakeOnDrop {
    _thread: Wake,
    waker: Option<Waker>,
}

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        if let Some(waker) = self.waker.take() {
            // It calls the host's code; a panic there is not ours.
            let _panicked = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}

#[derive(Default)]
struct AnswerState {
    answer: Option<Result<(), Errno>>,
    queue: WaitQueue,
    waker: Option<Waker>,
}

/// The answer to one waiter.
#[derive(Default)]
pub(crate) struct WaiterAnswer {
    given: Mutex<AnswerState, LockAnswer>,
    /// Not 0: it is given. A waiter reads this without the lock.
    told: Word,
}

impl<'a> WhenBlocked<'a> {
    /// To sleep, or not to wait.
    pub(crate) fn asleep(sleeper: Option<&'a Waiter>) -> Self {
        sleeper.map_or(Self::Now, Self::Asleep)
    }

    /// The thread that sleeps.
    pub(crate) fn sleeper(self) -> Option<&'a Waiter> {
        match self {
            Self::Asleep(sleeper) => Some(sleeper),
            Self::Now | Self::Later => None,
        }
    }
}

impl WaiterAnswer {
    /// Gives the answer, and adds the waiter to those to wake.
    pub(crate) fn give(&self, answer: Result<(), Errno>, wakes: &mut Wakes) {
        let mut given = self.given.lock();
        given.answer = Some(answer);
        self.told.set(1);
        wakes.push(WakeOnDrop {
            _thread: given.queue.wake_one(),
            waker: given.waker.take(),
        });
    }

    /// The answer, or `None` and `waker` is called once it is given.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<Result<(), Errno>> {
        let mut next = Some(waker.clone());
        let mut given = self.given.lock();
        if given.answer.is_none() {
            core::mem::swap(&mut given.waker, &mut next);
        }
        let answer = given.answer;
        drop(given);
        drop(next);
        answer
    }

    /// The grant could not become a lock after all.
    pub(crate) fn refuse(&self, errno: Errno) {
        self.given.lock().answer = Some(Err(errno));
    }

    /// Ends the wait; the answer, if it was given before.
    pub(crate) fn end(&self) -> Option<Result<(), Errno>> {
        let mut given = self.given.lock();
        let (answer, waker) = (given.answer, given.waker.take());
        drop(given);
        drop(waker);
        answer
    }

    /// Whether it is given.
    pub(crate) fn is_given(&self) -> bool {
        self.get().is_some()
    }

    /// The answer.
    pub(crate) fn get(&self) -> Option<Result<(), Errno>> {
        self.given.lock().answer
    }

    /// Sleeps until the answer is given; `None`: interrupted before. Looks for it first: most locks
    /// are held for less than it takes to wake a thread.
    fn sleep(&self, sleeper: &Waiter) -> Option<Result<(), Errno>> {
        spin_until(|| self.told.get() != 0);
        let mut given = self.given.lock();
        while given.answer.is_none() {
            let waited = self
                .given
                .wait(given, |given| &mut given.queue, sleeper, None);
            given = waited.ok()?;
        }
        given.answer
    }
}

/// A waiter in line, which leaves it when this is dropped.
struct QueuedWaiter<'a> {
    locks: &'a Locks,
    context: &'a LockContext,
    place: &'a QueuePosition,
}

impl Drop for QueuedWaiter<'_> {
    fn drop(&mut self) {
        self.context.leave(self.locks, self.place);
    }
}

impl LockContext {
    /// Waits for the answer to a request.
    ///
    /// # Errors
    /// `EINTR`; `EDEADLK`, `ENOLCK`, as the answer says.
    #[inline(never)]
    pub(crate) fn wait(
        &self,
        locks: &Locks,
        place: &QueuePosition,
        sleeper: &Waiter,
    ) -> Result<(), Errno> {
        let in_line = QueuedWaiter {
            locks,
            context: self,
            place,
        };
        let told = place.answer.sleep(sleeper);
        drop(in_line);
        if let Some(told) = told {
            return told;
        }
        match place.answer.get() {
            Some(told) => {
                // It came at the same moment, and is preferred; the interrupt is for a later wait.
                sleeper.interrupt();
                told
            }
            None => Err(Errno::EINTR),
        }
    }
}
