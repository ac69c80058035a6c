// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel knows: a node for each file, directory and link that it was told of.
//!
//! # States
//! Absent -> known, with as many lookups as answers that named it -> absent, when the kernel has
//! given all of them back (`FORGET`). The root is known for as long as the mount is there.
//!
//! # Fields
//! | field | what |
//! |---|---|
//! | `place` | `O_PATH` descriptor in the table that all tasks of the server share |
//! | `file` | mount and inode number: names that lead to one file are one node |
//! | `lookups` | answers that the kernel has not given back |
//!
//! # Rules
//! R1. A node's number is the file's inode number, where that is unique in the mount: what stat(2)
//!     shows then outlives a node. The tree that the root is in keeps its numbers; others get
//!     theirs with the number of their mount above bit 48.
//! R2. A descriptor is closed by who took it out, when no lock is held.

use openpath_abi::Errno;
use openpath_sync::Mutex;
use openpath_vfs::Fd;
use openpath_vfs::lock_order::FuseNodes;
use std::collections::HashMap;

/// The number of the root (`FUSE_ROOT_ID`).
pub(crate) const ROOT: u64 = 1;
/// Bit of numbers that have their mount's number in them.
const OTHER: u64 = 1 << 62;
/// Bit of numbers that are counted.
const COUNTED: u64 = 1 << 63;
/// Bits of an inode number that leaves room for its mount's.
const INO_BITS: u32 = 48;
/// Mounts that have room there.
const MOUNTS: u64 = 1 << (62 - INO_BITS);

/// A file, by what it is found again by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct File {
    /// Number of its mount, never used again.
    pub(crate) mount: u64,
    /// Inode number.
    pub(crate) ino: u64,
}

#[derive(Clone, Copy)]
struct Node {
    place: Fd,
    file: File,
    lookups: u64,
}

/// The table of nodes.
pub(crate) struct Nodes {
    books: Mutex<Books, FuseNodes>,
    max: usize,
}

struct Books {
    nodes: HashMap<u64, Node>,
    numbers: HashMap<File, u64>,
    /// Mounts in the order they were met; the root's first.
    mounts: Vec<u64>,
    counted: u64,
    /// So many are many.
    many: usize,
}

impl Books {
    /// The number that a file has or would have, unless it has to be counted.
    fn number(&self, file: File) -> Option<u64> {
        if let Some(&known) = self.numbers.get(&file) {
            return Some(known);
        }
        let at = self.mounts.iter().position(|m| *m == file.mount)? as u64;
        if at == 0 {
            return (file.ino > ROOT && file.ino < OTHER).then_some(file.ino);
        }
        (at < MOUNTS && file.ino >> INO_BITS == 0).then_some(OTHER | at << INO_BITS | file.ino)
    }
}

/// How many of at most `max` are many.
fn many_of(max: usize) -> usize {
    max - max / 4
}

impl Nodes {
    /// A table with the root in it, at this descriptor.
    pub(crate) fn new(place: Fd, file: File, max: usize) -> Self {
        let root = Node {
            place,
            file,
            lookups: 1,
        };
        let books = Books {
            nodes: HashMap::from([(ROOT, root)]),
            numbers: HashMap::from([(file, ROOT)]),
            mounts: vec![file.mount],
            counted: 0,
            many: many_of(max),
        };
        Self {
            books: Mutex::new(books),
            max,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.books.lock().nodes.len()
    }

    /// The descriptor of a node.
    ///
    /// # Errors
    /// `ESTALE`: the kernel asks for what it has given back.
    pub(crate) fn place(&self, number: u64) -> Result<Fd, Errno> {
        let books = self.books.lock();
        books
            .nodes
            .get(&number)
            .map(|n| n.place)
            .ok_or(Errno::ESTALE)
    }

    /// The mount that a node is in.
    pub(crate) fn mount(&self, number: u64) -> Option<u64> {
        self.books.lock().nodes.get(&number).map(|n| n.file.mount)
    }

    /// The nodes of files with this inode number, in whichever mount.
    pub(crate) fn of_ino(&self, ino: u64) -> Vec<u64> {
        let books = self.books.lock();
        let files = books.mounts.iter().map(|&mount| File { mount, ino });
        files
            .filter_map(|file| books.numbers.get(&file).copied())
            .collect()
    }

    /// Whether there are so many that the kernel is to give some back; once, until
    /// [`Nodes::pruned`].
    pub(crate) fn are_many(&self) -> bool {
        let mut books = self.books.lock();
        if books.nodes.len() < many_of(self.max) {
            books.many = books.many.min(many_of(self.max));
        }
        let are = books.nodes.len() >= books.many;
        if are {
            books.many = usize::MAX;
        }
        are
    }

    /// The kernel was asked to.
    pub(crate) fn pruned(&self) {
        let mut books = self.books.lock();
        let grown = books.nodes.len() + self.max / 16;
        books.many = grown.max(many_of(self.max));
    }

    /// All nodes.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.books.lock().nodes.keys().copied().collect()
    }

    /// The number under which a file of this mount is listed.
    pub(crate) fn listed(&self, mount: u64, ino: u64) -> u64 {
        let file = File { mount, ino };
        self.books.lock().number(file).unwrap_or(ino)
    }

    /// Counts a lookup of the file at `place`: its number, and the descriptor if it is not needed,
    /// because another one leads to the file already.
    ///
    /// # Errors
    /// `ENFILE`: there are as many as may be; the descriptor is the caller's.
    pub(crate) fn enter(&self, place: Fd, file: File) -> Result<(u64, Option<Fd>), Errno> {
        let mut books = self.books.lock();
        let books = &mut *books;
        if let Some(&number) = books.numbers.get(&file) {
            if let Some(node) = books.nodes.get_mut(&number) {
                node.lookups += 1;
            }
            return Ok((number, Some(place)));
        }
        if books.nodes.len() >= self.max {
            return Err(Errno::ENFILE);
        }
        if !books.mounts.contains(&file.mount) {
            books.mounts.push(file.mount);
        }
        let number = books.number(file).unwrap_or_else(|| {
            books.counted += 1;
            COUNTED | books.counted
        });
        let node = Node {
            place,
            file,
            lookups: 1,
        };
        books.nodes.insert(number, node);
        books.numbers.insert(file, number);
        Ok((number, None))
    }

    /// The kernel gives `lookups` back; the descriptor, if that were all.
    pub(crate) fn forget(&self, number: u64, lookups: u64) -> Option<Fd> {
        if number == ROOT {
            return None;
        }
        let mut books = self.books.lock();
        let node = books.nodes.get_mut(&number)?;
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups > 0 {
            return None;
        }
        let (place, file) = (node.place, node.file);
        books.nodes.remove(&number);
        books.numbers.remove(&file);
        // R2
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: File = File { mount: 7, ino: 90 };

    fn table() -> Nodes {
        Nodes::new(0, FIRST, 4)
    }

    fn file(mount: u64, ino: u64) -> File {
        File { mount, ino }
    }

    #[test]
    fn a_node_lives_until_its_last_lookup_is_given_back() {
        let nodes = table();
        assert_eq!(nodes.enter(3, file(7, 5)), Ok((5, None)));
        assert_eq!(nodes.enter(4, file(7, 5)), Ok((5, Some(4))));
        assert_eq!(nodes.enter(4, file(7, 5)), Ok((5, Some(4))));
        assert_eq!(nodes.forget(5, 2), None);
        assert_eq!(nodes.place(5), Ok(3));
        assert_eq!(nodes.forget(5, 1), Some(3));
        assert_eq!(nodes.place(5), Err(Errno::ESTALE));
        assert_eq!(nodes.forget(ROOT, 1), None);
        assert_eq!(nodes.len(), 1);
    }

    #[test]
    fn numbers_are_those_of_the_tree_and_never_meet() {
        let nodes = Nodes::new(0, FIRST, 100);
        let number = |f| nodes.enter(9, f).expect("room").0;
        let all = [
            number(file(7, 5)),
            number(file(7, 1)),
            number(file(7, 90)),
            number(file(8, 5)),
            number(file(9, 5)),
            number(file(8, 1 << 50)),
            number(file(7, 1 << 63)),
        ];
        assert_eq!(all[0], 5);
        assert_eq!(all[2], ROOT);
        let mut apart = all.to_vec();
        apart.sort_unstable();
        apart.dedup();
        assert_eq!(apart.len(), all.len());
        assert_eq!(nodes.listed(8, 5), all[3]);
        assert_eq!(nodes.listed(7, 6), 6);
    }

    #[test]
    fn there_are_no_more_than_may_be() {
        let nodes = table();
        for ino in 2..5 {
            assert!(nodes.enter(3, file(7, ino)).is_ok());
        }
        assert_eq!(nodes.enter(3, file(7, 5)), Err(Errno::ENFILE));
        assert_eq!(nodes.enter(8, file(7, 4)), Ok((4, Some(8))));
        assert_eq!(nodes.forget(4, 2), Some(3));
        assert_eq!(nodes.enter(3, file(7, 5)), Ok((5, None)));
    }
}
