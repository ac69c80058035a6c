// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the path cache: it maps whole paths to dentries, at a cost that does not grow with
//! depth.
//!
//! # Kernel analogue
//! None in Linux; the idea is the direct lookup of Tsai and others (2015), with a version clock in
//! place of invalidating whole subtrees.
//!
//! # What is kept
//! A path is kept if it has three or more plain names and was walked lock-free within one mount.
//! All of its directories must be searchable by everyone, and it must have no links, dots or mounts
//! on the way. Of a path that comes to a covered directory, the part to that is kept.
//!
//! A path is entered when it is walked for the second time. A full set gives up an entry. When that
//! happens often, the table doubles, up to its limit; entries that are then in the wrong set are
//! entered again.
//!
//! # Fields of an entry
//! | word | meaning |
//! |---|---|
//! | seq | sequence of the entry; a change is exclusive |
//! | hash | of start and path; 0: empty |
//! | start, length | dentry the path begins at; bytes of the path |
//! | target | the dentry it leads to, and how much of the path that takes |
//! | miss | of a path that is absent: what shows it; the target is the directory that lacks it |
//! | state | the target's life word: same name, same place, same meaning |
//! | validated | the clock when every directory on the way was last known to be as it was |
//!
//! # Rules
//! R1. A hit needs the target's life word to be exactly `state`. Then the target was neither moved
//!     nor reclaimed, so none of its ancestors was reclaimed either.
//! R2. It needs the clock to be `validated`, or every ancestor's `last_change` to be no later.
//!     PAIR(dcache.clock): the clock is read before the climb, and a directory says "changing"
//!     before anything about it changes.
//! R3. A path that is absent was so in a directory that had all its names cached, which the
//!     directory's state says; it is still so while the name's chain is what it was.
//! R4. An entry is made only with the clock read before the walk that it remembers.
//!
//! # Guarantees
//! G1. In the steady state (no directory changes, paths entered) a hit writes nothing shared.

use crate::dcache::Dcache;
use crate::object::dflag;
use openpath_abi::Errno;
use openpath_sync::{Certificate, HashKey, Life, Region, Sample, Word, Word32};

/// Longest path kept, in bytes.
const PATH_BYTES: usize = 255;
/// Shortest path kept: one block. Shorter ones are walked as fast.
const PATH_BYTES_MIN: usize = BLOCK;
/// Bytes hashed and compared at a time. The last block overlaps the one before, so that no path has
/// a tail of its own length to be branched on.
const BLOCK: usize = 32;
/// Words of a block.
const BLOCK_WORDS: usize = BLOCK / 8;
/// More components than the longest path has: a climb that takes longer met a tree on the move.
const DEPTH_MAX: u32 = 128;
/// Sets in use at first: a small tree stays in little memory.
const SETS_AT_FIRST: u32 = 1 << 10;
/// Entries in a set.
const WAYS: u32 = 4;

openpath_sync::zero_valid! {
    /// One entry: a cache line, and the path behind it.
    struct Entry {
        seq: Life,
        hash: Word,
        start_length: Word,
        target: Word,
        state: Word,
        validated: Word,
        miss_word: Word,
        miss_place: Word,
        path: [Word; 32],
    }
}

/// The cache of one `Vfs`.
pub(crate) struct PathCache {
    entries: Region<Entry>,
    /// Paths walked once, by hash; a word each.
    walked: Region<Word32>,
    /// Number of sets in use less one; grows to `set_mask_max`.
    set_mask: Word32,
    set_mask_max: u32,
    /// Entries that others displaced since the table last grew; away from what hits read.
    displaced: OwnLines<Word>,
    on: bool,
    key: HashKey,
}

/// Keeps what is written on a miss off the lines that hits read.
#[repr(align(128))]
struct OwnLines<T>(T);

/// A path that could be in the cache, hashed.
#[derive(Clone, Copy)]
pub(crate) struct Query {
    hash: u64,
    start: u32,
    /// The superblock's clock before anything was looked at.
    clock: u64,
}

/// Where a path leads within one mount.
#[derive(Clone, Copy)]
pub(crate) struct Hit {
    /// The dentry, negative or not: the path's end, or a covered directory on the way.
    pub(crate) target: u32,
    /// Its state, confirmed; of a path that is absent, a negative entry's.
    pub(crate) state: Sample,
    /// How many bytes of the path lead there.
    pub(crate) rest: usize,
}

impl Hit {
    /// No target: the path does not exist.
    pub(crate) const ABSENT: Self = Self {
        target: 0,
        state: Sample::live_with(dflag::NEGATIVE),
        rest: 0,
    };
}

impl PathCache {
    pub(crate) fn new(entries: u32, on: bool, key: HashKey) -> Result<Self, Errno> {
        let sets = (entries / WAYS).max(1).next_power_of_two();
        let on = on && entries > 0;
        let room = if on { sets * WAYS } else { 1 };
        let space = |_| Errno::ENOMEM;
        Ok(Self {
            entries: Region::new(room).map_err(space)?,
            walked: Region::new(room).map_err(space)?,
            set_mask: Word32::new((sets - 1).min(SETS_AT_FIRST - 1)),
            set_mask_max: sets - 1,
            displaced: OwnLines(Word::new(0)),
            on,
            key,
        })
    }

    /// The question to ask for `path` from `start`, if such a path may be in the cache at all.
    #[inline(always)]
    pub(crate) fn admits(
        &self,
        dcache: &Dcache,
        start: u32,
        sb: impl FnOnce() -> u32,
        path: &[u8],
    ) -> Option<Query> {
        if !self.on || path.len() < PATH_BYTES_MIN || path.len() > PATH_BYTES {
            return None;
        }
        let clock = dcache.clock(sb()).get();
        Some(Query {
            hash: self.hash(start, path),
            start,
            clock,
        })
    }

    /// A keyed hash of the path: a sum of products that do not wait for each other; never 0.
    #[inline(always)]
    fn hash(&self, start: u32, path: &[u8]) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut sum = path.len() as u64;
        let mut tweak = u64::from(start);
        each_block(path, |[a, b, c, d]| {
            sum = sum
                .wrapping_add(self.key.mix(a.wrapping_add(tweak), b))
                .wrapping_add(self.key.mix(c.wrapping_sub(tweak), d));
            tweak = tweak.wrapping_add(STEP);
        });
        self.key.mix(sum, tweak) | 1
    }

    /// The place of way `way` of the set that `hash` is in; the first way differs from hash to
    /// hash.
    #[inline(always)]
    fn place(&self, hash: u64, way: u32) -> u32 {
        let set = (hash >> 8) as u32 & self.set_mask.get();
        set * WAYS + (((hash >> 40) as u32 + way) & (WAYS - 1))
    }

    /// The address ranges of entries and notes.
    pub(crate) fn spans(&self) -> [(usize, usize); 2] {
        [self.entries.span(), self.walked.span()]
    }

    /// The cached answer for `path`.
    #[inline(always)]
    pub(crate) fn find(&self, dcache: &Dcache, query: &Query, path: &[u8]) -> Option<Hit> {
        let wanted = u64::from(query.start) << 32 | path.len() as u64;
        for way in 0..WAYS {
            let place = self.place(query.hash, way);
            let e = self.entries.at(place);
            if e.hash.get() != query.hash {
                continue;
            }
            let seq = e.seq.sample();
            let packed = e.target.get();
            let hit = Hit {
                target: packed as u32,
                state: Sample::from_raw(e.state.get()),
                rest: (packed >> 32) as usize,
            };
            let validated = e.validated.get();
            let miss = Certificate {
                word: e.miss_word.get(),
                place: e.miss_place.get(),
            };
            if e.start_length.get() != wanted
                || !e.path_is(path)
                || seq.is_busy()
                || !e.seq.is_unchanged(seq)
            {
                return None;
            }
            if validated != query.clock
                && !self.revalidate(dcache, e, seq, query, hit.target, validated)
            {
                return None;
            }
            let entry = dcache.at(hit.target);
            entry.touch();
            if !entry.word().is_unchanged(hit.state) {
                return None;
            }
            if miss.is_none() {
                return Some(hit);
            }
            return dcache.certifies(&miss).then_some(Hit::ABSENT);
        }
        None
    }

    /// Whether no directory on the way changed since the entry was validated; if so, the entry is
    /// stamped anew.
    #[cold]
    #[inline(never)]
    fn revalidate(
        &self,
        dcache: &Dcache,
        e: &Entry,
        seq: Sample,
        query: &Query,
        target: u32,
        validated: u64,
    ) -> bool {
        let mut at = target;
        let mut steps = DEPTH_MAX;
        while at != query.start {
            steps -= 1;
            // R2: the parent is read before its stamp; a rename stamps an entry before it moves it.
            let parent = dcache.at(at).parent.get();
            if steps == 0 || parent == at || dcache.at(parent).last_change.get() > validated {
                return false;
            }
            // A directory that was itself moved is stamped too.
            if at != target && dcache.at(at).last_change.get() > validated {
                return false;
            }
            at = parent;
        }
        if let Some(change) = e.seq.change_if(seq) {
            e.validated.set(query.clock);
            drop(change);
        }
        true
    }

    /// Notes that `path` was walked and where it leads, or with `miss` the directory that lacks it;
    /// the second time, it is entered.
    ///
    /// Paths are noted by hash. A noted path is displaced by the second other one that wants its
    /// place, not by the first: two paths that take turns would otherwise never be entered.
    #[cold]
    #[inline(never)]
    pub(crate) fn note(
        &self,
        dcache: &Dcache,
        query: &Query,
        path: &[u8],
        hit: Hit,
        miss: Certificate,
    ) {
        const FRESH: u32 = 1;
        // An even number, never 0.
        let tag = (query.hash >> 32) as u32 & !1 | 2;
        let place = self.walked.at((query.hash >> 8) as u32);
        let noted = place.peek();
        if noted & !FRESH == tag {
            self.enter(dcache, query, path, hit, miss);
        } else if noted & FRESH != 0 {
            place.poke(noted & !FRESH);
        } else {
            place.poke(tag | FRESH);
        }
    }

    /// Remembers where `path` leads, if everything on the way has been plain since `query` was
    /// asked.
    fn enter(&self, dcache: &Dcache, query: &Query, path: &[u8], hit: Hit, miss: Certificate) {
        let steps = if !miss.is_none() {
            // And one to what is absent.
            2
        } else if hit.state.has(dflag::MOUNTED) {
            // The way to a covered directory saves a vain search, however short it is.
            1
        } else {
            3
        };
        if !hit.state.is_steady() || plain_way(dcache, query, hit.target) < Some(steps) {
            return;
        }
        let mut place = self.place(query.hash, (query.hash >> 50) as u32 & (WAYS - 1));
        for way in 0..WAYS {
            let candidate = self.place(query.hash, way);
            let hash = self.entries.at(candidate).hash.get();
            if hash == 0 || hash == query.hash {
                place = candidate;
                break;
            }
        }
        let e = self.entries.at(place);
        if !matches!(e.hash.get(), 0) && e.hash.get() != query.hash {
            self.note_displaced();
        }
        let seq = e.seq.sample();
        let Some(change) = e.seq.change_if(seq) else {
            return;
        };
        e.hash.set(query.hash);
        e.start_length
            .set(u64::from(query.start) << 32 | path.len() as u64);
        let rest = (hit.rest as u64) << 32;
        e.target.set(rest | u64::from(hit.target));
        e.state.set(hit.state.raw());
        e.miss_word.set(miss.word);
        e.miss_place.set(miss.place);
        e.validated.set(query.clock);
        e.keep_path(path);
        drop(change);
    }

    /// Counts an entry that another displaced, and doubles the table when that happens often.
    fn note_displaced(&self) {
        let mask = self.set_mask.get();
        let often = self.displaced.0.add(1) > 2 * (u64::from(mask) + 1);
        if often && mask < self.set_mask_max && self.set_mask.swap_if(mask, mask << 1 | 1) {
            self.displaced.0.set(0);
        }
    }
}

impl Entry {
    /// Whether it keeps this path; the length was compared.
    #[inline(always)]
    fn path_is(&self, path: &[u8]) -> bool {
        let mut kept = self.path.chunks_exact(BLOCK_WORDS);
        let mut differs = 0;
        each_block(path, |block| {
            for (word, kept) in block.iter().zip(kept.next().unwrap_or_default()) {
                differs |= word ^ kept.get();
            }
        });
        differs == 0
    }

    /// Keeps this path.
    fn keep_path(&self, path: &[u8]) {
        let mut kept = self.path.chunks_exact(BLOCK_WORDS);
        each_block(path, |block| {
            for (word, kept) in block.iter().zip(kept.next().unwrap_or_default()) {
                kept.set(*word);
            }
        });
    }
}

/// Hands out the path in blocks of four words: whole ones, then the last 32 bytes again.
#[inline(always)]
fn each_block(path: &[u8], mut take: impl FnMut([u64; BLOCK_WORDS])) {
    let words = |block: &[u8]| {
        let mut words = [0u64; BLOCK_WORDS];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        words
    };
    for block in path.chunks_exact(BLOCK) {
        take(words(block));
    }
    if let Some(last) = path.last_chunk::<BLOCK>() {
        take(words(last));
    }
}

/// How many steps it is from the start to the target, if every directory on the way may be searched
/// by all, has nothing mounted on it, and has not changed since the query.
fn plain_way(dcache: &Dcache, query: &Query, target: u32) -> Option<u32> {
    let mut at = target;
    let mut depth = 0;
    while at != query.start {
        let parent = dcache.at(at).parent.get();
        let sample = dcache.at(parent).word().sample();
        let slow = if parent == query.start {
            dflag::SLOW_SEARCH
        } else {
            dflag::SLOW_SEARCH | dflag::MOUNTED
        };
        if depth == DEPTH_MAX
            || parent == at
            || sample.needs_slow_path(slow)
            || dcache.at(parent).last_change.get() > query.clock
        {
            return None;
        }
        at = parent;
        depth += 1;
    }
    Some(depth)
}
