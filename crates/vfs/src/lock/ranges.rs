// SPDX-License-Identifier: MIT OR Apache-2.0
//! All that is locked of one file. Nearly always that is one lock, which takes no memory of its
//! own.
//!
//! # States
//! Nothing -> one lock, in place -> many, from the first change that leaves more than one, or part
//! of one -> nothing, when the last goes.
//!
//! # Rules
//! R1. There is one in place only while there are not many.

use super::later::Fee;
use super::many::Many;
use super::{LockKind, LockOwner, Range};
use crate::tenant::TenantRef;
use openpath_abi::Errno;

/// A lock that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    pub(super) owner: LockOwner,
    pub(super) range: Range,
    pub(super) kind: LockKind,
    pub(super) pid: i32,
}

/// A request for a lock.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) owner: LockOwner,
    pub(super) range: Range,
    pub(super) kind: LockKind,
    pub(super) pid: i32,
    /// Who pays.
    pub(super) tenant: TenantRef,
}

/// A lock that is the only one, and who pays for it.
struct Sole {
    held: Held,
    tenant: TenantRef,
    /// How many locks its end gives back: one, or none if others have it now.
    charged: u64,
}

impl Drop for Sole {
    fn drop(&mut self) {
        self.tenant.uncharge_locks(self.charged);
    }
}

/// The locks of one file. See the module head.
#[derive(Default)]
pub(super) struct Ranges {
    sole: Option<Sole>,
    many: Many,
}

impl Range {
    fn meets(self, other: Self) -> bool {
        self.start <= other.end && other.start <= self.end
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
    ) -> Option<Held> {
        let Some(Sole { held, .. }) = &self.sole else {
            return self.many.conflict(me, range, kind);
        };
        let excludes = held.kind == LockKind::Write || kind == LockKind::Write;
        let theirs = me != Some(held.owner);
        (theirs && excludes && held.range.meets(range)).then_some(*held)
    }

    /// The owner's first lock that has some of `range`.
    pub(super) fn own(&self, owner: LockOwner, range: Range) -> Option<Held> {
        let Some(Sole { held, .. }) = &self.sole else {
            return self.many.own(owner, range);
        };
        (held.owner == owner && held.range.meets(range)).then_some(*held)
    }

    /// All locks, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Held> {
        let sole = self.sole.iter().map(|sole| sole.held);
        sole.chain(self.many.iter())
    }

    /// Gives the owner what it asks for, which nobody is in the way of; whether that lowers what it
    /// has, so that others may have some of the range. `fee` is what was paid for it before.
    ///
    /// # Errors
    /// `ENOLCK`: as many locks as its tenant may have; nothing is changed.
    pub(super) fn set(&mut self, ask: Ask, fee: Option<Fee>) -> Result<bool, Errno> {
        if self.sole.is_some() {
            self.spread();
        } else if self.many.is_empty() {
            match fee {
                Some(fee) => fee.spend(),
                None => ask.tenant.charge_locks(1)?,
            }
            self.sole = Some(Sole {
                held: Held {
                    owner: ask.owner,
                    range: ask.range,
                    kind: ask.kind,
                    pid: ask.pid,
                },
                tenant: ask.tenant,
                charged: 1,
            });
            return Ok(false);
        }
        self.many.set(&ask, fee)
    }

    /// Frees what the owner has of `range`; whether it had any.
    ///
    /// # Errors
    /// `ENOLCK`: a lock would become two, and its tenant may have no more.
    pub(super) fn free(&mut self, owner: LockOwner, range: Range) -> Result<bool, Errno> {
        if let Some(Sole { held, .. }) = &self.sole {
            if held.owner != owner || !held.range.meets(range) {
                return Ok(false);
            }
            if range.covers(held.range) {
                self.sole = None;
                return Ok(true);
            }
            self.spread();
        }
        self.many.free(owner, range)
    }

    /// Takes all from the owner; what that covered, from its first byte to its last.
    pub(super) fn free_all(&mut self, owner: LockOwner) -> Option<Range> {
        let Some(Sole { held, .. }) = &self.sole else {
            return self.many.free_all(owner);
        };
        let range = (held.owner == owner).then_some(held.range)?;
        self.sole = None;
        Some(range)
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.sole.is_none() && self.many.is_empty()
    }

    /// Whose there are.
    pub(super) fn owners(&self) -> impl Iterator<Item = LockOwner> {
        let sole = self.sole.iter().map(|sole| sole.held.owner);
        sole.chain(self.many.owners())
    }

    /// Makes room for more than the one.
    fn spread(&mut self) {
        if let Some(mut sole) = self.sole.take() {
            self.many.adopt(&sole.held, &sole.tenant);
            sole.charged = 0;
        }
    }
}

#[cfg(test)]
mod tests;
