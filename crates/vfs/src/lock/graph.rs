// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the wait-for graph of a `Vfs` (which owner waits for which, over all files), and finds
//! deadlocks in it.
//!
//! # Kernel analogue
//! `blocked_hash` and `posix_locks_deadlock`. An owner may wait for several locks at once, by
//! several threads. As there, the search for a deadlock follows only one of these waits: the latest
//! that is for the lock of a table.
//!
//! # Shape
//! Requests for the same range of a file in the same mode stand in one line. All of them wait for
//! the first lock in the way of the line, except its owner's: those wait for the first lock of
//! another owner. So a line has two blockers, however long it is.

use crate::lock_call::LockOwner;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How many waits of an owner are looked at, of which all but the last found are for open files'
/// locks.
const LOOKED_AT: usize = 64;

/// A line, by a number that only it has.
pub(super) type LineId = u64;

/// The owners that a line waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Blockers {
    /// The owner that blocks all others.
    pub(super) first: LockOwner,
    /// The owner that blocks `first`.
    pub(super) second: Option<LockOwner>,
}

impl Blockers {
    /// The owner that blocks `owner`.
    pub(super) fn of(&self, owner: LockOwner) -> Option<LockOwner> {
        if self.first == owner {
            self.second
        } else {
            Some(self.first)
        }
    }
}

/// The waits of one owner.
#[derive(Default)]
struct Waits {
    by_age: BTreeMap<u64, LineId>,
    by_line: BTreeSet<(LineId, u64)>,
}

/// All waits of a `Vfs`.
#[derive(Default)]
pub(super) struct Graph {
    lines: HashMap<LineId, Blockers>,
    /// Where each owner waits.
    waits: HashMap<LockOwner, Waits>,
    /// The number of the next wait: later waits have higher numbers.
    next: u64,
}

impl Graph {
    /// Notes the blockers of a line.
    pub(super) fn block(&mut self, line: LineId, by: Blockers) {
        self.lines.insert(line, by);
    }

    /// Forgets a line; with the last one, the memory that all took goes.
    pub(super) fn end_line(&mut self, line: LineId) {
        self.lines.remove(&line);
        if self.lines.is_empty() {
            self.lines = HashMap::default();
        }
    }

    /// The blockers of a line.
    pub(super) fn blockers(&self, line: LineId) -> Option<Blockers> {
        self.lines.get(&line).copied()
    }

    /// The owner waits in a line; the number of the wait.
    pub(super) fn enter(&mut self, owner: LockOwner, line: LineId) -> u64 {
        let seq = self.next;
        self.next += 1;
        let waits = self.waits.entry(owner).or_default();
        waits.by_age.insert(seq, line);
        waits.by_line.insert((line, seq));
        seq
    }

    /// The owner waits there no more. With the last one, the memory that all took goes.
    pub(super) fn leave(&mut self, owner: LockOwner, line: LineId, seq: u64) {
        if let Some(waits) = self.waits.get_mut(&owner) {
            waits.by_age.remove(&seq);
            waits.by_line.remove(&(line, seq));
            if waits.by_age.is_empty() {
                self.waits.remove(&owner);
            }
            if self.waits.is_empty() {
                self.waits = HashMap::default();
            }
        }
    }

    /// The owner's longest wait in this line.
    pub(super) fn waits_in(&self, owner: LockOwner, line: LineId) -> Option<u64> {
        let waits = self.waits.get(&owner)?;
        let mut here = waits.by_line.range((line, 0)..=(line, u64::MAX));
        here.next().map(|(_, seq)| *seq)
    }

    /// The table for which the owner waits; of several, the last that it came to wait for.
    fn next(&self, owner: LockOwner) -> Option<LockOwner> {
        let lines = self.waits.get(&owner)?.by_age.values().rev();
        lines.take(LOOKED_AT).find_map(|line| {
            let blocker = self.lines.get(line)?.of(owner)?;
            blocker.is_table().then_some(blocker)
        })
    }

    /// The owners that `blocker` waits for, directly and through others, up to `hops`.
    pub(super) fn chain(&self, blocker: LockOwner, hops: u32) -> impl Iterator<Item = LockOwner> {
        let first = self.next(blocker);
        let chain = core::iter::successors(first, |owner| self.next(*owner));
        // The first of them is no hop.
        chain.take(hops as usize + 1)
    }

    /// Whether `owner` would wait for itself if it waited for `blocker` (R4 of the module).
    pub(super) fn closes(&self, owner: LockOwner, blocker: LockOwner, hops: u32) -> bool {
        owner.is_table() && self.chain(blocker, hops).any(|other| other == owner)
    }

    /// Whether no owner waits.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.waits.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_for_a_file_hides_no_wait_for_a_table() {
        let (me, other) = (LockOwner::Table(1), LockOwner::Table(2));
        let mut graph = Graph::default();
        let only = |first| Blockers {
            first,
            second: None,
        };
        graph.block(1, only(other));
        let first = graph.enter(me, 1);
        graph.block(2, only(LockOwner::File(3)));
        graph.enter(me, 2);
        assert!(graph.closes(other, me, 10));
        graph.block(3, only(LockOwner::Table(4)));
        let last = graph.enter(me, 3);
        assert!(!graph.closes(other, me, 10), "the last alone");
        graph.leave(me, 3, last);
        assert!(graph.closes(other, me, 10));
        graph.leave(me, 1, first);
        assert!(!graph.closes(other, me, 10));
    }
}
