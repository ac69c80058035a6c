// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds many changes of a view in little memory, and splits them into lists that fit a message.
//!
//! # Rules
//! R1. A path is held by what it shares with the one before it and the rest. Of changes in the
//!     order of a walk a deep tree takes no more memory than its names.

use crate::report::change::Change;
use crate::report::path_bytes::{PathBytes, path_of};
use serde::{Deserialize, Serialize};

/// Changes in a message, and bytes of their paths: one more may be in it.
const PART: usize = 500;
const PART_BYTES: usize = 1 << 20;

/// A change, with that part of its path that follows `shared` bytes of the path before.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    shared: usize,
    change: Change,
}

/// Changes in the order in which they were added.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ChangeList {
    entries: Vec<Entry>,
    /// Of all rests of paths.
    bytes: usize,
    /// The path of the last one.
    last: PathBytes,
}

impl ChangeList {
    /// Adds a change.
    pub fn push(&mut self, mut change: Change) {
        let path = change.path.bytes();
        let both = path.iter().zip(self.last.bytes());
        let shared = both.take_while(|(a, b)| a == b).count();
        let rest = path_of(&path[shared..]);
        self.bytes += path.len() - shared;
        self.last = std::mem::replace(&mut change.path, rest);
        self.entries.push(Entry { shared, change });
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All changes, each with its whole path.
    pub fn iter(&self) -> impl Iterator<Item = Change> + '_ {
        let mut path = Vec::new();
        self.entries.iter().map(move |entry| {
            path.truncate(entry.shared);
            path.extend_from_slice(entry.change.path.bytes());
            Change {
                path: path_of(&path),
                ..entry.change.clone()
            }
        })
    }

    /// The same in lists that are short enough for one message.
    pub fn parts(&self) -> impl Iterator<Item = ChangeList> + '_ {
        let mut all = self.iter().peekable();
        std::iter::from_fn(move || {
            all.peek()?;
            let mut part = ChangeList::default();
            while part.len() < PART
                && part.bytes < PART_BYTES
                && let Some(change) = all.next()
            {
                part.push(change);
            }
            Some(part)
        })
    }
}

impl Extend<Change> for ChangeList {
    fn extend<T: IntoIterator<Item = Change>>(&mut self, changes: T) {
        changes.into_iter().for_each(|change| self.push(change));
    }
}

impl FromIterator<Change> for ChangeList {
    fn from_iter<T: IntoIterator<Item = Change>>(changes: T) -> ChangeList {
        let mut list = ChangeList::default();
        list.extend(changes);
        list
    }
}

#[cfg(test)]
mod tests {
    use super::ChangeList;
    use crate::report::change::{Change, ChangeKind};
    use crate::report::path_bytes::path_of;

    #[test]
    #[ignore = "slow: 7 s"]
    fn deep_tree_takes_no_more_memory_than_its_names() {
        let mut path = Vec::new();
        let changes = (0..1_000).map(|_| {
            path.extend_from_slice(&[b'/'; 1]);
            path.extend_from_slice(&[b'd'; 250]);
            Change::bare(path_of(&path), ChangeKind::Added)
        });
        let changes: Vec<_> = changes.collect();
        let list: ChangeList = changes.iter().cloned().collect();
        assert_eq!(list.bytes, 251_000);
        assert!(list.iter().eq(changes.iter().cloned()));
        let parts: Vec<_> = list.parts().collect();
        assert_eq!(parts.len(), 2);
        assert!(parts.iter().flat_map(ChangeList::iter).eq(changes));
    }
}
