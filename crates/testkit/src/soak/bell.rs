// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where workers say which futures they have woken.
//!
//! Made of the tree's own locks: those of the standard library, which is not built with the thread
//! sanitizer, order what they protect by atomics that it does not see, and are reported as races.

use openpath_sync::{Ended, Mutex, WaitQueue, Waiter, lock_classes};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Wake;
use std::time::{Duration, Instant};

lock_classes! {
    /// Of the soak.
    const CLASSES;
    /// Futures that were woken.
    Woken;
}

#[derive(Default)]
struct State {
    woken: VecDeque<usize>,
    asleep: WaitQueue,
}

/// Futures that were woken, by number, and who waits for more of them.
#[derive(Clone, Default)]
pub(super) struct Bell(Arc<Mutex<State, Woken>>);

impl Bell {
    /// The next that was woken; none within that time.
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
                Err((_, Ended::TimedOut | Ended::Interrupted)) => return None,
            }
        }
    }
}

/// Rings for one future.
pub(super) struct Told(pub(super) Bell, pub(super) usize);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        let mut state = self.0.0.lock();
        state.woken.push_back(self.1);
        let wake = state.asleep.wake_all();
        drop(state);
        drop(wake);
    }
}
