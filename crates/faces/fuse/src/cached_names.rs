// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that the kernel may have cached, and that must be invalidated when the tree changes behind
//! the mount.
//!
//! Names are tracked only where a tree reports changes ([`crate::Server::subscribe`]).
//!
//! # Rules
//! R1. Every name that the kernel may have cached is in here. A name that is evicted from here is
//!     invalidated in the kernel.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A name in a directory, by the directory's node.
pub(crate) type Name = (u64, Arc<[u8]>);

/// The names, in the order in which they were added.
pub(crate) struct CachedNames {
    /// Each with its position in the order.
    known: HashMap<Name, u64>,
    order: BTreeMap<u64, Name>,
    next: u64,
    max: usize,
}

impl CachedNames {
    /// A table of at most `max` names.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            known: HashMap::new(),
            order: BTreeMap::new(),
            next: 0,
            max: max.max(1),
        }
    }

    /// Adds a name; returns the name that was evicted for it.
    pub(crate) fn insert(&mut self, parent: u64, name: &[u8]) -> Option<Name> {
        let name: Name = (parent, Arc::from(name));
        if self.known.contains_key(&name) {
            return None;
        }
        self.known.insert(name.clone(), self.next);
        self.order.insert(self.next, name);
        self.next += 1;
        if self.order.len() <= self.max {
            return None;
        }
        let (_, oldest) = self.order.pop_first()?;
        self.known.remove(&oldest);
        Some(oldest)
    }

    /// Removes a name that the kernel no longer has cached.
    pub(crate) fn remove(&mut self, parent: u64, name: &[u8]) {
        if let Some(at) = self.known.remove(&(parent, Arc::from(name))) {
            self.order.remove(&at);
        }
    }

    /// The names in any of these directories.
    pub(crate) fn within(&self, parents: &[u64]) -> Vec<Name> {
        let names = self.order.values();
        names
            .filter(|(parent, _)| parents.contains(parent))
            .cloned()
            .collect()
    }

    /// All names.
    pub(crate) fn all(&self) -> Vec<Name> {
        self.order.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insert_beyond_the_bound_evicts_and_returns_the_oldest() {
        let mut names = CachedNames::new(2);
        assert_eq!(names.insert(1, b"a"), None);
        assert_eq!(names.insert(1, b"b"), None);
        assert_eq!(names.insert(1, b"a"), None);
        assert_eq!(names.insert(2, b"a"), Some((1, Arc::from(&b"a"[..]))));
        assert_eq!(names.within(&[1]).len(), 1);
        assert_eq!(names.within(&[3]).len(), 0);
        assert_eq!(names.all().len(), 2);
        names.remove(1, b"b");
        names.remove(3, b"b");
        assert_eq!(names.all(), [(2, Arc::from(&b"a"[..]))]);
        assert_eq!((names.known.len(), names.order.len()), (1, 1));
    }
}
