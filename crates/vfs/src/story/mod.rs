// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a call tells of itself: steps and refused checks as plain data, and where a task keeps them
//! while one of its calls is explained.
//!
//! Calls write here by the hooks of their task (`task::tell`), and `explain` alone reads.

mod check;
mod step;

pub use check::Check;
pub(crate) use step::kind_name;
pub use step::{Cached, Field, Permission, Place, Step, Value, Would};

use std::cell::{Cell, RefCell};

/// What one task tells of the call it makes.
#[derive(Default)]
pub(crate) struct Story {
    on: Cell<bool>,
    steps: RefCell<Vec<Step>>,
    stopped: Cell<bool>,
    /// Where the lock-free walk was left, a try would have gone on.
    goes_on: Cell<bool>,
}

impl Story {
    /// Begins to keep what is told.
    pub(crate) fn begin(&self) {
        self.on.set(true);
        self.stopped.set(false);
        self.steps.borrow_mut().clear();
    }

    /// What was told, and whether it stopped before a change.
    pub(crate) fn take(&self) -> (Vec<Step>, bool) {
        (self.steps.take(), self.stopped.get())
    }

    /// Keeps no more.
    pub(crate) fn end(&self) {
        self.on.set(false);
    }

    /// Whether what is told is kept.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Keeps a step.
    pub(crate) fn push(&self, step: Step) {
        self.steps.borrow_mut().push(step);
    }

    /// Says what the name that was told last turned out to be.
    pub(crate) fn note_kind(&self, found: Option<u32>) {
        if let Some(Step::Name { kind, .. }) = self.steps.borrow_mut().last_mut() {
            *kind = found;
        }
    }

    /// Notes that the call ends before a change.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
    }

    /// Notes whether a call that must not wait goes on where the lock-free walk is left.
    pub(crate) fn note_try(&self, goes_on: bool) {
        self.goes_on.set(goes_on);
    }

    /// What was noted since this was asked last.
    pub(crate) fn take_try(&self) -> bool {
        self.goes_on.take()
    }
}
