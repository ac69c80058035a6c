// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may have locks of ranges by an opening.
//!
//! # States of an owner
//! Asks (so many of its requests have no answer) <-> rests -> forgotten: it was seen to have
//! nothing, or its table has closed a descriptor of the opening, or that has ended.
//!
//! # Rules
//! R1. Who asks is not forgotten: what it is granted would outlive the opening.
//! R2. Who was seen to have nothing is forgotten unless it has asked since it began to be looked
//!     at: it may have been granted something after that.
//! R3. With twice as many owners of an opening as after somebody was forgotten last, and
//!     [`LOOK_AT`] at least, all who rest are looked at: so there are hardly more than twice those
//!     that have something or ask.

use openpath_sync::Mutex;
use openpath_vfs::Fd;
use openpath_vfs::lock_order::FuseLocks;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// With so many owners of an opening it is looked for the first time who has nothing.
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
    /// With so many of them all are looked at.
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
    /// How many of its requests have no answer.
    pending: u32,
    /// The number of the last of them.
    last_request: u64,
}

/// One who rests, and is to be looked at.
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
    /// An owner asks for a lock. Who is to be looked at for that (R3): mostly nobody.
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
        // If nobody is forgotten for that.
        opening.scan_at = 2 * count;
        idle
    }

    /// A request has its answer, which nobody has heard yet: the opening is there.
    pub(super) fn end_request(&self, fd: Fd, owner: u64) {
        let mut table = self.0.lock();
        let opening = table.openings.get_mut(&fd);
        if let Some(it) = opening.and_then(|opening| opening.owners.get_mut(&owner)) {
            it.pending = it.pending.saturating_sub(1);
        }
    }

    /// An owner, if it is noted and rests.
    pub(super) fn idle(&self, fd: Fd, owner: u64) -> Option<IdleOwner> {
        let table = self.0.lock();
        IdleOwner::of(table.openings.get(&fd)?.owners.get_key_value(&owner)?)
    }

    /// Forgets one who had nothing when it was looked at (R2).
    pub(super) fn forget_if_unchanged(&self, fd: Fd, it: IdleOwner) {
        self.forget(fd, it.owner, |now| now == it);
    }

    /// A table has closed a descriptor of an opening. Who asks still has another one, or will not
    /// say once more that it has closed it (R1).
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

    /// An opening ends: who may have something.
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
    fn who_asked_since_it_was_looked_at_is_not_forgotten() {
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
        // Nor who was forgotten in between and is back.
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
    fn who_asks_is_not_forgotten_when_it_closes() {
        let owners = Owners::default();
        owners.begin_request(FD, 1);
        owners.begin_request(FD, 1);
        owners.end_request(FD, 1);
        owners.closed(FD, 1);
        owners.end_request(FD, 1);
        assert_eq!(left(&owners), [1]);
    }

    #[test]
    fn those_who_have_nothing_do_not_pile_up() {
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
