// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was granted to those who wait without a thread, and nobody has heard of yet.
//!
//! # States
//! Granted -> a lock, when it is heard of; or nothing, when nobody wants to hear of it any more.
//!
//! # Rules
//! R1. To others a claim is a lock. To its owner it is none: what that has stays as it is, and
//!     what it does meanwhile is not undone with the claim.
//! R2. Claims of one owner do not join, so that each can go alone.
//!
//! # Guarantees
//! G1. What is in somebody's way is found in O(log n), and O(1) more for each claim of his own
//!     that has some of the range.

use super::ranges::{Ask, Held};
use super::tree::{Piece, Tree};
use super::{LockKind, LockOwner, Range};
use std::collections::BTreeMap;

/// The claims of one file, by the number of the wait. See the module head.
#[derive(Default)]
pub(super) struct Claims {
    by_wait: BTreeMap<u64, Ask>,
    tree: Tree,
}

impl Claims {
    pub(super) fn is_empty(&self) -> bool {
        self.by_wait.is_empty()
    }

    pub(super) fn enter(&mut self, wait: u64, ask: Ask) {
        let Range { start, end } = ask.range;
        let write = ask.kind == LockKind::Write;
        self.tree.insert(Piece {
            start,
            end,
            rank: wait,
            write,
        });
        self.by_wait.insert(wait, ask);
    }

    pub(super) fn take(&mut self, wait: u64) -> Option<Ask> {
        let ask = self.by_wait.remove(&wait)?;
        self.tree.remove(ask.range.start, wait);
        Some(ask)
    }

    /// The first that keeps `me` from having `range`; of any owner, if that is `None`.
    #[inline(never)]
    pub(super) fn conflict(
        &self,
        me: Option<LockOwner>,
        range: Range,
        kind: LockKind,
    ) -> Option<Held> {
        let mut found = None;
        let write = kind == LockKind::Write;
        self.tree
            .until(range.start, range.end, write, &mut |piece| {
                let ask = self.by_wait.get(&piece.rank);
                found = ask.filter(|ask| me != Some(ask.owner));
                found.is_some()
            });
        found.map(Ask::held)
    }

    /// All, in the order in which they were asked for.
    pub(super) fn iter(&self) -> impl Iterator<Item = Held> {
        self.by_wait.values().map(Ask::held)
    }
}
