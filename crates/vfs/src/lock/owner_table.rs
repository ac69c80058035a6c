// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the locks of one file once there are several: the spans of each owner, and all spans in
//! one tree.
//!
//! # Rules
//! R1. Spans of two owners overlap only if neither excludes. The caller has asked
//!     [`OwnerTable::conflict`] before it sets one.
//! R2. Owners are ordered by the time of their first span. An owner without spans is forgotten, and
//!     comes last when it returns. Linux finds them in this order.
//! R3. The tenant of an owner's first request pays for all of its spans here, one by one, until the
//!     last is gone.

use super::ranges::{HeldLock, LockRequest};
use super::spans::{Edit, Span, Spans};
use super::tree::{NO_OWNER, Rank, Tree, TreeSpan};
use super::waiter_charge::WaiterCharge;
use crate::lock_call::{LockKind, LockOwner, Range};
use crate::tenant::TenantRef;
use openpath_abi::Errno;
use std::collections::{BTreeMap, HashMap};

/// What one owner has.
struct OwnerLocks {
    owner: LockOwner,
    spans: Spans,
    tenant: TenantRef,
}

impl Drop for OwnerLocks {
    /// R3
    fn drop(&mut self) {
        self.tenant.uncharge_locks(self.spans.len() as u64);
    }
}

/// The locks of one file. See the module head.
#[derive(Default)]
pub(super) struct OwnerTable {
    groups: BTreeMap<Rank, OwnerLocks>,
    ranks: HashMap<LockOwner, Rank>,
    tree: Tree,
    next: Rank,
}

impl OwnerTable {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Takes a lock over that was the only one, and is paid for.
    pub(super) fn adopt(&mut self, held: &HeldLock, tenant: &TenantRef) {
        let rank = self.enter(held.owner, tenant);
        let HeldLock {
            range, kind, pid, ..
        } = *held;
        let end = range.end;
        let edit = Edit {
            new: vec![(range.start, Span { end, kind, pid })],
            ..Edit::default()
        };
        self.make(rank, &edit);
    }

    /// The first lock that keeps `me` from having `range`; of any owner, if that is `None`.
    #[inline(never)]
    pub(super) fn conflict(
        &self,
        me: Option<LockOwner>,
        range: Range,
        kind: LockKind,
    ) -> Option<HeldLock> {
        if self.is_empty() {
            return None;
        }
        let rank = me.and_then(|me| self.ranks.get(&me));
        let me = rank.copied().unwrap_or(NO_OWNER);
        let write = kind == LockKind::Write;
        let piece = self.tree.first(range.start, range.end, write, me)?;
        let group = self.groups.get(&piece.rank)?;
        let mut spans = group.spans.within(piece.start, piece.start);
        spans.next().map(|(start, span)| held(group, start, span))
    }

    /// The owner's first lock that has some of `range`.
    #[inline(never)]
    pub(super) fn own(&self, owner: LockOwner, range: Range) -> Option<HeldLock> {
        if self.is_empty() {
            return None;
        }
        let group = self.group(owner)?;
        let mut spans = group.spans.within(range.start, range.end);
        spans.next().map(|(start, span)| held(group, start, span))
    }

    /// All locks, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = HeldLock> {
        self.groups.values().flat_map(|group| {
            let spans = group.spans.iter();
            spans.map(|(start, span)| held(group, start, span))
        })
    }

    /// Gives the owner a lock that nothing blocks (R1); whether that lowers
    /// what it has, so that others may have some of the range.
    ///
    /// # Errors
    /// `ENOLCK`: as many locks as its tenant may have; nothing is changed.
    #[inline(never)]
    pub(super) fn set(&mut self, ask: LockRequest) -> Result<bool, Errno> {
        let rank = match self.ranks.get(&ask.owner) {
            Some(rank) => *rank,
            None => self.enter(ask.owner, &ask.tenant),
        };
        let changed = self.change(rank, ask.range, Some(ask.kind), ask.pid, ask.charge);
        self.forget_if_idle(rank);
        changed
    }

    /// Frees what the owner has of `range`; whether it had any.
    ///
    /// # Errors
    /// `ENOLCK`: a lock would become two, and its tenant may have no more.
    #[inline(never)]
    pub(super) fn free(&mut self, owner: LockOwner, range: Range) -> Result<bool, Errno> {
        if self.is_empty() {
            return Ok(false);
        }
        let Some(&rank) = self.ranks.get(&owner) else {
            return Ok(false);
        };
        let changed = self.change(rank, range, None, 0, WaiterCharge::default());
        self.forget_if_idle(rank);
        changed
    }

    /// Takes all from the owner; what that covered, from its first byte to its last.
    #[inline(never)]
    pub(super) fn free_all(&mut self, owner: LockOwner) -> Option<Range> {
        if self.is_empty() {
            return None;
        }
        let rank = self.forget(owner)?;
        let group = self.groups.remove(&rank)?;
        let (mut first, mut last) = (i64::MAX, 0);
        for (start, span) in group.spans.iter() {
            self.tree.remove(start, rank);
            (first, last) = (first.min(start), last.max(span.end));
        }
        Some(Range {
            start: first,
            end: last,
        })
    }

    /// The owners.
    pub(super) fn owners(&self) -> impl Iterator<Item = LockOwner> {
        self.groups.values().map(|group| group.owner)
    }

    fn group(&self, owner: LockOwner) -> Option<&OwnerLocks> {
        self.groups.get(self.ranks.get(&owner)?)
    }

    /// An owner that had nothing here.
    fn enter(&mut self, owner: LockOwner, tenant: &TenantRef) -> Rank {
        let rank = self.next;
        self.next += 1;
        self.ranks.insert(owner, rank);
        let group = OwnerLocks {
            owner,
            spans: Spans::default(),
            tenant: tenant.clone(),
        };
        self.groups.insert(rank, group);
        rank
    }

    /// Forgets an owner's rank; with the last one, the memory that all took goes.
    fn forget(&mut self, owner: LockOwner) -> Option<Rank> {
        let rank = self.ranks.remove(&owner)?;
        if self.ranks.is_empty() {
            self.ranks = HashMap::default();
        }
        Some(rank)
    }

    /// R2
    fn forget_if_idle(&mut self, rank: Rank) {
        if self.groups.get(&rank).is_some_and(|g| g.spans.is_empty())
            && let Some(group) = self.groups.remove(&rank)
        {
            self.forget(group.owner);
        }
    }

    /// Whether it gives something up. `charge` has paid for one lock, if it is of the paying tenant
    /// (R3).
    fn change(
        &mut self,
        rank: Rank,
        range: Range,
        kind: Option<LockKind>,
        pid: i32,
        mut charge: WaiterCharge,
    ) -> Result<bool, Errno> {
        let Some(group) = self.groups.get(&rank) else {
            return Ok(false);
        };
        let edit = group.spans.plan(range, kind, pid);
        let paid = charge.is_of(&group.tenant);
        let growth = edit.growth() - i64::from(paid);
        match u64::try_from(growth) {
            Ok(more) => group.tenant.charge_locks(more)?,
            Err(_) => group.tenant.uncharge_locks(growth.unsigned_abs()),
        }
        if paid {
            charge.spend();
        }
        self.make(rank, &edit);
        Ok(edit.frees)
    }

    /// Makes a planned change, which is paid for.
    fn make(&mut self, rank: Rank, edit: &Edit) {
        for &start in &edit.gone {
            self.tree.remove(start, rank);
        }
        for &(start, span) in &edit.new {
            self.tree.insert(TreeSpan {
                start,
                end: span.end,
                rank,
                write: span.kind == LockKind::Write,
            });
        }
        if let Some(group) = self.groups.get_mut(&rank) {
            group.spans.apply(edit);
        }
    }
}

fn held(group: &OwnerLocks, start: i64, span: &Span) -> HeldLock {
    HeldLock {
        owner: group.owner,
        range: Range {
            start,
            end: span.end,
        },
        kind: span.kind,
        pid: span.pid,
    }
}
