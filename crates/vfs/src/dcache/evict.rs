// SPDX-License-Identifier: MIT OR Apache-2.0
//! Evicts unused entries of the dentry cache, to make room for new ones.
//!
//! # Kernel analogue
//! `prune_dcache_sb` and shrinkers; the budgets of tenants are as those of memory control groups.
//!
//! # Rules
//! R1. A tenant at its budget evicts its own entries. At a bound of the whole `Vfs`, entries of
//!     tenants that have ended go first. Then the other tenants follow, the one with most entries
//!     first. Each loses at most the largest of three numbers: its excess over an even share, a
//!     sixteenth of its entries, and `BUDGET_MIN`.
//! R2. Entries go in batches, each of which costs one heavy fence and one scan of the pins.
//! R3. A directory goes after its entries, in the same batch where there are too few leaves.
//! R4. Evictions from one LRU list exclude each other: its `evicting` lock is held for a whole
//!     eviction, and only an eviction takes it. The lock of a queue is held for a slice of the
//!     sweep at most, and not over the reclaim that follows: other tasks can enter names meanwhile.
//!
//! # Limits
//! A bound can be exceeded by the tasks that enter a name at the same moment, by one entry each.

use super::Dcache;
use super::reclaim::leaf;
use crate::inode::Inode;
use crate::tenant_lru::{BUDGET_MIN, Kind, TenantLru};
use core::cmp::Reverse;
use openpath_abi::Errno;
use std::sync::Arc;

/// Entries that the hand passes before it lets others have the queue.
const SLICE: u32 = 512;
/// How often a new entry asks for a slot that others may take first.
const TRIES: usize = 8;
/// The largest batch while few pins are in use.
const BATCH_MAX: u32 = 2048;
/// A batch has at least one entry for so many pins that it looks at.
const PINS_PER_ENTRY: u32 = 64;

impl Dcache {
    /// How many entries to evict together where `max` are allowed.
    fn batch(&self, max: u32) -> u32 {
        let scan = self.store.pins_touched() / PINS_PER_ENTRY;
        (max / 16).clamp(BUDGET_MIN, BATCH_MAX.max(scan))
    }

    /// Makes room for one more entry of a kind on this LRU list.
    ///
    /// # Errors
    /// `ENOMEM` where nothing can be evicted: everything is in use.
    pub(crate) fn room(&self, lru: &TenantLru, kind: Kind) -> Result<(), Errno> {
        if !lru.has_room(kind) {
            self.make_room(lru, kind, lru.limit(kind))?;
        }
        if kind == Kind::Negative && !self.negatives.fits(0, 1) {
            self.evict_most(Some(kind), self.batch(self.negatives.max(0) as u32));
        }
        Ok(())
    }

    #[cold]
    fn make_room(&self, lru: &TenantLru, kind: Kind, max: u32) -> Result<(), Errno> {
        if self.evict_own(lru, kind, max) {
            return Ok(());
        }
        // Unlinked entries may be all that can go, or other threads were evicting.
        self.collect_all();
        if self.evict_own(lru, kind, max) {
            Ok(())
        } else {
            Err(Errno::ENOMEM)
        }
    }

    /// Whether an LRU list has room for one more, or evicted an entry for it. Other threads may
    /// have taken that room already, and exceeded the bound.
    fn evict_own(&self, lru: &TenantLru, kind: Kind, max: u32) -> bool {
        let (gone, inodes) = {
            let _alone = lru.evicting.lock();
            if lru.len(kind) < max {
                return true;
            }
            self.evict(lru, kind, self.batch(max))
        };
        drop(inodes);
        gone != 0 || lru.len(kind) < max
    }

    /// Evicts about `goal` unpinned leaves of an LRU list, at least one if there is any. Returns
    /// how many went, and their inodes, to be dropped where no lock is held.
    fn evict(&self, lru: &TenantLru, kind: Kind, goal: u32) -> (usize, Vec<Arc<Inode>>) {
        let mut goal = goal as usize;
        let (mut gone, mut inodes) = (0, Vec::new());
        // Two laps: one may only clear marks.
        let mut steps = u64::from(lru.len(kind)) * 2;
        while gone == 0 && steps > 0 {
            let mut victims = Vec::new();
            while steps > 0 && victims.len() < goal {
                let slice = steps.min(u64::from(SLICE)) as u32;
                let passed = lru.sweep(self, kind, &mut victims, goal, slice);
                if passed == 0 {
                    steps = 0;
                }
                steps -= u64::from(passed).min(steps);
            }
            self.add_parents(&mut victims, goal);
            (gone, inodes) = self.reclaim(&mut victims, leaf);
            // All of them were pinned, and many more may be.
            goal *= 2;
        }
        lru.note_evicted(kind, gone);
        (gone, inodes)
    }

    /// Adds the directories that will have no entry left, of the same LRU list and not used since
    /// the hand came by, as long as there are too few leaves. Otherwise each level of a deep tree
    /// would take a lap. A parent comes after its child, so that both go by one batch.
    fn add_parents(&self, victims: &mut Vec<u32>, goal: usize) {
        let mut next = 0;
        while victims.len() < goal
            && let Some(&child) = victims.get(next)
        {
            next += 1;
            let parent = self.at(child).parent.get();
            if self.child_count(parent) == 1
                && self.at(parent).mark.peek() == 0
                && leaf(self.at(parent).word().sample())
                && self.same_lru(parent, child)
            {
                victims.push(parent);
            }
        }
    }

    /// Evicts about `goal` entries, of `kind` if it is given, from the LRU list that has most; how
    /// many went.
    pub(super) fn evict_most(&self, kind: Option<Kind>, goal: u32) -> usize {
        let count = |lru: &TenantLru| match kind {
            Some(kind) => lru.len(kind),
            None => Kind::ALL.iter().map(|&kind| lru.len(kind)).sum(),
        };
        let lrus = self.lrus.all();
        let counts = lrus.iter().map(|lru| (lru.is_left(), count(lru), lru));
        let mut counts: Vec<_> = counts.filter(|&(_, count, _)| count != 0).collect();
        counts.sort_unstable_by_key(|&(left, count, _)| Reverse((left, count)));
        let all: u64 = counts.iter().map(|&(_, count, _)| u64::from(count)).sum();
        let share = (all / counts.len().max(1) as u64) as u32;
        let mut gone = 0;
        for (left, count, lru) in counts {
            let over = count.saturating_sub(share).max(count / 16).max(BUDGET_MIN);
            let take = (goal - gone as u32).min(if left { count } else { over });
            gone += self.evict_any(lru, kind, take);
            if gone >= goal as usize {
                break;
            }
        }
        gone
    }

    /// Evicts about `goal` entries of an LRU list, of its more frequent kind first; how many went.
    fn evict_any(&self, lru: &TenantLru, kind: Option<Kind>, goal: u32) -> usize {
        let first = kind.unwrap_or_else(|| lru.fuller());
        let kinds = [Some(first), kind.is_none().then(|| first.other())];
        for kind in kinds.into_iter().flatten() {
            let (gone, inodes) = {
                let _alone = lru.evicting.lock();
                self.evict(lru, kind, goal)
            };
            drop(inodes);
            if gone != 0 {
                return gone;
            }
        }
        0
    }

    /// Runs `attempt` until it finds a free slot, evicting in between; `None` where nothing can be
    /// evicted.
    pub(super) fn with_slot<R>(&self, mut attempt: impl FnMut() -> Option<R>) -> Option<R> {
        for _ in 0..TRIES {
            if let Some(made) = attempt() {
                return Some(made);
            }
            let pending_free = self.pending_free();
            self.collect_all();
            let gone = self.evict_most(None, self.batch(self.limit));
            if gone == 0 && self.pending_free() >= pending_free {
                break;
            }
        }
        attempt()
    }

    /// Evicts about `goal` unpinned leaves, from the largest LRU list first; how many went.
    pub(crate) fn shrink(&self, goal: u32) -> usize {
        self.collect();
        let mut gone = 0;
        while gone < goal as usize {
            let left = goal - gone as u32;
            let went = self.evict_most(None, left.min(self.batch(self.limit).max(left / 4)));
            if went == 0 {
                break;
            }
            gone += went;
        }
        gone
    }
}
