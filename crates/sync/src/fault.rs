// SPDX-License-Identifier: MIT OR Apache-2.0
//! Injects faults into tests under `--cfg shuttle`: the armed thread panics at an atomic operation
//! or a wait for a lock that the test chose.
//!
//! Before every atomic operation and every wait for a lock a thread of a test may be made to panic,
//! as a bug in any step of a call or in a backend would. A test counts the points that a call
//! passes, then lets the call fail at each of them.
//!
//! # Rules
//! R1. At most one thread of an execution is armed.
//! R2. A thread does not fail inside a lock operation that is half done (`primitive`, R3), nor
//!     twice.

use shuttle::current::{TaskId, try_get_current_task};
use std::cell::Cell;

/// The thread that fails, and at which point.
#[derive(Clone, Copy)]
struct Armed {
    thread: TaskId,
    /// Points still to pass; the thread fails at the one after them.
    left: u64,
    /// Points passed.
    passed: u64,
    /// How many steps that cannot fail it is inside.
    no_fault_injection: u32,
}

std::thread_local! {
    // All threads of an execution run on one system thread.
    static ARMED: Cell<Option<Armed>> = const { Cell::new(None) };
}

/// The payload of the injected panic.
#[derive(Debug)]
pub struct Fault;

/// This thread panics with [`Fault`] at its point number `point`, counted from 0 and from now on.
pub fn arm(point: u64) {
    let thread = shuttle::current::me();
    ARMED.set(Some(Armed {
        thread,
        left: point,
        passed: 0,
        no_fault_injection: 0,
    }));
}

/// Ends the injection; returns how many points the armed thread passed, or `None` if it failed.
pub fn disarm() -> Option<u64> {
    ARMED.take().map(|armed| armed.passed)
}

fn armed() -> Option<Armed> {
    let armed = ARMED.get()?;
    (try_get_current_task() == Some(armed.thread)).then_some(armed)
}

/// A point: fails here if the test asked for it.
pub(crate) fn may_fail() {
    let Some(mut armed) = armed().filter(|armed| armed.no_fault_injection == 0) else {
        return;
    };
    if armed.left == 0 {
        ARMED.set(None);
        // Without a panic report, since the panic is intended.
        std::panic::resume_unwind(Box::new(Fault));
    }
    armed.left -= 1;
    armed.passed += 1;
    ARMED.set(Some(armed));
}

/// A step during which this thread does not fail; dropping it ends the step.
#[must_use]
#[derive(Debug)]
pub struct NoFaultInjection(());

/// Begins such a step.
pub fn no_fault_injection() -> NoFaultInjection {
    deepen(1);
    NoFaultInjection(())
}

impl Drop for NoFaultInjection {
    fn drop(&mut self) {
        deepen(u32::MAX);
    }
}

fn deepen(by: u32) {
    if let Some(mut armed) = armed() {
        armed.no_fault_injection = armed.no_fault_injection.wrapping_add(by);
        ARMED.set(Some(armed));
    }
}
