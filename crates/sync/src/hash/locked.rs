// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks one chain of the hash table, or two at once; searches, inserts into and removes from a
//! locked chain.

use super::key::HashKey;
use super::shape::Shape;
use super::{Chain, HEAD, LENGTH_MAX, LENGTH_SHIFT, LOCKED, Table, VERSION_SHIFT, length};
use crate::primitive::{no_fault_injection, relax};
use crate::word::Word;

/// A locked chain. Releasing it raises its version if it was changed.
pub struct Locked<'a> {
    table: &'a Table,
    bucket: u32,
    /// The bucket's word without the lock bit, as it will be stored at release.
    word: u64,
    changed: bool,
}

impl Table {
    /// Locks the chain of the entry that `hash` computes the hash of.
    pub fn lock(&self, hash: impl Fn(HashKey) -> u64) -> Locked<'_> {
        loop {
            let bucket = self.bucket_now(&hash);
            let held = self.lock_bucket(bucket);
            if self.bucket_now(&hash) == bucket {
                return held;
            }
        }
    }

    /// Locks two chains, or one if they are the same.
    pub fn lock_two(
        &self,
        one: impl Fn(HashKey) -> u64,
        other: impl Fn(HashKey) -> u64,
    ) -> (Locked<'_>, Option<Locked<'_>>) {
        loop {
            let first = self.lock(&one);
            let bucket = self.bucket_now(&other);
            if bucket == first.bucket {
                // It cannot split or move while it is locked.
                return (first, None);
            }
            // R4: the holder of the other one may be waiting for this one.
            if let Some(second) = self.try_lock_bucket(bucket)
                && self.bucket_now(&other) == bucket
            {
                return (first, Some(second));
            }
            drop(first);
            relax();
        }
    }

    /// The length of the chain that `hash` leads to (255: or more).
    pub(super) fn length_of(&self, hash: &impl Fn(HashKey) -> u64) -> u32 {
        length(self.buckets.at(self.bucket_now(hash)).get())
    }

    /// The bucket that `hash` leads to now. The answer is stable while that bucket is locked.
    fn bucket_now(&self, hash: &impl Fn(HashKey) -> u64) -> u32 {
        loop {
            let shape = Shape(self.shape.get());
            let half = &self.halves[shape.half()];
            let bucket = shape.bucket(hash(half.key()));
            let mut at = bucket | half.base();
            if shape.moving() && self.progress.moved.get() > bucket {
                let new = &self.halves[1 - shape.half()];
                at = shape.bucket(hash(new.key())) | new.base();
            }
            // The key and the mark belong to the shape that was read only if it is unchanged.
            if self.shape.get() == shape.0 {
                return at;
            }
        }
    }

    pub(super) fn lock_bucket(&self, bucket: u32) -> Locked<'_> {
        loop {
            if let Some(locked) = self.try_lock_bucket(bucket) {
                return locked;
            }
            relax();
        }
    }

    fn try_lock_bucket(&self, bucket: u32) -> Option<Locked<'_>> {
        let at = self.buckets.at(bucket);
        let word = at.get() & !LOCKED;
        if !at.swap_if(word, word | LOCKED) {
            return None;
        }
        Some(Locked {
            table: self,
            bucket,
            word,
            changed: false,
        })
    }
}

impl Locked<'_> {
    fn at(&self) -> &Word {
        self.table.buckets.at(self.bucket)
    }

    /// The first entry, or 0.
    pub fn head(&self) -> u32 {
        self.word as u32 & HEAD
    }

    /// The first entry that `test` accepts, or 0.
    pub fn find(&self, chain: &impl Chain, mut test: impl FnMut(u32) -> bool) -> u32 {
        let mut at = self.head();
        while at != 0 && !test(at) {
            at = chain.link(at).get();
        }
        at
    }

    /// Makes the release raise the version.
    pub(super) fn mark_changed(&mut self) {
        self.changed = true;
    }

    fn set(&mut self, head: u32, length: u32) {
        const KEPT: u64 = !(HEAD as u64 | (LENGTH_MAX as u64) << LENGTH_SHIFT);
        let length = u64::from(length.min(LENGTH_MAX));
        self.word = self.word & KEPT | u64::from(head) | length << LENGTH_SHIFT;
        self.changed = true;
        self.at().set(self.word | LOCKED);
    }

    /// Empties the chain; returns its first entry, or 0.
    pub(super) fn take_all(&mut self) -> u32 {
        let head = self.head();
        self.set(0, 0);
        head
    }

    /// Pushes an entry that the table already counts.
    pub(super) fn push(&mut self, chain: &impl Chain, index: u32) {
        chain.link(index).set(self.head());
        self.set(index, length(self.word) + 1);
    }

    /// Pushes `index` to the front.
    pub fn insert(&mut self, chain: &impl Chain, index: u32) {
        let _step = no_fault_injection();
        self.push(chain, index);
        self.table.count(1);
    }

    /// Removes `index`; returns whether it was there.
    pub fn remove(&mut self, chain: &impl Chain, index: u32) -> bool {
        let _step = no_fault_injection();
        let next = chain.link(index).get();
        let mut head = self.head();
        if head == index {
            head = next;
        } else {
            let before = self.find(chain, |i| chain.link(i).get() == index);
            if before == 0 {
                return false;
            }
            chain.link(before).set(next);
        }
        let mut left = length(self.word).saturating_sub(1);
        if left + 1 == LENGTH_MAX {
            // The stored length said "or more".
            left = 0;
            let mut at = head;
            while at != 0 {
                left += 1;
                at = chain.link(at).get();
            }
        }
        self.set(head, left);
        self.table.count(u64::MAX);
        true
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let _step = no_fault_injection();
        if self.changed {
            self.word = self.word.wrapping_add(1 << VERSION_SHIFT);
            if self.word >> VERSION_SHIFT == 0 {
                // R1: a reader that has seen this version before is warned by the generation.
                self.table.reshape(Shape::next_generation);
            }
        }
        self.at().set(self.word);
    }
}
