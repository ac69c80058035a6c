// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shortens a crowded hash chain before an entry is added to it, and takes the statistics of the
//! table of names.
//!
//! Chance alone crowds no chain, so an attacker knows the table's key, or found names that collide
//! by trying. First the table changes its key, which scatters the chain; that is limited in rate.
//! Otherwise unused entries of the chain are evicted, as names may be at any time.
//!
//! # Guarantees
//! G1. A chain stays below [`openpath_sync::CHAIN_CAP`], not counting entries in use (open files,
//!     working directories, directories with cached entries), which have no bound. Answers do not
//!     depend on it: searches without a lock give up after [`openpath_sync::CHAIN_MAX`] steps and
//!     ask under the lock.

use super::Dcache;
use crate::name::NameKey;
use openpath_sync::{Census, ChainRelief};

/// How often the table is asked for relief before entries go. Each time it moves on.
const ROUNDS: usize = 4;
/// Entries evicted at a time, to pay for one fence.
const EVICTED: usize = 8;

impl Dcache {
    /// What the table looks like.
    pub(crate) fn census(&self) -> Census {
        self.table.census()
    }

    /// Makes room for an entry `key` of `parent`, if there is little where it would be.
    #[inline]
    pub(super) fn uncrowd(&self, parent: u32, key: NameKey) {
        if self.table.is_crowded(|k| key.hash_in(k, parent)) {
            self.scatter(parent, key);
        }
    }

    #[cold]
    #[inline(never)]
    fn scatter(&self, parent: u32, key: NameKey) {
        let crowded = || self.table.is_crowded(|k| key.hash_in(k, parent));
        for _ in 0..ROUNDS {
            if self.table.relieve(self, || self.secrets.next()) == ChainRelief::None {
                break;
            }
            if !crowded() {
                return;
            }
        }
        let mut chain = Vec::new();
        let locked = self.table.lock(|k| key.hash_in(k, parent));
        locked.find(self, |index| {
            chain.push(index);
            false
        });
        drop(locked);
        // The oldest come last.
        chain.reverse();
        self.evict_some(chain, EVICTED);
    }
}
