// SPDX-License-Identifier: MIT OR Apache-2.0
//! The progress of a commit, for its observers.

/// The phase of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Phase {
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

    /// Called when further bytes were copied.
    fn copied(&mut self, bytes: u64) {
        let _nobody_asks = bytes;
    }
}
