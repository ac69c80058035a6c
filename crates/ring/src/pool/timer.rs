// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the timer thread of a pool: when a time-out expires, it notifies the owner of the ring,
//! which may be waiting in an event loop.
//!
//! A ring expires its time-outs while its owner is in it. An owner that waits in an event loop is
//! notified by the pool. The thread is started with the first timer, and ends when there are none
//! for long enough.

use super::Inner;
use crate::job::Mailbox;
use openpath_sync::{WaitError, WaitQueue, Waiter, Wake};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// A ring's timer, if it is set.
#[derive(Default, Debug)]
pub(crate) struct TimerId(Option<(Instant, u64)>);

/// The timers of a pool.
#[derive(Default)]
pub(super) struct Timers {
    set: BTreeMap<(Instant, u64), Weak<Mailbox>>,
    next: u64,
    /// Whether the thread runs.
    thread_runs: bool,
    asleep: WaitQueue,
}

impl Timers {
    pub(super) fn has_thread(&self) -> bool {
        self.thread_runs
    }

    pub(super) fn wake(&mut self) -> Wake {
        self.asleep.wake_all()
    }
}

/// Sets, moves or removes a timer.
pub(super) fn set(
    inner: &Arc<Inner>,
    id: &mut TimerId,
    mailbox: &Arc<Mailbox>,
    at: Option<Instant>,
) {
    if id.0.map(|(at, _)| at) == at {
        return;
    }
    let mut state = inner.state.lock();
    let timers = &mut state.timers;
    let old = id.0.take().and_then(|key| timers.set.remove(&key));
    let Some(at) = at else {
        drop(state);
        drop(old);
        return;
    };
    let key = (at, timers.next);
    timers.next += 1;
    timers.set.insert(key, Arc::downgrade(mailbox));
    id.0 = Some(key);
    let wake = timers.wake();
    let start = !std::mem::replace(&mut timers.thread_runs, true);
    drop(state);
    drop((wake, old));
    if start {
        let theirs = Arc::clone(inner);
        let name = "openpath-timer".to_owned();
        if crate::thread::start(name, move || run(&theirs)).is_err() {
            inner.state.lock().timers.thread_runs = false;
        }
    }
}

/// Notifies as timers expire.
fn run(inner: &Arc<Inner>) {
    let sleeper = Waiter::default();
    let mut state = inner.state.lock();
    while !state.shutting_down {
        let now = Instant::now();
        let first = state.timers.set.first_key_value().map(|(key, _)| *key);
        if let Some(key) = first.filter(|(at, _)| *at <= now) {
            let mailbox = state.timers.set.remove(&key);
            drop(state);
            if let Some(mailbox) = mailbox.and_then(|mailbox| mailbox.upgrade()) {
                mailbox.notify();
            }
            state = inner.state.lock();
            continue;
        }
        let until = first.map_or(now + inner.options.idle, |(at, _)| at);
        let waited = inner.state.wait(
            state,
            |state| &mut state.timers.asleep,
            &sleeper,
            Some(until),
        );
        match waited {
            Ok(held) => state = held,
            Err((held, WaitError::TimedOut)) if first.is_none() => {
                state = held;
                break;
            }
            Err((held, _)) => state = held,
        }
        if first.is_none() && state.timers.set.is_empty() && Instant::now() >= until {
            break;
        }
    }
    state.timers.thread_runs = false;
    let thread_ends = state.thread_ends.wake_all();
    drop(state);
    drop(thread_ends);
}
