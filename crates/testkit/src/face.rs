// SPDX-License-Identifier: MIT OR Apache-2.0
//! A face: something that operations can be applied to, and that can be looked at.

use crate::op::Op;
use crate::outcome::Outcome;
use crate::tree::{Depth, Tree};

/// One side of the oracle, for one case.
pub trait Face {
    /// Applies the operation of this number.
    fn apply(&mut self, at: usize, op: &Op) -> Outcome;
    /// Does not apply the operation of this number: its time passes, and an umount(2) follows
    /// the links of its path.
    fn skip(&mut self, at: usize, op: &Op);
    /// Takes a picture of the whole tree, as root, from the root of the case.
    fn snapshot(&mut self, depth: Depth) -> Tree;
    /// The case is over: what is still wrong, such as a scan that lost an entry.
    fn finish(&mut self) -> Vec<String>;
}
