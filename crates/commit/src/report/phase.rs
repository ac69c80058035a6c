// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the phases of a commit, and the trait of those that observe its progress.

/// The phase of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Phase {
    /// The view is compared with the real tree.
    Comparing,
    /// The changes are looked at, and what may prevent the commit.
    Planning,
    /// New files are made under hidden names.
    Copying,
    /// Names are exchanged.
    Exchanging,
    /// Backups are moved away.
    Settling,
    /// It is undone.
    Undoing,
}

/// Observes the progress of a commit.
pub trait CommitObserver {
    /// Called before each step, with how many are done. With `false` the commit ends where it is,
    /// as by a crash.
    fn step(&mut self, phase: Phase, done: u64, of: u64) -> bool;

    /// Called before the first step for each name that is looked at, with how many were before;
    /// `of` is 0 while nobody knows how many there are.
    fn looked(&mut self, phase: Phase, done: u64, of: u64) {
        let _nobody_asks = (phase, done, of);
    }

    /// Called when further bytes were copied.
    fn copied(&mut self, bytes: u64) {
        let _nobody_asks = bytes;
    }
}

/// Counts the names that are looked at in one phase.
pub(crate) struct Looker<'o> {
    observer: &'o mut dyn CommitObserver,
    phase: Phase,
    done: u64,
    of: u64,
}

impl Looker<'_> {
    pub(crate) fn new(observer: &mut dyn CommitObserver, phase: Phase, of: u64) -> Looker<'_> {
        Looker {
            observer,
            phase,
            done: 0,
            of,
        }
    }

    /// A further name.
    pub(crate) fn next(&mut self) {
        // More names may come than there are changes: directories have none.
        let of = match self.of {
            0 => 0,
            of => of.max(self.done),
        };
        self.observer.looked(self.phase, self.done, of);
        self.done += 1;
    }
}

/// Observes nothing.
pub(crate) struct Unobserved;

impl CommitObserver for Unobserved {
    fn step(&mut self, _: Phase, _: u64, _: u64) -> bool {
        true
    }
}
