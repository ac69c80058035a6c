// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remembers the owners that may have record locks by an open file.
//!
//! # States of an owner
//! Pending (some of its requests have no reply) <-> idle -> forgotten: it had no lock when it was
//! checked, or its table closed a descriptor of the opening, or the opening has ended.
//!
//! # Rules
//! R1. A pending owner is not forgotten: a lock that it is granted would outlive the opening.
//! R2. An owner that had no lock when it was checked is forgotten, unless it made a request since
//!     the check began, which may have granted a lock.
//! R3. All idle owners of an opening are checked when there are twice as many owners as after the
//!     last one was forgotten, and [`SCAN_MIN`] at least. So there are hardly more than twice the
//!     owners that have a lock or a request.

use openpath_sync::Mutex;
use openpath_vfs::Fd;
use openpath_vfs::lock_order::FuseLocks;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The number of owners of an opening for the first check.
const SCAN_MIN: usize = 64;

/// The owners. See the module head.
#[derive(Default)]
pub(super) struct Owners(Mutex<Table, FuseLocks>);

#[derive(Default)]
struct Table {
    openings: HashMap<Fd, Opening>,
    /// The number of the last request.
    last_request: u64,
}

struct Opening {
    owners: HashMap<u64, Owner>,
    /// With so many owners all idle ones are checked.
    scan_at: usize,
}

impl Default for Opening {
    fn default() -> Self {
        Self {
            owners: HashMap::new(),
            scan_at: SCAN_MIN,
        }
    }
}

#[derive(Default)]
struct Owner {
    /// How many of its requests have no reply.
    pending: u32,
    /// The number of its last request.
    last_request: u64,
}

/// An idle owner that is to be checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IdleOwner {
    pub(super) owner: u64,
    last_request: u64,
}

impl IdleOwner {
    fn of((&owner, it): (&u64, &Owner)) -> Option<Self> {
        let last_request = it.last_request;
        (it.pending == 0).then_some(Self {
            owner,
            last_request,
        })
    }
}

impl Owners {
    /// An owner requests a lock. Returns the owners that are to be checked (R3): mostly none.
    pub(super) fn begin_request(&self, fd: Fd, owner: u64) -> Vec<IdleOwner> {
        let mut table = self.0.lock();
        table.last_request += 1;
        let last_request = table.last_request;
        let opening = table.openings.entry(fd).or_default();
        let it = opening.owners.entry(owner).or_default();
        it.pending += 1;
        it.last_request = last_request;
        let count = opening.owners.len();
        if count < opening.scan_at {
            return Vec::new();
        }
        let idle: Vec<_> = opening.owners.iter().filter_map(IdleOwner::of).collect();
        // In case none is forgotten.
        opening.scan_at = 2 * count;
        idle
    }

    /// A request has its result, which is not sent yet: the opening exists.
    pub(super) fn end_request(&self, fd: Fd, owner: u64) {
        let mut table = self.0.lock();
        let opening = table.openings.get_mut(&fd);
        if let Some(it) = opening.and_then(|opening| opening.owners.get_mut(&owner)) {
            it.pending = it.pending.saturating_sub(1);
        }
    }

    /// An owner, if it is known and idle.
    pub(super) fn idle(&self, fd: Fd, owner: u64) -> Option<IdleOwner> {
        let table = self.0.lock();
        IdleOwner::of(table.openings.get(&fd)?.owners.get_key_value(&owner)?)
    }

    /// Forgets an owner that had no lock when it was checked (R2).
    pub(super) fn forget_if_unchanged(&self, fd: Fd, it: IdleOwner) {
        self.forget(fd, it.owner, |now| now == it);
    }

    /// A table has closed a descriptor of an opening. A pending owner has another descriptor, or
    /// will not report the close again (R1).
    pub(super) fn closed(&self, fd: Fd, owner: u64) {
        self.forget(fd, owner, |_| true);
    }

    fn forget(&self, fd: Fd, owner: u64, matches: impl FnOnce(IdleOwner) -> bool) {
        let mut table = self.0.lock();
        let Entry::Occupied(mut opening) = table.openings.entry(fd) else {
            return;
        };
        let Opening { owners, scan_at } = opening.get_mut();
        let now = owners.get_key_value(&owner).and_then(IdleOwner::of);
        if now.is_some_and(matches) {
            owners.remove(&owner);
            *scan_at = SCAN_MIN.max(2 * owners.len());
            if owners.is_empty() {
                opening.remove();
            }
        }
    }

    /// An opening ends; returns the owners that may have locks.
    pub(super) fn released(&self, fd: Fd) -> impl Iterator<Item = u64> {
        let opening = self.0.lock().openings.remove(&fd);
        opening
            .into_iter()
            .flat_map(|opening| opening.owners.into_keys())
    }
}

#[cfg(test)]
mod tests {
    use super::{Owners, SCAN_MIN};

    const FD: i32 = 3;

    fn left(owners: &Owners) -> Vec<u64> {
        let mut all: Vec<_> = owners.released(FD).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn an_owner_with_a_request_since_its_check_is_not_forgotten() {
        let owners = Owners::default();
        assert!(owners.begin_request(FD, 1).is_empty());
        assert_eq!(owners.idle(FD, 1), None, "it asks");
        owners.end_request(FD, 1);
        let seen = owners.idle(FD, 1).expect("it rests");
        owners.begin_request(FD, 1);
        owners.forget_if_unchanged(FD, seen);
        owners.end_request(FD, 1);
        owners.forget_if_unchanged(FD, seen);
        assert!(owners.idle(FD, 1).is_some());
        // Nor if it was forgotten in between and is back.
        owners.closed(FD, 1);
        owners.begin_request(FD, 1);
        owners.end_request(FD, 1);
        owners.forget_if_unchanged(FD, seen);
        let seen = owners.idle(FD, 1).expect("it rests");
        owners.forget_if_unchanged(FD, seen);
        assert_eq!(owners.idle(FD, 1), None);
        assert!(left(&owners).is_empty());
    }

    #[test]
    fn a_pending_owner_is_not_forgotten_at_a_close() {
        let owners = Owners::default();
        owners.begin_request(FD, 1);
        owners.begin_request(FD, 1);
        owners.end_request(FD, 1);
        owners.closed(FD, 1);
        owners.end_request(FD, 1);
        assert_eq!(left(&owners), [1]);
    }

    #[test]
    fn owners_without_locks_do_not_accumulate() {
        let owners = Owners::default();
        let holders = 100;
        for owner in 0..10_000 {
            for it in owners.begin_request(FD, owner) {
                assert!(it.owner < owner, "who asks is not looked at");
                if it.owner >= holders {
                    owners.forget_if_unchanged(FD, it);
                }
            }
            owners.end_request(FD, owner);
        }
        let left = left(&owners);
        assert!(
            left.len() < 2 * (holders as usize) + SCAN_MIN + 2,
            "{}",
            left.len()
        );
        assert!((0..holders).all(|owner| left.contains(&owner)));
    }
}
