// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a worker thread: it takes jobs from the pool until it is idle for too long or the pool
//! ends.

use super::{Inner, State};
use crate::job::Job;
use openpath_sync::{WaitError, Waiter};
use std::sync::Arc;
use std::time::Instant;

/// Runs jobs until there is none for long enough.
pub(super) fn work(inner: &Arc<Inner>) {
    let sleeper = Waiter::default();
    let mut state = inner.state.lock();
    let mut until = None;
    loop {
        if let Some((lane, mut job)) = state.lanes.next() {
            drop(state);
            job.complete();
            state = inner.state.lock();
            // The lane is free before the job is known to be done.
            state.lanes.done(lane);
            drop(state);
            Job::deliver(job);
            until = None;
            state = inner.state.lock();
            continue;
        }
        if state.shutting_down {
            break;
        }
        let until = *until.get_or_insert_with(|| Instant::now() + inner.options.idle);
        state.idle += 1;
        let waited = inner.state.wait(
            state,
            |state: &mut State| &mut state.asleep,
            &sleeper,
            Some(until),
        );
        let ended;
        (state, ended) = match waited {
            Ok(state) => (state, None),
            Err((state, why)) => (state, Some(why)),
        };
        state.idle -= 1;
        state.woken = state.woken.saturating_sub(1);
        if ended == Some(WaitError::TimedOut) {
            break;
        }
    }
    state.threads -= 1;
    let thread_ends = state.thread_ends.wake_all();
    drop(state);
    drop(thread_ends);
}
