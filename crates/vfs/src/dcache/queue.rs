// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the queues of cached entries, by age, and the hand that picks victims for eviction.
//!
//! # Kernel analogue
//! `s_dentry_lru` with `DCACHE_REFERENCED`; the policy is SIEVE (Zhang and others, 2024). A use
//! moves nothing: it only sets a mark, if there is none. The hand goes from old to new, clears
//! marks and picks entries without one.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | newest, oldest, hand, len | the LRU list's queues | the same |
//! | links in the cold slots | the same | the same |
//! | `account` in the cold slots: the LRU list | the same | a pin, or by its only user |
//! | mark of the entry | any thread, at the end of a walk | the hand |
//!
//! # Rules
//! R1. An entry is in the queue of one LRU list from before it is seen as live until it is freed.
//! R2. The hand stands before an entry that is queued, or is 0 and begins at the oldest.

use super::Dcache;
use crate::tenant_lru::Queue;

impl Queue {
    /// Enters `index` as the newest.
    pub(super) fn push(&mut self, dcache: &Dcache, index: u32) {
        let cold = dcache.cold(index);
        cold.newer.set(0);
        cold.older.set(self.newest);
        match self.newest {
            0 => self.oldest = index,
            newest => dcache.cold(newest).newer.set(index),
        }
        self.newest = index;
        self.len += 1;
    }

    /// Takes `index` out.
    pub(super) fn remove(&mut self, dcache: &Dcache, index: u32) {
        let cold = dcache.cold(index);
        let (newer, older) = (cold.newer.get(), cold.older.get());
        match newer {
            0 => self.newest = older,
            newer => dcache.cold(newer).older.set(older),
        }
        match older {
            0 => self.oldest = newer,
            older => dcache.cold(older).newer.set(newer),
        }
        // R2
        if self.hand == index {
            self.hand = newer;
        }
        self.len -= 1;
    }

    /// Moves the hand by up to `steps` entries, or until `victims` are `goal`; how many it passed.
    ///
    /// A victim gets a mark, so that the next lap does not pick it again.
    pub(super) fn sweep(
        &mut self,
        dcache: &Dcache,
        victims: &mut Vec<u32>,
        goal: usize,
        steps: u32,
    ) -> u32 {
        let mut passed = 0;
        while passed < steps && victims.len() < goal && self.len != 0 {
            let at = match self.hand {
                0 => self.oldest,
                hand => hand,
            };
            self.hand = dcache.cold(at).newer.get();
            passed += 1;
            let mark = &dcache.at(at).mark;
            if mark.peek() != 0 {
                mark.set(0);
            } else if dcache.evictable(at) {
                mark.set(1);
                victims.push(at);
            }
        }
        passed
    }
}
