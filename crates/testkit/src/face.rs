// SPDX-License-Identifier: MIT OR Apache-2.0
//! A face: something that operations can be applied to, and that can be looked at.

use crate::op::Op;
use crate::outcome::Outcome;
use crate::tree::{Depth, Tree};

/// The limit on descriptors that every case begins with.
pub const LIMIT: u64 = 64;
/// Most tasks of a case.
pub const TASKS: usize = 4;

/// One side of the oracle, for one case.
pub trait Face {
    /// Applies the operation of this number.
    fn apply(&mut self, at: usize, op: &Op) -> Outcome;
    /// Does not apply the operation of this number: its time passes.
    fn skip(&mut self, at: usize, op: &Op);
    /// Takes a picture: of the tasks, and of the trees what is asked for, as root, from the root of
    /// the case and, in a deep one, from that of each task.
    fn snapshot(&mut self, depth: Depth) -> Tree;
    /// The case is over: what is still wrong, such as a scan that lost an entry.
    fn finish(&mut self) -> Vec<String>;
}

/// The number of a task that there is.
#[must_use]
pub fn other<T>(tasks: &[Option<T>], number: i64) -> Option<usize> {
    let number = usize::try_from(number).ok()?;
    tasks.get(number)?.as_ref().map(|_| number)
}

/// A limit that a case may set: a face keeps some room above for itself.
#[must_use]
pub fn limit(soft: i64) -> u64 {
    soft.clamp(0, 1000).cast_unsigned()
}
