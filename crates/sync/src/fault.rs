// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads that fail where a test wants them to. Only with `--cfg shuttle`.
//!
//! Before every atomic operation and every wait for a lock a thread of a test may be made to panic,
//! as a bug in any step of a call or in a backend would. A test counts the points that a call
//! passes, and then lets it fail at each.
//!
//! # Rules
//! R1. One thread of an execution is armed at a time.
//! R2. A thread does not fail within a lock that is half taken or half let go (`prim`, R3), nor
//!     twice.

use shuttle::current::{TaskId, try_get_current_task};
use std::cell::Cell;

/// The thread that fails, and when.
#[derive(Clone, Copy)]
struct Armed {
    thread: TaskId,
    /// Points still to be passed; the one after them is where it fails.
    left: u64,
    /// Points passed.
    passed: u64,
    /// How many steps it is inside of that cannot fail.
    unfailing: u32,
}

std::thread_local! {
    // All threads of an execution run on one of the system's.
    static ARMED: Cell<Option<Armed>> = const { Cell::new(None) };
}

/// What an armed thread panics with.
#[derive(Debug)]
pub struct Fault;

/// This thread panics with [`Fault`] at its point number `point`, counted from 0 and from now on.
pub fn arm(point: u64) {
    let thread = shuttle::current::me();
    ARMED.set(Some(Armed {
        thread,
        left: point,
        passed: 0,
        unfailing: 0,
    }));
}

/// Nobody fails any more; how many points the armed thread passed, or `None` if it failed.
pub fn disarm() -> Option<u64> {
    ARMED.take().map(|armed| armed.passed)
}

fn armed() -> Option<Armed> {
    let armed = ARMED.get()?;
    (try_get_current_task() == Some(armed.thread)).then_some(armed)
}

/// A point: fails here if that was asked for.
pub(crate) fn may_fail() {
    let Some(mut armed) = armed().filter(|armed| armed.unfailing == 0) else {
        return;
    };
    if armed.left == 0 {
        ARMED.set(None);
        // Without the report of a panic: it is wanted.
        std::panic::resume_unwind(Box::new(Fault));
    }
    armed.left -= 1;
    armed.passed += 1;
    ARMED.set(Some(armed));
}

/// A step during which this thread does not fail; dropping it ends the step.
#[must_use]
pub struct Unfailing(());

/// Begins such a step.
pub fn unfailing() -> Unfailing {
    deepen(1);
    Unfailing(())
}

impl Drop for Unfailing {
    fn drop(&mut self) {
        deepen(u32::MAX);
    }
}

fn deepen(by: u32) {
    if let Some(mut armed) = armed() {
        armed.unfailing = armed.unfailing.wrapping_add(by);
        ARMED.set(Some(armed));
    }
}
