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
const LOOK_AT: usize = 64;

/// The owners. See the module head.
#[derive(Default)]
pub(super) struct Owners(Mutex<Table, FuseLocks>);

#[derive(Default)]
struct Table {
    openings: HashMap<Fd, Opening>,
    /// The number of the last request.
    asked: u64,
}

struct Opening {
    owners: HashMap<u64, Owner>,
    /// With so many of them all are looked at.
    look_at: usize,
}

impl Default for Opening {
    fn default() -> Self {
        Self {
            owners: HashMap::new(),
            look_at: LOOK_AT,
        }
    }
}

#[derive(Default)]
struct Owner {
    /// How many of its requests have no answer.
    asks: u32,
    /// The number of the last of them.
    asked: u64,
}

/// One who rests, and is to be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Resting {
    pub(super) owner: u64,
    asked: u64,
}

impl Resting {
    fn of((&owner, it): (&u64, &Owner)) -> Option<Self> {
        let asked = it.asked;
        (it.asks == 0).then_some(Self { owner, asked })
    }
}

impl Owners {
    /// An owner asks for a lock. Who is to be looked at for that (R3): mostly nobody.
    pub(super) fn asks(&self, fd: Fd, owner: u64) -> Vec<Resting> {
        let mut table = self.0.lock();
        table.asked += 1;
        let asked = table.asked;
        let opening = table.openings.entry(fd).or_default();
        let it = opening.owners.entry(owner).or_default();
        it.asks += 1;
        it.asked = asked;
        let count = opening.owners.len();
        if count < opening.look_at {
            return Vec::new();
        }
        let resting: Vec<_> = opening.owners.iter().filter_map(Resting::of).collect();
        // If nobody is forgotten for that.
        opening.look_at = 2 * count;
        resting
    }

    /// A request has its answer, which nobody has heard yet: the opening is there.
    pub(super) fn answered(&self, fd: Fd, owner: u64) {
        let mut table = self.0.lock();
        let opening = table.openings.get_mut(&fd);
        if let Some(it) = opening.and_then(|opening| opening.owners.get_mut(&owner)) {
            it.asks = it.asks.saturating_sub(1);
        }
    }

    /// An owner, if it is noted and rests.
    pub(super) fn resting(&self, fd: Fd, owner: u64) -> Option<Resting> {
        let table = self.0.lock();
        Resting::of(table.openings.get(&fd)?.owners.get_key_value(&owner)?)
    }

    /// Forgets one who had nothing when it was looked at (R2).
    pub(super) fn had_nothing(&self, fd: Fd, it: Resting) {
        self.forget(fd, it.owner, |now| now == it);
    }

    /// A table has closed a descriptor of an opening. Who asks still has another one, or will not
    /// say once more that it has closed it (R1).
    pub(super) fn closed(&self, fd: Fd, owner: u64) {
        self.forget(fd, owner, |_| true);
    }

    fn forget(&self, fd: Fd, owner: u64, whom: impl FnOnce(Resting) -> bool) {
        let mut table = self.0.lock();
        let Entry::Occupied(mut opening) = table.openings.entry(fd) else {
            return;
        };
        let Opening { owners, look_at } = opening.get_mut();
        let now = owners.get_key_value(&owner).and_then(Resting::of);
        if now.is_some_and(whom) {
            owners.remove(&owner);
            *look_at = LOOK_AT.max(2 * owners.len());
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
    use super::{LOOK_AT, Owners};

    const FD: i32 = 3;

    fn left(owners: &Owners) -> Vec<u64> {
        let mut all: Vec<_> = owners.released(FD).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn who_asked_since_it_was_looked_at_is_not_forgotten() {
        let owners = Owners::default();
        assert!(owners.asks(FD, 1).is_empty());
        assert_eq!(owners.resting(FD, 1), None, "it asks");
        owners.answered(FD, 1);
        let seen = owners.resting(FD, 1).expect("it rests");
        owners.asks(FD, 1);
        owners.had_nothing(FD, seen);
        owners.answered(FD, 1);
        owners.had_nothing(FD, seen);
        assert!(owners.resting(FD, 1).is_some());
        // Nor who was forgotten in between and is back.
        owners.closed(FD, 1);
        owners.asks(FD, 1);
        owners.answered(FD, 1);
        owners.had_nothing(FD, seen);
        let seen = owners.resting(FD, 1).expect("it rests");
        owners.had_nothing(FD, seen);
        assert_eq!(owners.resting(FD, 1), None);
        assert!(left(&owners).is_empty());
    }

    #[test]
    fn who_asks_is_not_forgotten_when_it_closes() {
        let owners = Owners::default();
        owners.asks(FD, 1);
        owners.asks(FD, 1);
        owners.answered(FD, 1);
        owners.closed(FD, 1);
        owners.answered(FD, 1);
        assert_eq!(left(&owners), [1]);
    }

    #[test]
    fn those_who_have_nothing_do_not_pile_up() {
        let owners = Owners::default();
        let holders = 100;
        for owner in 0..10_000 {
            for it in owners.asks(FD, owner) {
                assert!(it.owner < owner, "who asks is not looked at");
                if it.owner >= holders {
                    owners.had_nothing(FD, it);
                }
            }
            owners.answered(FD, owner);
        }
        let left = left(&owners);
        assert!(
            left.len() < 2 * (holders as usize) + LOOK_AT + 2,
            "{}",
            left.len()
        );
        assert!((0..holders).all(|owner| left.contains(&owner)));
    }
}
