// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which names the kernel was told of: what has to be taken back when a tree changes without the
//! mount. Kept only where trees are heard.
//!
//! # Rules
//! R1. Every name that the kernel may believe is in here: one that has to make room is taken back.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A name in a directory, by its node.
pub(crate) type Name = (u64, Arc<[u8]>);

/// The names, in the order in which they were told.
pub(crate) struct Told {
    /// Each with its place in the order.
    known: HashMap<Name, u64>,
    order: BTreeMap<u64, Name>,
    next: u64,
    max: usize,
}

impl Told {
    /// Room for `max` names.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            known: HashMap::new(),
            order: BTreeMap::new(),
            next: 0,
            max: max.max(1),
        }
    }

    /// Notes that a name is told; the one that has to make room.
    pub(crate) fn note(&mut self, parent: u64, name: &[u8]) -> Option<Name> {
        let told: Name = (parent, Arc::from(name));
        if self.known.contains_key(&told) {
            return None;
        }
        self.known.insert(told.clone(), self.next);
        self.order.insert(self.next, told);
        self.next += 1;
        if self.order.len() <= self.max {
            return None;
        }
        let (_, oldest) = self.order.pop_first()?;
        self.known.remove(&oldest);
        Some(oldest)
    }

    /// The kernel believes nothing of a name any more.
    pub(crate) fn drop_name(&mut self, parent: u64, name: &[u8]) {
        if let Some(at) = self.known.remove(&(parent, Arc::from(name))) {
            self.order.remove(&at);
        }
    }

    /// Those in one of these directories.
    pub(crate) fn within(&self, parents: &[u64]) -> Vec<Name> {
        let names = self.order.values();
        names
            .filter(|(parent, _)| parents.contains(parent))
            .cloned()
            .collect()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Name> {
        self.order.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_makes_room_is_the_oldest_and_is_said() {
        let mut told = Told::new(2);
        assert_eq!(told.note(1, b"a"), None);
        assert_eq!(told.note(1, b"b"), None);
        assert_eq!(told.note(1, b"a"), None);
        assert_eq!(told.note(2, b"a"), Some((1, Arc::from(&b"a"[..]))));
        assert_eq!(told.within(&[1]).len(), 1);
        assert_eq!(told.within(&[3]).len(), 0);
        assert_eq!(told.all().len(), 2);
        told.drop_name(1, b"b");
        told.drop_name(3, b"b");
        assert_eq!(told.all(), [(2, Arc::from(&b"a"[..]))]);
        assert_eq!((told.known.len(), told.order.len()), (1, 1));
    }
}
