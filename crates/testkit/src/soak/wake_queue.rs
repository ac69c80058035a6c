// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues the numbers of the futures that workers have woken, for the thread that polls them.
//!
//! Its lock is one of `openpath_sync`: the thread sanitizer would report locks of the standard
//! library, which is not built with it, as races.

use openpath_sync::{Mutex, WaitError, WaitQueue, Waiter, lock_classes};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Wake;
use std::time::{Duration, Instant};

lock_classes! {
    /// The lock classes of the soak.
    const CLASSES;
    /// Futures that were woken.
    Woken;
}

#[derive(Default)]
struct State {
    woken: VecDeque<usize>,
    asleep: WaitQueue,
}

/// Woken futures by number, and the thread that waits for more of them.
#[derive(Clone, Default)]
pub(super) struct WakeQueue(Arc<Mutex<State, Woken>>);

impl WakeQueue {
    /// The next woken future; none if none comes within that time.
    pub(super) fn next(&self, within: Duration) -> Option<usize> {
        let until = Some(Instant::now() + within);
        let sleeper = Waiter::default();
        let mut state = self.0.lock();
        loop {
            if let Some(at) = state.woken.pop_front() {
                return Some(at);
            }
            let waited = self.0.wait(state, |s| &mut s.asleep, &sleeper, until);
            match waited {
                Ok(held) => state = held,
                Err((_, WaitError::TimedOut | WaitError::Interrupted)) => return None,
            }
        }
    }
}

/// A waker of one future.
pub(super) struct QueueWaker(pub(super) WakeQueue, pub(super) usize);

impl Wake for QueueWaker {
    fn wake(self: Arc<Self>) {
        let mut state = self.0.0.lock();
        state.woken.push_back(self.1);
        let wake = state.asleep.wake_all();
        drop(state);
        drop(wake);
    }
}
