// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hash table of slab indices that readers search without a lock while it changes and grows.
//!
//! # Kernel analogue
//! `dentry_hashtable` (`hlist_bl` with a lock bit in each head), but it grows: one bucket splits at
//! a time (linear hashing), in address space reserved for the largest size, so nothing is ever
//! copied or swapped under readers.
//!
//! # States of a bucket
//! Head index in bits 0..31, lock in bit 31. Entries are chained through a link word of their own.
//!
//! # Rules
//! R1. Insert, remove and split hold the bucket's lock ([`Table::lock`]).
//! R2. A reader may be led into another chain when an entry moves, or out of one; so a miss without
//!     the lock proves nothing, and a hit counts only when the entry's own life word confirms it.
//!
//! # Guarantees
//! G1. Under the bucket's lock a search is exact.
//! G2. A search ends: chains are followed for at most [`CHAIN_MAX`] steps without the lock.
//!
//! # Limits
//! Buckets never merge again; a bucket costs four bytes.

use crate::prim::{Mutex, relax, unfailing};
use crate::region::{NoSpace, Region};
use crate::word::{Word, Word32};

const LOCKED: u32 = 1 << 31;
/// Longest walk along one chain without its lock.
pub const CHAIN_MAX: u32 = 256;
const START: u32 = 64;

/// How a table reaches the link and the hash of the entry at an index.
pub trait Chain {
    /// The link word of the entry.
    fn link(&self, index: u32) -> &Word32;
    /// The hash of the entry, as given at insertion.
    fn hash(&self, index: u32) -> u64;
}

/// The buckets. Entries belong to the caller, reached through [`Chain`].
pub struct Table {
    buckets: Region<Word32>,
    /// Number of buckets in use.
    active: Word32,
    entries: Word,
    growing: Mutex<()>,
}

/// The bucket of `hash` when `active` buckets are in use.
#[inline(always)]
fn bucket_of(hash: u64, active: u32) -> u32 {
    // The smallest power of two that covers `active` gives the mask; buckets past `active` are not
    // split off yet.
    let mask = u32::MAX >> (active - 1).leading_zeros();
    let b = hash as u32 & mask;
    if b < active { b } else { b & (mask >> 1) }
}

impl Table {
    /// A table that grows to at most `capacity` buckets.
    ///
    /// # Errors
    /// [`NoSpace`] where the system refuses the address space.
    pub fn new(capacity: u32) -> Result<Self, NoSpace> {
        let buckets = Region::new(capacity.max(START))?;
        let start = if cfg!(loom) { 2 } else { START };
        Ok(Self {
            buckets,
            active: Word32::new(start),
            entries: Word::new(0),
            growing: Mutex::new(()),
        })
    }

    /// The first entry of the chain that `hash` is in, or 0.
    #[inline(always)]
    pub fn head(&self, hash: u64) -> u32 {
        self.buckets.at(bucket_of(hash, self.active.get())).get() & !LOCKED
    }

    /// Locks the chain that `hash` is in.
    pub fn lock(&self, hash: u64) -> Locked<'_> {
        loop {
            let bucket = bucket_of(hash, self.active.get());
            let held = self.lock_bucket(bucket);
            if bucket_of(hash, self.active.get()) == bucket {
                return held;
            }
        }
    }

    fn lock_bucket(&self, bucket: u32) -> Locked<'_> {
        let word = self.buckets.at(bucket);
        loop {
            let head = word.get() & !LOCKED;
            if word.swap_if(head, head | LOCKED) {
                return Locked {
                    table: self,
                    bucket,
                    head,
                };
            }
            relax();
        }
    }

    /// The address range of the buckets, for tests that write-protect it.
    pub fn span(&self) -> (usize, usize) {
        self.buckets.span()
    }

    /// Entries inserted and not removed.
    pub fn len(&self) -> u64 {
        self.entries.peek()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Splits buckets until there is one for each entry. Call it after an insertion, with no chain
    /// locked.
    pub fn grow(&self, chain: &impl Chain) {
        if self.entries.peek() <= u64::from(self.active.peek()) {
            return;
        }
        let Some(_held) = self.growing.try_lock() else {
            return;
        };
        while self.entries.peek() > u64::from(self.active.get())
            && self.active.get() < self.buckets.capacity()
        {
            let _step = unfailing();
            self.split(chain);
        }
    }

    /// Splits the next bucket. `growing` is held.
    fn split(&self, chain: &impl Chain) {
        let active = self.active.get();
        let mask = u32::MAX >> active.leading_zeros();
        let mut from = self.lock_bucket(active & (mask >> 1));
        let mut into = self.lock_bucket(active);
        let (mut stay, mut go) = (0u32, 0u32);
        let mut at = from.head;
        while at != 0 {
            let next = chain.link(at).get();
            if bucket_of(chain.hash(at), active + 1) == active {
                chain.link(at).set(go);
                go = at;
            } else {
                chain.link(at).set(stay);
                stay = at;
            }
            at = next;
        }
        from.head = stay;
        into.head = go;
        self.active.set(active + 1);
    }
}

/// A locked chain.
pub struct Locked<'a> {
    table: &'a Table,
    bucket: u32,
    head: u32,
}

impl Locked<'_> {
    /// The first entry, or 0.
    pub fn head(&self) -> u32 {
        self.head
    }

    /// The first entry that `test` accepts, or 0.
    pub fn find(&self, chain: &impl Chain, mut test: impl FnMut(u32) -> bool) -> u32 {
        let mut at = self.head;
        while at != 0 && !test(at) {
            at = chain.link(at).get();
        }
        at
    }

    /// Puts `index` in front.
    pub fn insert(&mut self, chain: &impl Chain, index: u32) {
        let _step = unfailing();
        chain.link(index).set(self.head);
        self.head = index;
        self.table.buckets.at(self.bucket).set(index | LOCKED);
        self.table.entries.add(1);
    }

    /// Takes `index` out; whether it was there.
    pub fn remove(&mut self, chain: &impl Chain, index: u32) -> bool {
        let _step = unfailing();
        let next = chain.link(index).get();
        if self.head == index {
            self.head = next;
            self.table.buckets.at(self.bucket).set(next | LOCKED);
        } else {
            let before = self.find(chain, |i| chain.link(i).get() == index);
            if before == 0 {
                return false;
            }
            chain.link(before).set(next);
        }
        self.table.entries.sub(1);
        true
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let _step = unfailing();
        self.table.buckets.at(self.bucket).set(self.head);
    }
}

/// Secret-keyed hash of 16 bytes and a small salt (a parent's index): one folded multiply.
///
/// Not a cryptographic hash: the key keeps a guest from computing collisions off line.
#[derive(Clone, Copy)]
pub struct HashKey {
    a: u64,
    b: u64,
}

impl HashKey {
    /// A hash with this secret.
    pub fn new(secret: [u64; 2]) -> Self {
        Self {
            a: secret[0] ^ 0x2545_f491_4f6c_dd1d,
            b: secret[1] ^ 0x9e6c_63d0_876a_3f6b,
        }
    }

    /// Mixes two words.
    #[inline(always)]
    pub fn mix(self, lo: u64, hi: u64) -> u64 {
        let m = u128::from(lo ^ self.a) * u128::from(hi ^ self.b);
        (m as u64) ^ ((m >> 64) as u64)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Nodes(Vec<(Word32, u64)>);
    impl Chain for Nodes {
        fn link(&self, i: u32) -> &Word32 {
            &self.0[i as usize].0
        }
        fn hash(&self, i: u32) -> u64 {
            self.0[i as usize].1
        }
    }

    #[test]
    fn buckets_cover_exactly_the_active_range() {
        for active in 2..200u32 {
            for h in 0..1000u64 {
                let b = bucket_of(h, active);
                assert!(b < active);
                let next = bucket_of(h, active + 1);
                assert!(next == b || next == active);
            }
        }
    }

    #[test]
    fn everything_inserted_is_found_through_growth_and_gone_after_removal() {
        let key = HashKey::new([1, 2]);
        let nodes = Nodes(
            (0..5000u64)
                .map(|i| (Word32::default(), key.mix(i, 7)))
                .collect(),
        );
        let t = Table::new(1 << 16).unwrap();
        for i in 1..5000u32 {
            t.lock(nodes.hash(i)).insert(&nodes, i);
            t.grow(&nodes);
        }
        assert_eq!(t.len(), 4999);
        for i in 1..5000u32 {
            assert_eq!(t.lock(nodes.hash(i)).find(&nodes, |j| j == i), i);
            let mut at = t.head(nodes.hash(i));
            while at != i {
                assert_ne!(at, 0);
                at = nodes.link(at).get();
            }
        }
        for i in 1..5000u32 {
            assert!(t.lock(nodes.hash(i)).remove(&nodes, i));
            assert!(!t.lock(nodes.hash(i)).remove(&nodes, i));
        }
        assert!(t.is_empty());
    }
}
