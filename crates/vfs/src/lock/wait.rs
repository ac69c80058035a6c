// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for a lock: who waits sleeps beside its answer, which who frees the lock puts there.

use super::context::LockContext;
use super::context::Locks;
use super::queue::Place;
use crate::lock_order::LockAnswer;
use openpath_abi::Errno;
use openpath_sync::{Mutex, Sleeper, WaitQueue, Wake};

/// Those to be woken, when no lock is held any more.
pub(super) type Wakes = Vec<Wake>;

#[derive(Default)]
struct Given {
    answer: Option<Result<(), Errno>>,
    queue: WaitQueue,
}

/// What one who waits is told.
#[derive(Default)]
pub(super) struct Answer(Mutex<Given, LockAnswer>);

impl Answer {
    /// Tells it, and whom to wake.
    pub(super) fn give(&self, answer: Result<(), Errno>, wakes: &mut Wakes) {
        let mut given = self.0.lock();
        given.answer = Some(answer);
        wakes.push(given.queue.wake_one());
    }

    /// Whether it was told.
    pub(super) fn is_given(&self) -> bool {
        self.get().is_some()
    }

    /// What was told.
    fn get(&self) -> Option<Result<(), Errno>> {
        self.0.lock().answer
    }

    /// Sleeps until it is told; `None`: interrupted before.
    fn sleep(&self, sleeper: &Sleeper) -> Option<Result<(), Errno>> {
        let mut given = self.0.lock();
        while given.answer.is_none() {
            let waited = self.0.wait(given, |given| &mut given.queue, sleeper, None);
            given = waited.ok()?;
        }
        given.answer
    }
}

/// One who waits in line, and leaves it when this is dropped.
struct InLine<'a> {
    locks: &'a Locks,
    context: &'a LockContext,
    place: &'a Place,
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.context.leave(self.locks, self.place);
    }
}

impl LockContext {
    /// Waits for the answer to a request.
    ///
    /// # Errors
    /// `EINTR`; `EDEADLK`, `ENOLCK`, as the answer says.
    pub(super) fn wait(
        &self,
        locks: &Locks,
        place: &Place,
        sleeper: &Sleeper,
    ) -> Result<(), Errno> {
        let in_line = InLine {
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
