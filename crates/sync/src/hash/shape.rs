// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the shape word of the hash table: how many buckets are in use, in which half, under
//! which key.
//!
//! # Layout
//! bits 0..32 buckets in use, 32..38 how far a mask of 32 ones is shifted to cover them, 38 the
//! half in use, 39 MOVING (entries move to the other half, under another key), 40..64 generation.

use super::key::HashKey;
use crate::word::{Word, Word32};

const SHIFT: u32 = 32;
const HALF: u64 = 1 << 38;
pub(super) const MOVING: u64 = 1 << 39;
const GENERATION: u64 = 1 << 40;

/// The key of one half, and its first bucket.
pub(super) struct Half {
    a: Word,
    b: Word,
    base: Word32,
}

impl Half {
    pub(super) fn new(key: HashKey, base: u32) -> Self {
        Self {
            a: Word::new(key.a),
            b: Word::new(key.b),
            base: Word32::new(base),
        }
    }
    #[inline(always)]
    pub(super) fn key(&self) -> HashKey {
        HashKey {
            a: self.a.get(),
            b: self.b.get(),
        }
    }
    pub(super) fn set_key(&self, key: HashKey) {
        self.a.set(key.a);
        self.b.set(key.b);
    }
    #[inline(always)]
    pub(super) fn base(&self) -> u32 {
        self.base.peek()
    }
}

/// The shape word, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape(pub(super) u64);

impl Shape {
    /// The initial shape: `active` buckets of half 0.
    pub(super) fn first(active: u32) -> Self {
        Self(0).with_active(active)
    }
    #[inline(always)]
    pub(super) fn active(self) -> u32 {
        self.0 as u32
    }
    /// The smallest power of two that covers the buckets in use, less one.
    #[inline(always)]
    pub(super) fn mask(self) -> u32 {
        u32::MAX >> ((self.0 >> SHIFT) as u32 & 31)
    }
    #[inline(always)]
    pub(super) fn half(self) -> usize {
        (self.0 & HALF != 0).into()
    }
    pub(super) fn moving(self) -> bool {
        self.0 & MOVING != 0
    }
    /// The part that stays the same while buckets split.
    pub(super) fn generation(self) -> u64 {
        self.0 >> 38
    }
    pub(super) fn with_active(self, active: u32) -> Self {
        let shift = u64::from((active - 1).leading_zeros());
        Self(self.0 >> 38 << 38 | shift << SHIFT | u64::from(active))
    }
    /// Entries begin to move to the other half.
    pub(super) fn begin_rekey(self) -> Self {
        Self((self.0 | MOVING).wrapping_add(GENERATION))
    }
    /// All entries have moved.
    pub(super) fn finish_rekey(self) -> Self {
        Self(((self.0 & !MOVING) ^ HALF).wrapping_add(GENERATION))
    }
    /// The version of a bucket wrapped.
    pub(super) fn next_generation(self) -> Self {
        Self(self.0.wrapping_add(GENERATION))
    }
    /// The bucket of `hash`, within its half.
    #[inline(always)]
    pub(super) fn bucket(self, hash: u64) -> u32 {
        bucket_of(hash, self.active(), self.mask())
    }
}

/// The bucket of `hash` with `active` buckets in use, covered by `mask`.
#[inline(always)]
pub(super) fn bucket_of(hash: u64, active: u32, mask: u32) -> u32 {
    let b = hash as u32 & mask;
    // Buckets past `active` are not split off yet.
    if b < active { b } else { b & (mask >> 1) }
}

/// The table as a search without a lock sees it. A stale view leads to the wrong chain: it misses,
/// and proves nothing.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub(super) shape: u64,
    key: HashKey,
    pub(super) mask: u32,
    pub(super) base: u32,
}

impl View {
    #[inline(always)]
    pub(super) fn of(shape: u64, half: &Half) -> Self {
        Self {
            shape,
            key: half.key(),
            mask: Shape(shape).mask(),
            base: half.base(),
        }
    }
    /// The key to hash with.
    #[inline(always)]
    #[must_use]
    pub fn key(&self) -> HashKey {
        self.key
    }
    /// Whether a change of key was going on when the view was taken: an entry that is not in its
    /// chain may be [`super::Miss::Elsewhere`].
    #[inline(always)]
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.shape & MOVING != 0
    }
    /// The bucket of `hash`.
    #[inline(always)]
    pub(super) fn bucket(&self, hash: u64) -> u32 {
        bucket_of(hash, self.shape as u32, self.mask) | self.base
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_exactly_the_active_range() {
        for active in 2..200u32 {
            let (now, next) = (Shape::first(active), Shape::first(active + 1));
            assert_eq!((now.active(), now.half()), (active, 0));
            for h in 0..1000u64 {
                let b = now.bucket(h);
                assert!(b < active);
                assert!(next.bucket(h) == b || next.bucket(h) == active);
            }
        }
    }

    #[test]
    fn rekey_switches_halves_and_keeps_the_bucket_count() {
        let first = Shape::first(70);
        let moving = first.begin_rekey();
        let over = moving.finish_rekey();
        assert!(moving.moving() && moving.half() == 0 && moving.active() == 70);
        assert!(!over.moving() && over.half() == 1 && over.active() == 70);
        assert_eq!(over.with_active(71).generation(), over.generation());
        let all = [
            first,
            moving,
            over,
            over.begin_rekey(),
            over.next_generation(),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a.generation() != b.generation()));
        }
    }
}
