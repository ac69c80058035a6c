// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracks names that the kernel may have cached, and that must be invalidated when the tree changes
//! behind the mount.
//!
//! Names are tracked only where a tree reports changes ([`crate::Server::subscribe`]).
//!
//! # Rules
//! R1. Every name that the kernel may have cached is in here. The name that was looked up longest
//!     ago is evicted first, and invalidated in the kernel.
//! R2. Each name has the node that the latest reply gave for it. A change of the tree that finds
//!     the same node there need not be told to the kernel.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A name in a directory, by the directory's node.
pub(crate) type OwnedName = (u64, Arc<[u8]>);

/// When a name was tracked last: a position in the order of lookups.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrackedAt(u64);

#[derive(Clone, Copy)]
struct Tracked {
    at: u64,
    /// The node of the latest reply; `None` if no reply had one.
    node: Option<u64>,
}

/// The names, in the order in which they were looked up.
pub(crate) struct CachedNames {
    known: HashMap<OwnedName, Tracked>,
    order: BTreeMap<u64, OwnedName>,
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

    /// Adds a name, or makes it the one that is evicted last; returns the name that was evicted for
    /// it.
    pub(crate) fn track(&mut self, parent: u64, name: &[u8]) -> Option<OwnedName> {
        let name: OwnedName = (parent, Arc::from(name));
        let at = self.next;
        self.next += 1;
        if let Some(tracked) = self.known.get_mut(&name) {
            let before = std::mem::replace(&mut tracked.at, at);
            if let Some(name) = self.order.remove(&before) {
                self.order.insert(at, name);
            }
            return None;
        }
        self.known.insert(name.clone(), Tracked { at, node: None });
        self.order.insert(at, name);
        if self.order.len() <= self.max {
            return None;
        }
        let (_, oldest) = self.order.pop_first()?;
        self.known.remove(&oldest);
        Some(oldest)
    }

    /// A reply gives this node for a name; returns whether the name is tracked.
    pub(crate) fn set_node(&mut self, parent: u64, name: &[u8], node: u64) -> bool {
        let tracked = self.known.get_mut(&(parent, Arc::from(name)));
        tracked.map(|it| it.node = Some(node)).is_some()
    }

    /// A name may lead to another node from now on, without a reply.
    pub(crate) fn forget_node(&mut self, parent: u64, name: &[u8]) {
        if let Some(tracked) = self.known.get_mut(&(parent, Arc::from(name))) {
            tracked.node = None;
        }
    }

    /// The node that the latest reply gave for a name.
    pub(crate) fn node(&self, parent: u64, name: &[u8]) -> Option<u64> {
        self.known.get(&(parent, Arc::from(name)))?.node
    }

    /// When a name was tracked last, if it is in here.
    pub(crate) fn tracked_at(&self, parent: u64, name: &[u8]) -> Option<TrackedAt> {
        let tracked = self.known.get(&(parent, Arc::from(name)))?;
        Some(TrackedAt(tracked.at))
    }

    /// Removes a name that the kernel no longer has cached, unless it was tracked again since.
    pub(crate) fn remove(&mut self, parent: u64, name: &[u8], since: TrackedAt) {
        let name = (parent, Arc::from(name));
        if self.known.get(&name).is_some_and(|it| it.at == since.0) {
            self.known.remove(&name);
            self.order.remove(&since.0);
        }
    }

    /// The names in any of these directories.
    pub(crate) fn within(&self, parents: &[u64]) -> Vec<OwnedName> {
        let names = self.order.values();
        names
            .filter(|(parent, _)| parents.contains(parent))
            .cloned()
            .collect()
    }

    /// All names.
    pub(crate) fn all(&self) -> Vec<OwnedName> {
        self.order.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(parent: u64, name: &[u8]) -> OwnedName {
        (parent, Arc::from(name))
    }

    #[test]
    fn track_beyond_the_bound_evicts_the_name_that_was_tracked_longest_ago() {
        let mut names = CachedNames::new(2);
        assert_eq!(names.track(1, b"a"), None);
        assert_eq!(names.track(1, b"b"), None);
        assert_eq!(names.track(1, b"a"), None);
        assert_eq!(names.track(2, b"a"), Some(name(1, b"b")));
        assert_eq!(names.within(&[1]).len(), 1);
        assert_eq!(names.within(&[3]).len(), 0);
        assert_eq!(names.all(), [name(1, b"a"), name(2, b"a")]);
        assert_eq!((names.known.len(), names.order.len()), (2, 2));
    }

    #[test]
    fn a_name_that_is_tracked_again_is_not_removed() {
        let mut names = CachedNames::new(2);
        names.track(1, b"a");
        let before = names.tracked_at(1, b"a").expect("tracked");
        names.track(1, b"a");
        names.remove(1, b"a", before);
        assert_eq!(names.all(), [name(1, b"a")]);
        let since = names.tracked_at(1, b"a").expect("tracked");
        names.remove(1, b"a", since);
        assert!(names.tracked_at(1, b"a").is_none());
        assert_eq!((names.known.len(), names.order.len()), (0, 0));
    }

    #[test]
    fn a_name_has_the_node_of_the_latest_reply() {
        let mut names = CachedNames::new(1);
        assert!(!names.set_node(1, b"a", 7));
        names.track(1, b"a");
        assert_eq!(names.node(1, b"a"), None);
        assert!(names.set_node(1, b"a", 7));
        names.track(1, b"a");
        assert_eq!(names.node(1, b"a"), Some(7));
        names.forget_node(1, b"a");
        assert_eq!(names.node(1, b"a"), None);
        names.track(1, b"b");
        assert_eq!(names.node(1, b"a"), None);
    }
}
