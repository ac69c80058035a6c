// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the entries of a directory: inodes by name, and the order in which they are listed.
//!
//! # Kernel analogue
//! The list of a directory's dentries, to whose head tmpfs adds a name that is created or renamed.
//! The newest name is listed first, so an entry that is added during a listing comes before the
//! reader's position and is not seen.
//!
//! # Fields
//! | field | what |
//! |---|---|
//! | by name | a hash table with its own key: O(1), and callers cannot make names collide |
//! | order | entries by position; positions fall from [`TOP`] and are never reused |
//!
//! # Rules
//! R1. Both change together under the directory's `MemDir` lock; so do its size, links and times.
//! R2. Removed inodes are dropped after the lock is released, because their drop takes the locks of
//!     others. `dir` drops the entries of a directory that is dropped.
//!
//! # Guarantees
//! G1. An entry keeps its position until it is removed or renamed.

use openpath_abi::mode;
use openpath_vfs::Inode;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Size of an empty directory: that of `.` and `..`.
pub(crate) const DIR_SIZE: u64 = 2 * ENTRY_SIZE;
/// What one entry adds to a directory's size (`BOGO_DIRENT_SIZE`).
const ENTRY_SIZE: u64 = 20;
/// One more than the first position.
const TOP: u64 = 1 << 62;
/// Once a directory had this many names, it keeps room for them.
const ROOM_MIN: usize = 64;
/// How many entries are listed under one lock.
pub(crate) const BATCH: usize = 32;

struct Entry {
    inode: Arc<Inode>,
    position: u64,
}

#[derive(Clone)]
pub(crate) struct ListEntry {
    pub(crate) name: Arc<[u8]>,
    pub(crate) ino: u64,
    pub(crate) kind: u8,
}

/// The names in one directory.
pub(crate) struct Entries {
    by_name: HashMap<Arc<[u8]>, Entry>,
    order: BTreeMap<u64, ListEntry>,
    last_position: u64,
}

impl Default for Entries {
    fn default() -> Self {
        Self {
            by_name: HashMap::new(),
            order: BTreeMap::new(),
            last_position: TOP,
        }
    }
}

impl Entries {
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<Inode>> {
        self.by_name.get(name).map(|entry| &entry.inode)
    }

    /// How many names there are.
    pub(crate) fn len(&self) -> u64 {
        self.by_name.len() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The directory's size with these entries.
    pub(crate) fn size(&self) -> u64 {
        DIR_SIZE + ENTRY_SIZE * self.by_name.len() as u64
    }

    /// Adds a name at the head of the list; returns the inode that had the name.
    pub(crate) fn insert(&mut self, name: &[u8], inode: Arc<Inode>) -> Option<Arc<Inode>> {
        let before = self.remove(name);
        let name: Arc<[u8]> = name.into();
        self.last_position -= 1;
        let position = self.last_position;
        let kind = mode::dirent_type(inode.mode());
        self.order.insert(
            position,
            ListEntry {
                name: Arc::clone(&name),
                ino: inode.ino(),
                kind,
            },
        );
        self.by_name.insert(name, Entry { inode, position });
        before
    }

    /// Removes a name; returns its inode.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Arc<Inode>> {
        let entry = self.by_name.remove(name)?;
        self.order.remove(&entry.position);
        self.shrink();
        Some(entry.inode)
    }

    /// Releases memory of removed names.
    fn shrink(&mut self) {
        let (used, room) = (self.by_name.len(), self.by_name.capacity());
        // So rarely that the removals paid for the move.
        if room > ROOM_MIN && used < room / 8 {
            self.by_name.shrink_to(used * 2);
        }
    }

    /// The next entries from a position on.
    pub(crate) fn batch(&self, from: u64, into: &mut Vec<(u64, ListEntry)>) {
        let entries = self.order.range(from..).take(BATCH);
        into.extend(entries.map(|(position, entry)| (*position, entry.clone())));
    }

    /// Takes all inodes out.
    pub(crate) fn take_all(&mut self, into: &mut Vec<Arc<Inode>>) {
        self.order.clear();
        into.extend(
            std::mem::take(&mut self.by_name)
                .into_values()
                .map(|entry| entry.inode),
        );
    }
}
