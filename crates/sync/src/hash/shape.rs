// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which buckets are in use, on which side, under which key: one word, and what a search makes of
//! it.
//!
//! # Layout of the shape
//! bits 0..32 buckets in use, 32..38 how far a mask of 32 ones is shifted to cover them, 38 the
//! side in use, 39 MOVING (entries go to the other side, under another key), 40..64 generation.

use super::key::HashKey;
use crate::word::{Word, Word32};

const SHIFT: u32 = 32;
const SIDE: u64 = 1 << 38;
pub(super) const MOVING: u64 = 1 << 39;
const GENERATION: u64 = 1 << 40;

/// One side's key, and where its buckets begin.
pub(super) struct Side {
    a: Word,
    b: Word,
    base: Word32,
}

impl Side {
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

/// What the shape word says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape(pub(super) u64);

impl Shape {
    /// At first: `active` buckets of side 0.
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
    pub(super) fn side(self) -> usize {
        (self.0 & SIDE != 0).into()
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
    /// Entries begin to move to the other side.
    pub(super) fn moved_on(self) -> Self {
        Self((self.0 | MOVING).wrapping_add(GENERATION))
    }
    /// They all have.
    pub(super) fn moved_over(self) -> Self {
        Self(((self.0 & !MOVING) ^ SIDE).wrapping_add(GENERATION))
    }
    /// Versions of a bucket came round.
    pub(super) fn next_round(self) -> Self {
        Self(self.0.wrapping_add(GENERATION))
    }
    /// The bucket of `hash`, counted from its side's first.
    #[inline(always)]
    pub(super) fn bucket(self, hash: u64) -> u32 {
        bucket_of(hash, self.active(), self.mask())
    }
}

/// The bucket of `hash` with `active` buckets in use, which `mask` covers.
#[inline(always)]
pub(super) fn bucket_of(hash: u64, active: u32, mask: u32) -> u32 {
    let b = hash as u32 & mask;
    // Buckets past `active` are not split off yet.
    if b < active { b } else { b & (mask >> 1) }
}

/// What a search without a lock knows of the table. An old view is led to the wrong chain: it
/// misses, and proves nothing.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub(super) shape: u64,
    key: HashKey,
    pub(super) mask: u32,
    pub(super) base: u32,
}

impl View {
    #[inline(always)]
    pub(super) fn of(shape: u64, side: &Side) -> Self {
        Self {
            shape,
            key: side.key(),
            mask: Shape(shape).mask(),
            base: side.base(),
        }
    }
    /// The key to hash with.
    #[inline(always)]
    #[must_use]
    pub fn key(&self) -> HashKey {
        self.key
    }
    /// Whether entries were moving to another key when the view was taken: what is not in its chain
    /// may be [`super::Missed::Elsewhere`].
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
            assert_eq!((now.active(), now.side()), (active, 0));
            for h in 0..1000u64 {
                let b = now.bucket(h);
                assert!(b < active);
                assert!(next.bucket(h) == b || next.bucket(h) == active);
            }
        }
    }

    #[test]
    fn sides_change_and_the_buckets_in_use_stay() {
        let first = Shape::first(70);
        let moving = first.moved_on();
        let over = moving.moved_over();
        assert!(moving.moving() && moving.side() == 0 && moving.active() == 70);
        assert!(!over.moving() && over.side() == 1 && over.active() == 70);
        assert_eq!(over.with_active(71).generation(), over.generation());
        let all = [first, moving, over, over.moved_on(), over.next_round()];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a.generation() != b.generation()));
        }
    }
}
