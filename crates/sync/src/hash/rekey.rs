// SPDX-License-Identifier: MIT OR Apache-2.0
//! Relieves a crowded chain of the hash table: splits buckets if there are too few, else changes
//! the table's key in steps.
//!
//! # Rules
//! R1. A change of key is not free for an attacker to provoke. The first request begins one at
//!     once; later ones begin only after as many more requests as a quarter of the buckets. In
//!     between, inserters make room in the chain by other means.
//!
//! # Guarantees
//! G1. Each call moves at most [`STEP`] buckets.

use super::key::HashKey;
use super::shape::Shape;
use super::{CROWDED, Census, Chain, Table};
use crate::primitive::no_fault_injection;

/// Buckets moved at a time.
const STEP: u32 = if cfg!(loom) { 1 } else { 128 };

/// State and statistics of key changes.
#[derive(Default)]
pub(super) struct RekeyState {
    rekeys: u64,
    crowded: u64,
    /// The number of requests from which the next change may begin.
    not_before: u64,
}

impl RekeyState {
    pub(super) fn census(&self) -> Census {
        Census {
            rekeys: self.rekeys,
            crowded: self.crowded,
            ..Census::default()
        }
    }
}

/// What [`Table::relieve`] did about a crowded chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChainRelief {
    /// The table grew or changes its key: check the chain again.
    Changed,
    /// Nothing: make room in another way.
    None,
}

impl Table {
    /// Whether to make room before an entry is added to the chain that `hash` leads to.
    #[inline]
    pub fn is_crowded(&self, hash: impl Fn(HashKey) -> u64) -> bool {
        self.length_of(&hash) >= CROWDED
    }

    /// Relieves a crowded chain: splits buckets if there are too few, else begins a change to a key
    /// made of `secret`. Called with no chain locked.
    #[cold]
    pub fn relieve(&self, chain: &impl Chain, secret: impl FnOnce() -> [u64; 2]) -> ChainRelief {
        let Some(mut work) = self.progress.work.try_lock() else {
            // Another thread is at work.
            return ChainRelief::None;
        };
        work.crowded += 1;
        let shape = Shape(self.shape.get());
        if shape.moving() {
            self.move_some(&mut work, chain);
            return ChainRelief::Changed;
        }
        if self.reported() > u64::from(shape.active()) {
            self.split_all(chain);
            if Shape(self.shape.get()).active() != shape.active() {
                return ChainRelief::Changed;
            }
        }
        if work.crowded < work.not_before {
            return ChainRelief::None;
        }
        let _step = no_fault_injection();
        work.not_before = work.crowded + u64::from(shape.active() / 4);
        // No thread reads the key and the mark before the shape says so.
        self.halves[1 - shape.half()].set_key(HashKey::new(secret()));
        self.progress.moved.set(0);
        self.reshape(Shape::begin_rekey);
        self.move_some(&mut work, chain);
        ChainRelief::Changed
    }

    /// Moves the next few buckets to the other half, and switches to it after the last.
    pub(super) fn move_some(&self, work: &mut RekeyState, chain: &impl Chain) {
        let _step = no_fault_injection();
        let shape = Shape(self.shape.get());
        let (old, new) = (&self.halves[shape.half()], &self.halves[1 - shape.half()]);
        let key = new.key();
        let first = self.progress.moved.get();
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
            // PAIR(hash.miss): the mark rises before the bucket is released.
            self.progress.moved.set(bucket + 1);
        }
        if end == shape.active() {
            self.reshape(Shape::finish_rekey);
            work.rekeys += 1;
        }
    }
}
