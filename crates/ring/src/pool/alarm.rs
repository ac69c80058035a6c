// SPDX-License-Identifier: MIT OR Apache-2.0
//! One thread that rings the bell of a desk whose owner waits elsewhere, when a time is up.
//!
//! A ring keeps its own time while its owner is in it. An owner that waits in an event loop is told
//! by the pool; the thread is started with the first alarm, and ends when there are none for long
//! enough.

use super::Inner;
use crate::desk::Desk;
use openpath_sync::{Ended, Sleeper, WaitQueue, Wake};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// A ring's alarm, if it has one.
#[derive(Default, Debug)]
pub(crate) struct AlarmId(Option<(Instant, u64)>);

/// The alarms of a pool.
#[derive(Default)]
pub(super) struct Alarms {
    set: BTreeMap<(Instant, u64), Weak<Desk>>,
    next: u64,
    /// Whether there is a thread.
    kept: bool,
    asleep: WaitQueue,
}

impl Alarms {
    pub(super) fn is_kept(&self) -> bool {
        self.kept
    }

    pub(super) fn wake(&mut self) -> Wake {
        self.asleep.wake_all()
    }
}

/// Sets, moves or takes away an alarm.
pub(super) fn set(inner: &Arc<Inner>, id: &mut AlarmId, desk: &Arc<Desk>, at: Option<Instant>) {
    if id.0.map(|(at, _)| at) == at {
        return;
    }
    let mut state = inner.state.lock();
    let alarms = &mut state.alarms;
    let old = id.0.take().and_then(|key| alarms.set.remove(&key));
    let Some(at) = at else {
        drop(state);
        drop(old);
        return;
    };
    let key = (at, alarms.next);
    alarms.next += 1;
    alarms.set.insert(key, Arc::downgrade(desk));
    id.0 = Some(key);
    let wake = alarms.wake();
    let start = !std::mem::replace(&mut alarms.kept, true);
    drop(state);
    drop((wake, old));
    if start {
        let theirs = Arc::clone(inner);
        let name = "openpath-timer".to_owned();
        if crate::thread::start(name, move || keep(&theirs)).is_err() {
            inner.state.lock().alarms.kept = false;
        }
    }
}

/// Rings as the times come.
fn keep(inner: &Arc<Inner>) {
    let sleeper = Sleeper::default();
    let mut state = inner.state.lock();
    while !state.over {
        let now = Instant::now();
        let first = state.alarms.set.first_key_value().map(|(key, _)| *key);
        if let Some(key) = first.filter(|(at, _)| *at <= now) {
            let desk = state.alarms.set.remove(&key);
            drop(state);
            if let Some(desk) = desk.and_then(|desk| desk.upgrade()) {
                desk.ring();
            }
            state = inner.state.lock();
            continue;
        }
        let until = first.map_or(now + inner.options.idle, |(at, _)| at);
        let waited = inner.state.wait(
            state,
            |state| &mut state.alarms.asleep,
            &sleeper,
            Some(until),
        );
        match waited {
            Ok(held) => state = held,
            Err((held, Ended::TimedOut)) if first.is_none() => {
                state = held;
                break;
            }
            Err((held, _)) => state = held,
        }
        if first.is_none() && state.alarms.set.is_empty() && Instant::now() >= until {
            break;
        }
    }
    state.alarms.kept = false;
    let ends = state.ends.wake_all();
    drop(state);
    drop(ends);
}
