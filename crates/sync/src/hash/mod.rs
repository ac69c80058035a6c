// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hash table of slab indices that readers search without a lock while it changes, grows and
//! changes its key.
//!
//! # Kernel analogue
//! `dentry_hashtable` (`hlist_bl` with a lock bit in each head), but it grows: one bucket splits at
//! a time (linear hashing), in address space reserved for the largest size, so nothing is ever
//! copied or swapped under readers. And a search that finds nothing can prove it, which the kernel
//! needs `rename_lock` or the directory's lock for.
//!
//! # Layout of a bucket
//! bits 0..31 head index, bit 31 lock, bits 32..40 length of the chain (255: or more), bits 40..64
//! version. Entries are chained through a link word of their own.
//!
//! # Two sides
//! The table has room for its buckets twice. While it changes its key, entries move from the side
//! in use to the other one, bucket by bucket in order: what a bucket below the `moved` mark held is
//! on the other side, under the new key. When all are moved, the other side is the one in use. A
//! few buckets move with each insertion, so nobody waits for more than these.
//!
//! # Rules
//! R1. Insert, remove, split and move hold the bucket's lock ([`Table::lock`]); letting go after a
//!     change raises the version. When a version comes round, the generation of the table rises.
//! R2. A reader may be led into another chain when an entry moves, or out of one; a hit counts only
//!     when the entry's own life word confirms it.
//! R3. A miss is proved by [`Table::missed`]: the bucket's word is what it was before the search,
//!     and so is the shape of the table. PAIR(hash.miss): who changes a link, or the name of an
//!     entry that was taken out, has locked the bucket before, and stores with release; a reader
//!     whose acquire-load saw the new value therefore sees the bucket locked or newer afterwards.
//!     Who splits or moves a bucket says so in the shape, or in the mark, before letting it go.
//! R4. One lock at a time, but for [`Table::lock_two`], which waits for none while it holds the
//!     other; a split and a move take the second while they hold the first, both under `work`.
//!
//! # Guarantees
//! G1. Under the bucket's lock a search is exact.
//! G2. A search ends: chains are followed for at most [`CHAIN_MAX`] steps without the lock.
//! G3. Chains stay below [`CHAIN_CAP`] if whoever inserts asks [`Table::is_crowded`] before, and
//!     makes room; as many more as insert at the same moment. With a load of at most two entries a
//!     bucket, chance alone crowds one chain in 10^11 tables of a million names.
//!
//! # Limits
//! Buckets never merge again; a bucket costs eight bytes, and as many again once the key changed.

mod key;
mod locked;
mod rekey;
mod shape;

pub use key::HashKey;
pub use locked::Locked;
pub use rekey::Relief;
pub use shape::View;

use crate::apart::Apart;
use crate::prim::{Mutex, SHARDS, unfailing};
use crate::region::{NoSpace, Region};
use crate::shards::Shards;
use crate::word::{Word, Word32};
use rekey::Work;
use shape::{MOVING, Shape, Side};

const LOCKED: u64 = 1 << 31;
const HEAD: u32 = (1 << 31) - 1;
const LENGTH_SHIFT: u32 = 32;
const LENGTH_MAX: u32 = 255;
const VERSION_SHIFT: u32 = 40;
/// Longest walk along one chain without its lock.
pub const CHAIN_MAX: u32 = 256;
/// No chain gets longer, if those who insert make room; see G3.
pub const CHAIN_CAP: u32 = 32;
/// From this length on room is made, so that those who insert at the same time do not meet the cap.
const CROWDED: u32 = 24;
/// Tells the place in a certificate from none.
const MISS: u64 = 1 << 63;
/// Buckets at first: enough that two tasks with a few names each seldom write one line.
const START: u32 = if cfg!(loom) {
    2
} else if cfg!(shuttle) {
    64
} else {
    1024
};
/// A thread says what it inserted when that comes to as much as the buckets divided by this: so the
/// count is off by less than a quarter of the buckets.
const SAYS: u32 = 4 * SHARDS as u32;

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
    /// Buckets in use, side, generation; see [`Shape`].
    shape: Word,
    sides: [Side; 2],
    /// What is written on the way, away from what every search reads.
    busy: Apart<Busy>,
    /// Entries that threads inserted, less those removed, and have not said; see [`Table::count`].
    fresh: Shards<Word>,
}

struct Busy {
    /// Entries, as far as the threads have said so.
    entries: Word,
    /// While entries move: buckets below this one have none left on the old side.
    moved: Word32,
    work: Mutex<Work>,
}

/// A bucket that is being searched, as it was when the search began.
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
    /// The word of the bucket, to be asked about later with [`Table::certifies`].
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
    MISS | shape.generation() << 32 | u64::from(bucket)
}

/// A miss that was proved, to be confirmed later without a search: as long as the bucket is what it
/// was, nothing was added to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Certificate {
    /// What the bucket was.
    pub word: u64,
    /// Which bucket, of which generation of the table; not 0, unless this certifies nothing.
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

/// What a search that found nothing has shown.
pub enum Missed {
    /// There was no such entry, at one moment since the search began.
    Proved,
    /// Nothing: something changed meanwhile.
    Open,
    /// If it is there, then in this chain.
    Elsewhere(Probe),
}

impl Table {
    /// A table that grows to at most `capacity` buckets.
    ///
    /// # Errors
    /// [`NoSpace`] where the system refuses the address space.
    pub fn new(capacity: u32, key: HashKey) -> Result<Self, NoSpace> {
        let side = capacity
            .max(START)
            .checked_next_power_of_two()
            .ok_or(NoSpace)?;
        let buckets = Region::new(side.checked_mul(2).ok_or(NoSpace)?)?;
        let other = buckets.capacity() / 2;
        Ok(Self {
            buckets,
            shape: Word::new(Shape::first(START).0),
            sides: [Side::new(key, 0), Side::new(key, other)],
            busy: Apart(Busy {
                entries: Word::new(0),
                moved: Word32::new(0),
                work: Mutex::new(Work::default()),
            }),
            fresh: Shards::default(),
        })
    }

    /// What a search without a lock needs to know; good for any number of them.
    #[inline(always)]
    pub fn view(&self) -> View {
        let shape = self.shape.get();
        View::of(shape, &self.sides[Shape(shape).side()])
    }

    /// Begins a search without a lock for an entry with this hash.
    #[inline(always)]
    pub fn probe(&self, view: &View, hash: u64) -> Probe {
        let bucket = view.bucket(hash);
        let word = self.buckets.at(bucket).get();
        Probe { bucket, word }
    }

    /// Whether nothing has changed since the search began, and nothing moves: then what was not
    /// found was not there.
    #[inline(always)]
    pub fn unchanged(&self, view: &View, probe: Probe) -> bool {
        // PAIR(hash.miss): the links were loaded before.
        let same = self.buckets.at(probe.bucket).get() == probe.word;
        let quiet = probe.word & LOCKED == 0 && view.shape & MOVING == 0;
        same && quiet && self.shape.get() == view.shape
    }

    /// What a search has shown that found nothing; `hash` is what was looked for.
    #[cold]
    pub fn missed(&self, view: &View, probe: Probe, hash: impl Fn(HashKey) -> u64) -> Missed {
        if view.shape & MOVING == 0 {
            let proved = self.unchanged(view, probe);
            return if proved { Missed::Proved } else { Missed::Open };
        }
        // PAIR(hash.miss): the links were loaded before.
        let same = probe.word & LOCKED == 0 && self.buckets.at(probe.bucket).get() == probe.word;
        let (bucket, side) = self.place(probe.bucket);
        let moved = self.busy.moved.get() > bucket;
        let shape = Shape(view.shape);
        if self.shape.get() != view.shape {
            return Missed::Open;
        }
        if side == shape.side() && moved {
            let new = &self.sides[1 - side];
            let bucket = shape.bucket(hash(new.key())) | new.base();
            let word = self.buckets.at(bucket).get();
            return Missed::Elsewhere(Probe { bucket, word });
        }
        if same { Missed::Proved } else { Missed::Open }
    }

    /// Whether what was not there when this was made is still not there.
    #[inline(always)]
    pub fn certifies(&self, certificate: &Certificate) -> bool {
        let bucket = certificate.place as u32;
        self.buckets.at(bucket).get() == certificate.word
            && place_of(Shape(self.shape.get()), bucket) == certificate.place
    }

    /// A bucket counted from its side's first, and the side.
    fn place(&self, bucket: u32) -> (u32, usize) {
        let base = self.sides[1].base();
        (bucket & !base, (bucket & base != 0).into())
    }

    /// The address range of the buckets, for tests that write-protect it.
    pub fn span(&self) -> (usize, usize) {
        self.buckets.span()
    }

    /// Entries inserted and not removed.
    pub fn len(&self) -> u64 {
        let fresh = self.fresh.all().map(Word::peek);
        fresh.fold(self.busy.entries.peek(), u64::wrapping_add)
    }

    /// Notes that entries were inserted, or removed: `change` is added as a number that wraps.
    fn count(&self, change: u64) {
        let most = u64::from(Shape(self.shape.peek()).active() / SAYS);
        if most <= 1 {
            self.busy.entries.add(change);
            return;
        }
        let mine = self.fresh.mine();
        let sum = mine.add(change).wrapping_add(change);
        if sum.cast_signed().unsigned_abs() >= most {
            // Another thread of the group may have changed it meanwhile: only this much was said.
            mine.sub(sum);
            self.busy.entries.add(sum);
        }
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the table looks like, by a look at every bucket.
    pub fn census(&self) -> Census {
        let shape = Shape(self.shape.get());
        let mut census = Census {
            buckets: shape.active(),
            ..self.busy.work.lock().census()
        };
        for side in &self.sides {
            for bucket in 0..shape.active() {
                let length = length(self.buckets.at(side.base() | bucket).get());
                census.longest = census.longest.max(length);
            }
        }
        census
    }

    /// Replaces the shape by what `next` makes of it.
    fn reshape(&self, next: impl Fn(Shape) -> Shape) {
        loop {
            let now = self.shape.get();
            if self.shape.swap_if(now, next(Shape(now)).0) {
                return;
            }
        }
    }

    /// Entries, as far as the threads have said so; less than none is none.
    fn said(&self) -> u64 {
        self.busy
            .entries
            .peek()
            .cast_signed()
            .max(0)
            .cast_unsigned()
    }

    /// Splits buckets until there is one for each entry, or moves some to the other side. Call it
    /// after an insertion, with no chain locked.
    #[inline]
    pub fn grow(&self, chain: &impl Chain) {
        let shape = Shape(self.shape.peek());
        if self.said() > u64::from(shape.active()) || shape.moving() {
            self.tend(chain);
        }
    }

    #[cold]
    fn tend(&self, chain: &impl Chain) {
        let Some(mut work) = self.busy.work.try_lock() else {
            return;
        };
        if Shape(self.shape.get()).moving() {
            self.move_some(&mut work, chain);
        } else {
            self.split_all(chain);
        }
    }

    /// Splits until there is a bucket for each entry. `work` is held, and nothing moves.
    fn split_all(&self, chain: &impl Chain) {
        let most = self.buckets.capacity() / 2;
        loop {
            let active = Shape(self.shape.get()).active();
            if self.said() <= u64::from(active) || active >= most {
                return;
            }
            let _step = unfailing();
            self.split(chain);
        }
    }

    /// Splits the next bucket. `work` is held, and nothing moves.
    fn split(&self, chain: &impl Chain) {
        let shape = Shape(self.shape.get());
        let (active, side) = (shape.active(), &self.sides[shape.side()]);
        let next = shape.with_active(active + 1);
        let mask = u32::MAX >> active.leading_zeros();
        let mut from = self.lock_bucket(active & (mask >> 1) | side.base());
        let mut into = self.lock_bucket(active | side.base());
        let mut at = from.take_all();
        into.touch();
        while at != 0 {
            let after = chain.link(at).get();
            if next.bucket(chain.hash(at, side.key())) == active {
                into.push(chain, at);
            } else {
                from.push(chain, at);
            }
            at = after;
        }
        // PAIR(hash.miss): the shape says so before either bucket is let go.
        self.reshape(|shape| shape.with_active(active + 1));
    }
}

/// What a table looks like.
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
