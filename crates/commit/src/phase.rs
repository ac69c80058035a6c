// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far a commit is, for those that watch it.

/// What a commit is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// New files are made under hidden names.
    Copying,
    /// Names are exchanged.
    Exchanging,
    /// What was replaced is put away.
    Settling,
    /// It is undone.
    Undoing,
}

/// Is told how far a commit is.
pub trait Watch {
    /// So many steps of so many are done. With `false` all ends where it is, as by a crash.
    fn step(&mut self, phase: Phase, done: u64, of: u64) -> bool;

    /// So many bytes more were copied.
    fn copied(&mut self, bytes: u64) {
        let _nobody_asks = bytes;
    }
}
