// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the LRU list of a tenant: its cached names in order of age, their number and bytes, and
//! their limits.
//!
//! This is data: `dcache::lru` enters and strikes names, and `dcache::queue` moves the hand.
//!
//! An LRU list has a queue of each kind for every group of threads: tasks side by side write
//! different cache lines.

use crate::lock_order::{Eviction, Queues};
use openpath_sync::{BoundedCounter, Mutex, Shards, Word, Word32};

/// The least budget: the need of a few calls at the same time.
pub(crate) const BUDGET_MIN: u32 = 16;

/// The kind of a cached name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// It exists.
    Positive = 0,
    /// It does not exist.
    Negative = 1,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Positive, Self::Negative];

    /// The other one.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Positive => Self::Negative,
            Self::Negative => Self::Positive,
        }
    }
}

/// Entries of one kind and one LRU list, oldest to newest; 0 is none.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) newest: u32,
    pub(crate) oldest: u32,
    pub(crate) hand: u32,
    pub(crate) len: u32,
}

/// The entries of one tenant.
pub(crate) struct TenantLru {
    pub(crate) number: u32,
    /// Bytes that an entry takes, but for its name.
    entry_bytes: u64,
    /// How many entries are on it and may be, by [`Kind`].
    pub(crate) entries: BoundedCounter<2>,
    pub(crate) parts: Shards<LruShard>,
    /// The part in which the next sweep begins.
    pub(crate) next: Word32,
    /// How many went to make room, by kind.
    evicted: [Word; 2],
    /// Its tenant is gone.
    left: Word32,
    /// Held while room is made.
    pub(crate) evicting: Mutex<(), Eviction>,
}

/// The entries of the threads of one group.
#[derive(Default)]
pub(crate) struct LruShard {
    pub(crate) queues: Mutex<[Queue; 2], Queues>,
    /// Bytes of blocks with long names: added here, less what was taken off here. May wrap.
    name_bytes: Word,
}

/// The figures of an LRU list.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct LruUsage {
    pub(crate) entries: [u32; 2],
    pub(crate) evicted: [u64; 2],
    pub(crate) name_bytes: u64,
    entry_bytes: u64,
}

impl LruUsage {
    /// Bytes of the entries and their names, without the table's share and the path cache.
    pub(crate) fn bytes(&self) -> u64 {
        let entries: u64 = self.entries.iter().map(|&n| u64::from(n)).sum();
        entries * self.entry_bytes + self.name_bytes
    }
}

impl TenantLru {
    pub(crate) fn new(number: u32, limits: [u32; 2], entry_bytes: u64) -> Self {
        Self {
            number,
            entry_bytes,
            entries: BoundedCounter::new(limits.map(|max| max.max(BUDGET_MIN).into())),
            parts: Shards::default(),
            next: Word32::new(0),
            evicted: Default::default(),
            left: Word32::new(0),
            evicting: Mutex::default(),
        }
    }

    /// Its number, from 1.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// How many entries of a kind are on it.
    pub(crate) fn len(&self, kind: Kind) -> u32 {
        self.entries.used(kind as usize) as u32
    }

    /// How many entries of a kind may be on it.
    pub(crate) fn limit(&self, kind: Kind) -> u32 {
        self.entries.max(kind as usize) as u32
    }

    /// Whether one more entry of a kind may be on it.
    pub(crate) fn has_room(&self, kind: Kind) -> bool {
        self.entries.fits(kind as usize, 1)
    }

    /// Its tenant is gone.
    pub(crate) fn leave(&self) {
        self.left.set(1);
    }

    pub(crate) fn is_left(&self) -> bool {
        self.left.get() != 0
    }

    /// The kind that it has more of.
    pub(crate) fn fuller(&self) -> Kind {
        if self.len(Kind::Negative) >= self.len(Kind::Positive) {
            Kind::Negative
        } else {
            Kind::Positive
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        Kind::ALL.iter().all(|&kind| self.len(kind) == 0)
    }

    /// What is on it now.
    pub(crate) fn account(&self) -> LruUsage {
        LruUsage {
            entries: Kind::ALL.map(|kind| self.len(kind)),
            evicted: [0, 1].map(|kind: usize| self.evicted[kind].get()),
            name_bytes: self.name_bytes(),
            entry_bytes: self.entry_bytes,
        }
    }

    fn name_bytes(&self) -> u64 {
        let parts = self.parts.all().map(|part| part.name_bytes.get());
        parts.fold(0, u64::wrapping_add)
    }

    /// Notes that names take `gets` bytes in place of `had`.
    pub(crate) fn count_names(&self, gets: u64, had: u64) {
        if gets != had {
            self.parts.mine().name_bytes.add(gets.wrapping_sub(had));
        }
    }

    pub(crate) fn note_evicted(&self, kind: Kind, count: usize) {
        self.evicted[kind as usize].add(count as u64);
    }
}
