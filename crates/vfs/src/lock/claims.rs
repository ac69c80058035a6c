// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps claims: locks granted to waiters without a thread that have not read their answer yet.
//!
//! # States
//! Granted -> a lock, when the waiter reads the answer; or nothing, when it gives up, or its
//! owner's locks of the file end.
//!
//! # Rules
//! R1. To other owners a claim is a lock. To its own owner it is none: the owner's locks stay as
//!     they are, and the end of the claim undoes nothing that the owner did meanwhile.
//! R2. Claims of one owner do not join, so that each can end alone.
//! R3. A claim ends with its owner's locks of the file; its waiter gets `EBADF`.
//!
//! # Guarantees
//! G1. A conflict is found in O(log n), and O(1) more for each claim of the asking owner on some of
//!     the range.

use super::queue::QueuedLock;
use super::ranges::{HeldLock, LockRequest};
use super::tree::{Tree, TreeSpan};
use crate::lock_call::{LockKind, LockOwner, Range};
use openpath_abi::Errno;
use std::collections::{BTreeMap, BTreeSet};

/// The claims of one file, by the number of the wait. See the module head.
#[derive(Default)]
pub(super) struct Claims {
    by_wait: BTreeMap<u64, QueuedLock>,
    by_owner: BTreeSet<(LockOwner, u64)>,
    tree: Tree,
}

impl Claims {
    pub(super) fn is_empty(&self) -> bool {
        self.by_wait.is_empty()
    }

    pub(super) fn enter(&mut self, wait: u64, waiter: QueuedLock) {
        let Range { start, end } = waiter.ask.range;
        let write = waiter.ask.kind == LockKind::Write;
        self.tree.insert(TreeSpan {
            start,
            end,
            rank: wait,
            write,
        });
        self.by_owner.insert((waiter.ask.owner, wait));
        self.by_wait.insert(wait, waiter);
    }

    pub(super) fn take(&mut self, wait: u64) -> Option<QueuedLock> {
        let waiter = self.by_wait.remove(&wait)?;
        self.by_owner.remove(&(waiter.ask.owner, wait));
        self.tree.remove(waiter.ask.range.start, wait);
        Some(waiter)
    }

    /// Ends all that the owner has (R3); what they cover, from the first byte to the last.
    pub(super) fn end_all(&mut self, owner: LockOwner) -> Option<Range> {
        let mut freed = None;
        loop {
            let mut own = self.by_owner.range((owner, 0)..=(owner, u64::MAX));
            let Some(&(_, wait)) = own.next() else {
                return freed;
            };
            let waiter = self.take(wait)?;
            waiter.answer.refuse(Errno::EBADF);
            let range = waiter.ask.range;
            freed = Some(freed.map_or(range, |freed: Range| freed.around(range)));
        }
    }

    /// The first that keeps `me` from having `range`; of any owner, if that is `None`.
    #[inline(never)]
    pub(super) fn conflict(
        &self,
        me: Option<LockOwner>,
        range: Range,
        kind: LockKind,
    ) -> Option<HeldLock> {
        let mut found = None;
        let write = kind == LockKind::Write;
        self.tree
            .until(range.start, range.end, write, &mut |piece| {
                let ask = self.by_wait.get(&piece.rank).map(|waiter| &waiter.ask);
                found = ask.filter(|ask| me != Some(ask.owner));
                found.is_some()
            });
        found.map(LockRequest::held)
    }

    /// All, in the order in which they were asked for.
    pub(super) fn iter(&self) -> impl Iterator<Item = HeldLock> {
        self.by_wait.values().map(|waiter| waiter.ask.held())
    }
}
