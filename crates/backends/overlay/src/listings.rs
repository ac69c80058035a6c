// SPDX-License-Identifier: MIT OR Apache-2.0
//! Caches listings of merged directories between two calls.
//!
//! # Rules
//! R1. All directories together keep a limited number of entries; the oldest listing goes first. A
//!     listing counts as one entry more than it has, so that empty ones are limited too.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// One name of a merged directory.
pub(crate) struct ListEntry {
    pub(crate) name: Box<[u8]>,
    pub(crate) ino: u64,
    pub(crate) kind: u8,
    pub(crate) position: i64,
}

/// The names of a merged directory, by position.
pub(crate) struct Listing {
    pub(crate) version: u64,
    pub(crate) entries: Vec<ListEntry>,
}

/// Listings in progress, by the address of their directory's node.
pub(crate) struct ListingCache {
    /// Each with its turn.
    kept: HashMap<usize, (u64, Arc<Listing>)>,
    /// Directories by turn, the oldest first.
    order: BTreeMap<u64, usize>,
    turn: u64,
    total: usize,
    max: usize,
}

/// What a listing counts for.
fn weight(listing: &Listing) -> usize {
    listing.entries.len() + 1
}

impl ListingCache {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            kept: HashMap::new(),
            order: BTreeMap::new(),
            turn: 0,
            total: 0,
            max,
        }
    }

    pub(crate) fn get(&self, dir: usize) -> Option<Arc<Listing>> {
        self.kept.get(&dir).map(|(_, listing)| Arc::clone(listing))
    }

    pub(crate) fn insert(&mut self, dir: usize, listing: &Arc<Listing>) -> Vec<Arc<Listing>> {
        let mut dropped = Vec::new();
        dropped.extend(self.take(dir));
        self.total += weight(listing);
        self.turn += 1;
        self.kept.insert(dir, (self.turn, Arc::clone(listing)));
        self.order.insert(self.turn, dir);
        while self.total > self.max
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            dropped.extend(self.take(*oldest));
        }
        dropped
    }

    fn take(&mut self, dir: usize) -> Option<Arc<Listing>> {
        let (turn, listing) = self.kept.remove(&dir)?;
        self.total -= weight(&listing);
        self.order.remove(&turn);
        Some(listing)
    }

    /// Drops the listing of a directory.
    pub(crate) fn remove(&mut self, dir: usize) {
        drop(self.take(dir));
    }
}

#[cfg(test)]
mod tests {
    use super::{Listing, ListingCache};
    use std::sync::Arc;

    #[test]
    fn empty_listings_are_limited_and_the_oldest_goes_first() {
        let listing = Arc::new(Listing {
            version: 0,
            entries: Vec::new(),
        });
        let mut cache = ListingCache::new(2);
        assert!(cache.insert(1, &listing).is_empty());
        assert!(cache.insert(2, &listing).is_empty());
        // A listing that is kept anew is the latest one.
        assert_eq!(cache.insert(1, &listing).len(), 1);
        assert_eq!(cache.insert(3, &listing).len(), 1);
        let kept = [1, 2, 3].map(|dir| cache.get(dir).is_some());
        assert_eq!(kept, [true, false, true]);
        cache.remove(1);
        assert!(cache.insert(4, &listing).is_empty());
    }
}
