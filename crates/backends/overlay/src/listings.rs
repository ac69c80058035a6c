// SPDX-License-Identifier: MIT OR Apache-2.0
//! Listings of merged directories, cached between two calls.
//!
//! # Rules
//! R1. All directories together keep a limited number of entries; the oldest listing goes first.

use std::collections::{HashMap, VecDeque};
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
    kept: HashMap<usize, Arc<Listing>>,
    order: VecDeque<usize>,
    total: usize,
    max: usize,
}

impl ListingCache {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            kept: HashMap::new(),
            order: VecDeque::new(),
            total: 0,
            max,
        }
    }

    pub(crate) fn get(&self, dir: usize) -> Option<Arc<Listing>> {
        self.kept.get(&dir).map(Arc::clone)
    }

    pub(crate) fn insert(&mut self, dir: usize, listing: &Arc<Listing>) -> Vec<Arc<Listing>> {
        let mut dropped = Vec::new();
        dropped.extend(self.take(dir));
        self.total += listing.entries.len();
        self.kept.insert(dir, Arc::clone(listing));
        self.order.push_back(dir);
        while self.total > self.max
            && let Some(oldest) = self.order.front().copied()
        {
            dropped.extend(self.take(oldest));
        }
        dropped
    }

    fn take(&mut self, dir: usize) -> Option<Arc<Listing>> {
        let listing = self.kept.remove(&dir)?;
        self.total -= listing.entries.len();
        self.order.retain(|other| *other != dir);
        Some(listing)
    }

    /// Drops the listing of a directory.
    pub(crate) fn remove(&mut self, dir: usize) {
        drop(self.take(dir));
    }
}
