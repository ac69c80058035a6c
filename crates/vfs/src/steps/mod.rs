// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the step log: a task keeps the steps and refused checks of a call in it, as plain
//! data, while the call is explained.
//!
//! Calls write it by the hooks of their task (`task::tell`), and `explain` alone reads it.

mod check;
mod step;

pub use check::Check;
pub(crate) use step::kind_name;
pub use step::{Cached, Field, Permission, SkippedChange, Step, Value, WalkPosition};

use std::cell::{Cell, RefCell};

/// The steps of the present call of one task, while it is explained.
#[derive(Default)]
pub(crate) struct StepLog {
    on: Cell<bool>,
    steps: RefCell<Vec<Step>>,
    stopped: Cell<bool>,
    /// A try would have gone on where the lock-free walk ended.
    goes_on: Cell<bool>,
}

impl StepLog {
    /// Begins to keep steps.
    pub(crate) fn begin(&self) {
        self.on.set(true);
        self.stopped.set(false);
        self.steps.borrow_mut().clear();
    }

    /// The steps, and whether the call stopped before a change.
    pub(crate) fn take(&self) -> (Vec<Step>, bool) {
        (self.steps.take(), self.stopped.get())
    }

    /// Ends the keeping.
    pub(crate) fn end(&self) {
        self.on.set(false);
    }

    /// Whether steps are kept.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Keeps a step.
    pub(crate) fn push(&self, step: Step) {
        self.steps.borrow_mut().push(step);
    }

    /// Notes the type of the last name.
    pub(crate) fn note_kind(&self, found: Option<u32>) {
        if let Some(Step::Name { kind, .. }) = self.steps.borrow_mut().last_mut() {
            *kind = found;
        }
    }

    /// Notes that the call ends before a change.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
    }

    /// Notes whether a call that must not wait goes on where the lock-free walk ends.
    pub(crate) fn note_try(&self, goes_on: bool) {
        self.goes_on.set(goes_on);
    }

    /// The note since the last call of this.
    pub(crate) fn take_try(&self) -> bool {
        self.goes_on.take()
    }
}
