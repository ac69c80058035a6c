// SPDX-License-Identifier: MIT OR Apache-2.0
//! A directory: names to inodes, and the order in which they are listed.
//!
//! # Kernel analogue
//! The list of a directory's dentries, to whose head tmpfs adds what is created or renamed: the
//! newest name is listed first, so what is added while someone lists comes before his position and
//! is not seen.
//!
//! # Fields
//! | field | what |
//! |---|---|
//! | by name | a hash table with a key of its own: O(1), and nobody can choose names that collide |
//! | order | entries by position; positions fall from [`TOP`], are given once and never again |
//!
//! # Rules
//! R1. Both change together under the directory's `MemDir` lock; so do the directory's size, links
//!     and times.
//! R2. What is removed is dropped after the lock is let go: an inode's drop takes the locks of
//!     others. `dir` drops the entries of a directory that goes.
//!
//! # Guarantees
//! G1. An entry keeps its position until it is removed or renamed.

use openpath_abi::mode;
use openpath_vfs::Inode;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Size of an empty directory: what `.` and `..` count.
pub(crate) const DIR_SIZE: u64 = 2 * ENTRY_SIZE;
/// What one entry adds to a directory's size (`BOGO_DIRENT_SIZE`).
const ENTRY_SIZE: u64 = 20;
/// The position before the first one given out.
const TOP: u64 = 1 << 62;
/// Names that a directory keeps room for, once it had so many.
const ROOM_MIN: usize = 64;
/// How many entries are listed between two takings of the lock.
pub(crate) const BATCH: usize = 32;

struct Entry {
    inode: Arc<Inode>,
    position: u64,
}

#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) name: Arc<[u8]>,
    pub(crate) ino: u64,
    pub(crate) kind: u8,
}

/// The names in one directory.
pub(crate) struct Entries {
    by_name: HashMap<Arc<[u8]>, Entry>,
    order: BTreeMap<u64, Line>,
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

    /// What the directory's size is with these entries.
    pub(crate) fn size(&self) -> u64 {
        DIR_SIZE + ENTRY_SIZE * self.by_name.len() as u64
    }

    /// Gives `inode` a name at the head of the list; what had the name before.
    pub(crate) fn put(&mut self, name: &[u8], inode: Arc<Inode>) -> Option<Arc<Inode>> {
        let before = self.remove(name);
        let name: Arc<[u8]> = name.into();
        self.last_position -= 1;
        let position = self.last_position;
        let kind = mode::dirent_type(inode.mode());
        self.order.insert(
            position,
            Line {
                name: Arc::clone(&name),
                ino: inode.ino(),
                kind,
            },
        );
        self.by_name.insert(name, Entry { inode, position });
        before
    }

    /// Takes a name away; what it meant.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Arc<Inode>> {
        let entry = self.by_name.remove(name)?;
        self.order.remove(&entry.position);
        self.shrink();
        Some(entry.inode)
    }

    /// Gives memory back that names took which are gone.
    fn shrink(&mut self) {
        let (used, room) = (self.by_name.len(), self.by_name.capacity());
        // So rarely that what is moved was paid for by what was removed.
        if room > ROOM_MIN && used < room / 8 {
            self.by_name.shrink_to(used * 2);
        }
    }

    /// The next entries from a position on.
    pub(crate) fn batch(&self, from: u64, into: &mut Vec<(u64, Line)>) {
        let lines = self.order.range(from..).take(BATCH);
        into.extend(lines.map(|(position, line)| (*position, line.clone())));
    }

    /// Takes all inodes away.
    pub(crate) fn take_all(&mut self, into: &mut Vec<Arc<Inode>>) {
        self.order.clear();
        into.extend(
            std::mem::take(&mut self.by_name)
                .into_values()
                .map(|entry| entry.inode),
        );
    }
}
