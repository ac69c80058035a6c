// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table changes its key when a chain grows that chance does not explain.
//!
//! # Rules
//! R1. A change of key may not be had for nothing: it is begun at once the first time, and then
//!     only after as many more requests as a quarter of the buckets. In between, who inserts makes
//!     room in the chain by other means.
//!
//! # Guarantees
//! G1. Each call moves at most [`STEP`] buckets.

use super::shape::Shape;
use super::{CROWDED, Census, Chain, Table};
use crate::HashKey;
use crate::prim::unfailing;

/// Buckets moved at a time.
const STEP: u32 = if cfg!(loom) { 1 } else { 128 };

/// What the changes of key have come to.
#[derive(Default)]
pub(super) struct Work {
    rekeys: u64,
    crowded: u64,
    /// How many requests there must have been before the next change is begun.
    not_before: u64,
}

impl Work {
    pub(super) fn census(&self) -> Census {
        Census {
            rekeys: self.rekeys,
            crowded: self.crowded,
            ..Census::default()
        }
    }
}

/// What was done about a crowded chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relief {
    /// The table grew, or changes its key: look at the chain again.
    Changed,
    /// Nothing: make room in another way.
    None,
}

impl Table {
    /// Whether room should be made before anything is added to the chain that `hash` leads to.
    #[inline]
    pub fn is_crowded(&self, hash: impl Fn(HashKey) -> u64) -> bool {
        self.length_of(&hash) >= CROWDED
    }

    /// Does something about a crowded chain: splits buckets if there are too few, else changes the
    /// key to one made of `secret`. Called with no chain locked.
    #[cold]
    pub fn relieve(&self, chain: &impl Chain, secret: impl FnOnce() -> [u64; 2]) -> Relief {
        let Some(mut work) = self.busy.work.try_lock() else {
            // Somebody else is at it.
            return Relief::None;
        };
        work.crowded += 1;
        let shape = Shape(self.shape.get());
        if shape.moving() {
            self.move_some(&mut work, chain);
            return Relief::Changed;
        }
        if self.said() > u64::from(shape.active()) {
            self.split_all(chain);
            if Shape(self.shape.get()).active() != shape.active() {
                return Relief::Changed;
            }
        }
        if work.crowded < work.not_before {
            return Relief::None;
        }
        let _step = unfailing();
        work.not_before = work.crowded + u64::from(shape.active() / 4);
        // Nobody reads key and mark before the shape says so.
        self.sides[1 - shape.side()].set_key(HashKey::new(secret()));
        self.busy.moved.set(0);
        self.reshape(Shape::moved_on);
        self.move_some(&mut work, chain);
        Relief::Changed
    }

    /// Moves the next few buckets to the other side, and makes that the one in use when it has them
    /// all.
    pub(super) fn move_some(&self, work: &mut Work, chain: &impl Chain) {
        let _step = unfailing();
        let shape = Shape(self.shape.get());
        let (old, new) = (&self.sides[shape.side()], &self.sides[1 - shape.side()]);
        let key = new.key();
        let first = self.busy.moved.get();
        let end = shape.active().min(first.saturating_add(STEP));
        for bucket in first..end {
            let mut from = self.lock_bucket(bucket | old.base());
            let mut at = from.take_all();
            while at != 0 {
                let after = chain.link(at).get();
                let into = shape.bucket(chain.hash(at, key)) | new.base();
                self.lock_bucket(into).push(chain, at);
                at = after;
            }
            // PAIR(hash.miss): the mark says so before the bucket is let go.
            self.busy.moved.set(bucket + 1);
        }
        if end == shape.active() {
            self.reshape(Shape::moved_over);
            work.rekeys += 1;
        }
    }
}
