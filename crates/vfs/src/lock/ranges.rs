// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps all locks and claims of one file, and defines what a held lock and a request are. Nearly
//! always there is one lock, which takes no memory of its own.
//!
//! # States
//! Nothing -> one lock, in place -> many, from the first change that leaves more than one, or part
//! of one -> nothing, when the last goes.
//!
//! # Rules
//! R1. There is one in place only while there are not many.

use super::claims::Claims;
use super::owner_table::OwnerTable;
use super::queue::QueuedLock;
use super::waiter_charge::WaiterCharge;
use crate::lock_call::{LockKind, LockOwner, Range};
use crate::tenant::TenantRef;
use openpath_abi::Errno;

/// A lock that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeldLock {
    pub(crate) owner: LockOwner,
    pub(crate) range: Range,
    pub(crate) kind: LockKind,
    pub(crate) pid: i32,
}

/// A request for a lock.
pub(crate) struct LockRequest {
    pub(crate) owner: LockOwner,
    pub(crate) range: Range,
    pub(crate) kind: LockKind,
    pub(crate) pid: i32,
    /// The tenant that pays.
    pub(crate) tenant: TenantRef,
    /// What was paid.
    pub(crate) charge: WaiterCharge,
}

impl LockRequest {
    /// The lock that it is for.
    pub(crate) fn held(&self) -> HeldLock {
        HeldLock {
            owner: self.owner,
            range: self.range,
            kind: self.kind,
            pid: self.pid,
        }
    }
}

/// A lock that is the only one, and the tenant that paid for it.
struct SingleLock {
    held: HeldLock,
    tenant: TenantRef,
    /// How many locks its end gives back: one, or none if others have it now.
    charged: u64,
}

impl SingleLock {
    /// Whether it and what is asked for are one lock afterwards.
    fn becomes(&self, ask: &LockRequest) -> bool {
        self.held.owner == ask.owner && ask.range.covers(self.held.range)
    }
}

impl Drop for SingleLock {
    fn drop(&mut self) {
        self.tenant.uncharge_locks(self.charged);
    }
}

/// The locks of one file. See the module head.
#[derive(Default)]
pub(super) struct Ranges {
    sole: Option<SingleLock>,
    owner_table: OwnerTable,
    claims: Claims,
}

impl Range {
    fn meets(self, other: Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// Both, and what is between them.
    pub(super) fn around(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    fn covers(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

impl Ranges {
    /// The first lock that keeps `me` from having `range`; of any owner, if that is `None`.
    pub(super) fn conflict(
        &self,
        me: Option<LockOwner>,
        range: Range,
        kind: LockKind,
    ) -> Option<HeldLock> {
        let found = match &self.sole {
            Some(SingleLock { held, .. }) => {
                let excludes = held.kind == LockKind::Write || kind == LockKind::Write;
                let theirs = me != Some(held.owner);
                (theirs && excludes && held.range.meets(range)).then_some(*held)
            }
            None => self.owner_table.conflict(me, range, kind),
        };
        if found.is_some() || self.claims.is_empty() {
            return found;
        }
        self.claims.conflict(me, range, kind)
    }

    /// The owner's first lock that has some of `range`.
    pub(super) fn own(&self, owner: LockOwner, range: Range) -> Option<HeldLock> {
        let Some(SingleLock { held, .. }) = &self.sole else {
            return self.owner_table.own(owner, range);
        };
        (held.owner == owner && held.range.meets(range)).then_some(*held)
    }

    /// All locks, in order, and then the claims.
    pub(super) fn iter(&self) -> impl Iterator<Item = HeldLock> {
        let sole = self.sole.iter().map(|sole| sole.held);
        sole.chain(self.owner_table.iter())
            .chain(self.claims.iter())
    }

    /// Keeps a claim until its answer is read, by the number of the wait.
    pub(super) fn claim(&mut self, wait: u64, waiter: QueuedLock) {
        self.claims.enter(wait, waiter);
    }

    /// Takes that, if it is there still.
    pub(super) fn unclaim(&mut self, wait: u64) -> Option<QueuedLock> {
        self.claims.take(wait)
    }

    /// Gives the owner a lock that nothing blocks. Whether that lowers one of its locks, so that
    /// others may have some of the range.
    ///
    /// # Errors
    /// `ENOLCK`: as many locks as its tenant may have; nothing is changed.
    pub(super) fn set(&mut self, mut ask: LockRequest) -> Result<bool, Errno> {
        if let Some(sole) = &mut self.sole {
            if sole.becomes(&ask) {
                let lowers = (sole.held.kind, ask.kind) == (LockKind::Write, LockKind::Read);
                if sole.held.kind != ask.kind {
                    sole.held.pid = ask.pid;
                }
                (sole.held.range, sole.held.kind) = (ask.range, ask.kind);
                return Ok(lowers);
            }
            self.spread();
        } else if self.owner_table.is_empty() {
            if !ask.charge.spend() {
                ask.tenant.charge_locks(1)?;
            }
            self.sole = Some(SingleLock {
                held: ask.held(),
                tenant: ask.tenant,
                charged: 1,
            });
            return Ok(false);
        }
        self.owner_table.set(ask)
    }

    /// Frees what the owner has of `range`; whether it had any.
    ///
    /// # Errors
    /// `ENOLCK`: a lock would become two, and its tenant may have no more.
    pub(super) fn free(&mut self, owner: LockOwner, range: Range) -> Result<bool, Errno> {
        if let Some(SingleLock { held, .. }) = &self.sole {
            if held.owner != owner || !held.range.meets(range) {
                return Ok(false);
            }
            if range.covers(held.range) {
                self.sole = None;
                return Ok(true);
            }
            self.spread();
        }
        self.owner_table.free(owner, range)
    }

    /// Takes all from the owner; what that covered, from its first byte to its last.
    pub(super) fn free_all(&mut self, owner: LockOwner) -> Option<Range> {
        let freed = match &self.sole {
            Some(SingleLock { held, .. }) => {
                let range = (held.owner == owner).then_some(held.range);
                if range.is_some() {
                    self.sole = None;
                }
                range
            }
            None => self.owner_table.free_all(owner),
        };
        if self.claims.is_empty() {
            return freed;
        }
        match (freed, self.claims.end_all(owner)) {
            (Some(freed), Some(more)) => Some(freed.around(more)),
            (freed, more) => freed.or(more),
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.sole.is_none() && self.owner_table.is_empty() && self.claims.is_empty()
    }

    /// The owners; one with claims comes more than once.
    pub(super) fn owners(&self) -> impl Iterator<Item = LockOwner> {
        let sole = self.sole.iter().map(|sole| sole.held.owner);
        let claims = self.claims.iter().map(|held| held.owner);
        sole.chain(self.owner_table.owners()).chain(claims)
    }

    /// Makes room for more than the one.
    fn spread(&mut self) {
        if let Some(mut sole) = self.sole.take() {
            self.owner_table.adopt(&sole.held, &sole.tenant);
            sole.charged = 0;
        }
    }
}

#[cfg(test)]
mod tests;
