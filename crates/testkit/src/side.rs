// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the trait of a side of the oracle (openpath or the host kernel), which applies a case's
//! operations and takes snapshots, and the limits of tasks and descriptors in a case.

use crate::op::Op;
use crate::outcome::Outcome;
use crate::tree::{Depth, Tree};

/// The limit on descriptors at the start of every case.
pub const LIMIT: u64 = 64;
/// The most tasks in a case.
pub const TASKS: usize = 4;

/// One side of the oracle, for one case.
pub trait Side {
    /// Applies the operation of this number.
    fn apply(&mut self, at: usize, op: &Op) -> Outcome;
    /// Skips the operation of this number; its time passes.
    fn skip(&mut self, at: usize, op: &Op);
    /// Takes a snapshot as root of the tasks, and of the trees to this depth: from the case's root
    /// and, if deep, from each task's root.
    fn snapshot(&mut self, depth: Depth) -> Tree;
    /// Ends the case and returns remaining faults, such as a scan that lost an entry.
    fn finish(&mut self) -> Vec<String>;
}

/// The number of an existing task.
#[must_use]
pub fn other<T>(tasks: &[Option<T>], number: i64) -> Option<usize> {
    let number = usize::try_from(number).ok()?;
    tasks.get(number)?.as_ref().map(|_| number)
}

/// A limit that a case may set: a side reserves some descriptors above it.
#[must_use]
pub fn limit(soft: i64) -> u64 {
    soft.clamp(0, 1000).cast_unsigned()
}
