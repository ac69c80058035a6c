// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a hash table of slab indices that readers search without a lock while it changes,
//! grows and changes its key.
//!
//! # Kernel analogue
//! `dentry_hashtable` (`hlist_bl` with a lock bit in each head), but it grows. One bucket splits at
//! a time (linear hashing) in address space that is reserved for the largest size, so nothing is
//! copied or swapped under readers. And a search that finds nothing can prove it, for which the
//! kernel needs `rename_lock` or the directory's lock.
//!
//! # Layout of a bucket
//! bits 0..31 head index, bit 31 lock, bits 32..40 length of the chain (255: or more), bits 40..64
//! version. Entries are chained through a link word of their own.
//!
//! # Two halves
//! The table has room for its buckets twice. While it changes its key, entries move from the half
//! in use to the other one, bucket by bucket in order. Entries of a bucket below the `moved` mark
//! are in the other half, under the new key. When all have moved, the other half is the one in use.
//! Each insertion moves a few buckets, so no thread waits for more than these.
//!
//! # Rules
//! R1. Insert, remove, split and move hold the bucket's lock ([`Table::lock`]); a release after a
//!     change raises the version. When a version wraps, the generation of the table rises.
//! R2. A moving entry may lead a reader into another chain, or out of one; a hit counts only if the
//!     entry's own life word confirms it.
//! R3. [`Table::missed`] proves a miss: the bucket's word and the table's shape are what they were
//!     before the search. PAIR(hash.miss): a thread that changes a link, or the name of a removed
//!     entry, locked the bucket before, and stores with release. A reader that acquire-loaded the
//!     new value therefore sees the bucket locked or newer afterwards. A split or a move updates
//!     the shape or the mark before it releases the bucket.
//! R4. A thread holds one bucket lock at a time, with these exceptions. [`Table::lock_two`] waits
//!     for no lock while it holds another. A split and a move take the second lock while they hold
//!     the first, both under `work`.
//!
//! # Guarantees
//! G1. Under the bucket's lock a search is exact.
//! G2. A search ends: without the lock it follows a chain for at most [`CHAIN_MAX`] steps.
//! G3. Chains stay below [`CHAIN_CAP`] if every inserter asks [`Table::is_crowded`] first and makes
//!     room; concurrent inserters may exceed it by their number. With a load of at most two entries
//!     a bucket, chance alone crowds one chain in 10^11 tables of a million names.
//!
//! # Limits
//! Buckets never merge again; a bucket costs eight bytes, and as many again once the key changed.

mod key;
mod locked;
mod rekey;
mod shape;

pub use key::HashKey;
pub use locked::Locked;
pub use rekey::ChainRelief;
pub use shape::View;

use crate::cache_padded::CachePadded;
use crate::primitive::{Mutex, SHARDS, no_fault_injection};
use crate::region::{NoSpace, Region};
use crate::shards::Shards;
use crate::word::{Word, Word32};
use rekey::RekeyState;
use shape::{Half, MOVING, Shape};

const LOCKED: u64 = 1 << 31;
const HEAD: u32 = (1 << 31) - 1;
const LENGTH_SHIFT: u32 = 32;
const LENGTH_MAX: u32 = 255;
const VERSION_SHIFT: u32 = 40;
/// Longest walk along one chain without its lock.
pub const CHAIN_MAX: u32 = 256;
/// No chain gets longer if inserters make room; see G3.
pub const CHAIN_CAP: u32 = 32;
/// Inserters make room from this length on, so that concurrent ones do not reach the cap.
const CROWDED: u32 = 24;
/// Marks the place of a certificate; none has it 0.
const PLACE_TAG: u64 = 1 << 63;
/// Initial buckets: enough that two tasks with a few names each seldom write one cache line.
const INITIAL_BUCKETS: u32 = if cfg!(loom) {
    2
} else if cfg!(shuttle) {
    64
} else {
    1024
};
/// A thread reports its insertions once they reach the number of buckets divided by this. So the
/// reported count is off by less than a quarter of the buckets.
const REPORT_DIVISOR: u32 = 4 * SHARDS as u32;

/// How a table reaches the link and the hash of the entry at an index.
pub trait Chain {
    /// The link word of the entry.
    fn link(&self, index: u32) -> &Word32;
    /// The hash of the entry under `key`, as at insertion.
    fn hash(&self, index: u32, key: HashKey) -> u64;
}

/// The buckets. Entries belong to the caller, reached through [`Chain`].
pub struct Table {
    buckets: Region<Word>,
    /// Buckets in use, half, generation; see [`Shape`].
    shape: Word,
    halves: [Half; 2],
    /// Written by insertions, so kept apart from what every search reads.
    progress: CachePadded<Progress>,
    /// Insertions less removals that threads have not reported yet; see [`Table::count`].
    unreported: Shards<Word>,
}

struct Progress {
    /// Entries, as far as threads have reported them.
    entries: Word,
    /// During a change of key: buckets below this one have no entries left in the old half.
    moved: Word32,
    work: Mutex<RekeyState>,
}

/// A bucket under search, as it was when the search began.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    bucket: u32,
    word: u64,
}

impl Probe {
    /// The first entry, or 0.
    #[inline(always)]
    #[must_use]
    pub fn head(self) -> u32 {
        self.word as u32 & HEAD
    }
    /// The word of the bucket, to be checked later with [`Table::certifies`].
    #[must_use]
    #[inline(always)]
    pub fn certificate(self, view: &View) -> Certificate {
        Certificate {
            word: self.word,
            place: place_of(Shape(view.shape), self.bucket),
        }
    }
}

/// A bucket in this generation of the table, as a [`Certificate`] names it.
#[inline(always)]
fn place_of(shape: Shape, bucket: u32) -> u64 {
    PLACE_TAG | shape.generation() << 32 | u64::from(bucket)
}

/// A proved miss, to be confirmed later without a search: as long as the bucket's word is
/// unchanged, nothing was added to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Certificate {
    /// The bucket's word.
    pub word: u64,
    /// Which bucket, of which generation of the table; 0 if this certifies nothing.
    pub place: u64,
}

impl Certificate {
    /// Whether it is the default, which certifies nothing.
    #[inline(always)]
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.place == 0
    }
}

/// What a search without a hit has proved.
#[derive(Clone, Copy, Debug)]
pub enum Miss {
    /// There was no such entry, at one moment since the search began.
    Proved,
    /// Nothing: something changed meanwhile.
    Open,
    /// If it exists, it is in this chain.
    Elsewhere(Probe),
}

impl Table {
    /// A table that grows to at most `capacity` buckets.
    ///
    /// # Errors
    /// [`NoSpace`] where the system refuses the address space.
    pub fn new(capacity: u32, key: HashKey) -> Result<Self, NoSpace> {
        let half = capacity
            .max(INITIAL_BUCKETS)
            .checked_next_power_of_two()
            .ok_or(NoSpace)?;
        let buckets = Region::new(half.checked_mul(2).ok_or(NoSpace)?)?;
        let other = buckets.capacity() / 2;
        Ok(Self {
            buckets,
            shape: Word::new(Shape::first(INITIAL_BUCKETS).0),
            halves: [Half::new(key, 0), Half::new(key, other)],
            progress: CachePadded(Progress {
                entries: Word::new(0),
                moved: Word32::new(0),
                work: Mutex::new(RekeyState::default()),
            }),
            unreported: Shards::default(),
        })
    }

    /// What a search without a lock needs; valid for any number of searches.
    #[inline(always)]
    pub fn view(&self) -> View {
        let shape = self.shape.get();
        View::of(shape, &self.halves[Shape(shape).half()])
    }

    /// Begins a search without a lock for an entry with this hash.
    #[inline(always)]
    pub fn probe(&self, view: &View, hash: u64) -> Probe {
        let bucket = view.bucket(hash);
        let word = self.buckets.at(bucket).get();
        Probe { bucket, word }
    }

    /// Whether nothing has changed since the search began and no key change is going on: then an
    /// entry that was not found did not exist.
    #[inline(always)]
    pub fn unchanged(&self, view: &View, probe: Probe) -> bool {
        // PAIR(hash.miss): the links were loaded before.
        let same = self.buckets.at(probe.bucket).get() == probe.word;
        let quiet = probe.word & LOCKED == 0 && view.shape & MOVING == 0;
        same && quiet && self.shape.get() == view.shape
    }

    /// What a search without a hit has proved; `hash` computes the hash of the entry looked for.
    #[cold]
    pub fn missed(&self, view: &View, probe: Probe, hash: impl Fn(HashKey) -> u64) -> Miss {
        if view.shape & MOVING == 0 {
            let proved = self.unchanged(view, probe);
            return if proved { Miss::Proved } else { Miss::Open };
        }
        // PAIR(hash.miss): the links were loaded before.
        let same = probe.word & LOCKED == 0 && self.buckets.at(probe.bucket).get() == probe.word;
        let (bucket, half) = self.half_of(probe.bucket);
        let moved = self.progress.moved.get() > bucket;
        let shape = Shape(view.shape);
        if self.shape.get() != view.shape {
            return Miss::Open;
        }
        if half == shape.half() && moved {
            let new = &self.halves[1 - half];
            let bucket = shape.bucket(hash(new.key())) | new.base();
            let word = self.buckets.at(bucket).get();
            return Miss::Elsewhere(Probe { bucket, word });
        }
        if same { Miss::Proved } else { Miss::Open }
    }

    /// Whether the miss that this certifies still holds.
    #[inline(always)]
    pub fn certifies(&self, certificate: &Certificate) -> bool {
        let bucket = certificate.place as u32;
        self.buckets.at(bucket).get() == certificate.word
            && place_of(Shape(self.shape.get()), bucket) == certificate.place
    }

    /// A bucket's number within its half, and the half.
    fn half_of(&self, bucket: u32) -> (u32, usize) {
        let base = self.halves[1].base();
        (bucket & !base, (bucket & base != 0).into())
    }

    /// The address range of the buckets, for tests that write-protect it.
    pub fn span(&self) -> (usize, usize) {
        self.buckets.span()
    }

    /// Entries inserted and not removed.
    pub fn len(&self) -> u64 {
        let unreported = self.unreported.all().map(Word::peek);
        unreported.fold(self.progress.entries.peek(), u64::wrapping_add)
    }

    /// Counts insertions, or removals: `change` is added with wrap-around.
    fn count(&self, change: u64) {
        let most = u64::from(Shape(self.shape.peek()).active() / REPORT_DIVISOR);
        if most <= 1 {
            self.progress.entries.add(change);
            return;
        }
        let mine = self.unreported.mine();
        let sum = mine.add(change).wrapping_add(change);
        if sum.cast_signed().unsigned_abs() >= most {
            // Another thread of the group may have changed it meanwhile: only this much was
            // reported.
            mine.sub(sum);
            self.progress.entries.add(sum);
        }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Statistics, from a pass over every bucket.
    pub fn census(&self) -> Census {
        let shape = Shape(self.shape.get());
        let mut census = Census {
            buckets: shape.active(),
            ..self.progress.work.lock().census()
        };
        for half in &self.halves {
            for bucket in 0..shape.active() {
                let length = length(self.buckets.at(half.base() | bucket).get());
                census.longest = census.longest.max(length);
            }
        }
        census
    }

    /// Replaces the shape by `next` of it.
    fn reshape(&self, next: impl Fn(Shape) -> Shape) {
        loop {
            let now = self.shape.get();
            if self.shape.swap_if(now, next(Shape(now)).0) {
                return;
            }
        }
    }

    /// Entries, as far as threads have reported them; at least 0.
    fn reported(&self) -> u64 {
        self.progress
            .entries
            .peek()
            .cast_signed()
            .max(0)
            .cast_unsigned()
    }

    /// Splits buckets until there is one for each entry, or moves some to the other half. Call it
    /// after an insertion, with no chain locked.
    #[inline]
    pub fn grow(&self, chain: &impl Chain) {
        let shape = Shape(self.shape.peek());
        if self.reported() > u64::from(shape.active()) || shape.moving() {
            self.grow_slow(chain);
        }
    }

    #[cold]
    fn grow_slow(&self, chain: &impl Chain) {
        let Some(mut work) = self.progress.work.try_lock() else {
            return;
        };
        if Shape(self.shape.get()).moving() {
            self.move_some(&mut work, chain);
        } else {
            self.split_all(chain);
        }
    }

    /// Splits until there is a bucket for each entry. `work` is held, and no key change is going
    /// on.
    fn split_all(&self, chain: &impl Chain) {
        let most = self.buckets.capacity() / 2;
        loop {
            let active = Shape(self.shape.get()).active();
            if self.reported() <= u64::from(active) || active >= most {
                return;
            }
            let _step = no_fault_injection();
            self.split(chain);
        }
    }

    /// Splits the next bucket. `work` is held, and no key change is going on.
    fn split(&self, chain: &impl Chain) {
        let shape = Shape(self.shape.get());
        let (active, half) = (shape.active(), &self.halves[shape.half()]);
        let next = shape.with_active(active + 1);
        let mask = u32::MAX >> active.leading_zeros();
        let mut from = self.lock_bucket(active & (mask >> 1) | half.base());
        let mut into = self.lock_bucket(active | half.base());
        let mut at = from.take_all();
        into.mark_changed();
        while at != 0 {
            let after = chain.link(at).get();
            if next.bucket(chain.hash(at, half.key())) == active {
                into.push(chain, at);
            } else {
                from.push(chain, at);
            }
            at = after;
        }
        // PAIR(hash.miss): the shape changes before either bucket is released.
        self.reshape(|shape| shape.with_active(active + 1));
    }
}

/// Statistics of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Census {
    /// Buckets in use.
    pub buckets: u32,
    /// Entries in the longest chain.
    pub longest: u32,
    /// How often the key was changed.
    pub rekeys: u64,
    /// How often room had to be made in a chain.
    pub crowded: u64,
}

/// The length in a bucket's word.
fn length(word: u64) -> u32 {
    (word >> LENGTH_SHIFT) as u32 & LENGTH_MAX
}

#[cfg(all(test, not(loom)))]
mod tests;
