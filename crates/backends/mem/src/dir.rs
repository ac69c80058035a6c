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
//!     others.
//!
//! # Guarantees
//! G1. An entry keeps its position until it is removed or renamed.

use crate::node::{Names, Node, make};
use openpath_abi::{Errno, Timespec, mode};
use openpath_vfs::{Inode, Listed, NewInode};
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
const BATCH: usize = 32;

struct Entry {
    inode: Arc<Inode>,
    position: u64,
}

#[derive(Clone)]
struct Line {
    name: Arc<[u8]>,
    ino: u64,
    kind: u8,
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

    fn is_empty(&self) -> bool {
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
    fn batch(&self, from: u64, into: &mut Vec<(u64, Line)>) {
        let lines = self.order.range(from..).take(BATCH);
        into.extend(lines.map(|(position, line)| (*position, line.clone())));
    }

    /// Takes all inodes away.
    fn take_all(&mut self, into: &mut Vec<Arc<Inode>>) {
        self.order.clear();
        into.extend(
            std::mem::take(&mut self.by_name)
                .into_values()
                .map(|entry| entry.inode),
        );
    }
}

impl Drop for Entries {
    /// Drops whole trees level by level, for a tree may be deeper than the stack.
    fn drop(&mut self) {
        let mut pending = Vec::new();
        self.take_all(&mut pending);
        while let Some(inode) = pending.pop() {
            // The last owner gets the inode itself; any other's drop does this later.
            if let Some(inode) = Arc::into_inner(inode)
                && let Some(entries) = Node::behind(&inode).and_then(Node::entries)
            {
                entries.write().take_all(&mut pending);
            }
        }
    }
}

/// `links` with `change` more, or `None` past the ends of the counter.
pub(crate) fn links_after(links: u32, change: i32) -> Option<u32> {
    links.checked_add_signed(change)
}

impl Node {
    /// As `InodeOps::create`.
    pub(crate) fn create_entry(
        &self,
        dir: &Inode,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<Arc<Inode>, Errno> {
        let entries = self.entries().ok_or(Errno::EPERM)?;
        let subdirs = i32::from(mode::is_dir(new.mode));
        if dir.nlink() == 0 {
            return Err(Errno::ENOENT);
        }
        links_after(dir.nlink(), subdirs).ok_or(Errno::EMLINK)?;
        let inode = make(self.space(), new, Names::One)?;
        let mut entries = entries.write();
        if entries.get(name).is_some() {
            drop(entries);
            return Err(Errno::EEXIST);
        }
        entries.put(name, Arc::clone(&inode));
        changed(dir, &entries, subdirs, new.now);
        Ok(inode)
    }

    /// As `InodeOps::readdir`. No lock is held while `emit` runs.
    pub(crate) fn list_entries(
        &self,
        from: i64,
        emit: &mut dyn FnMut(Listed<'_>) -> bool,
    ) -> Result<(), Errno> {
        let entries = self.entries().ok_or(Errno::ENOTDIR)?;
        let mut from = from.max(0).cast_unsigned();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            entries.read().batch(from, &mut batch);
            let is_last = batch.len() < BATCH;
            for (position, line) in batch.drain(..) {
                from = position + 1;
                let (ino, kind, next) = (line.ino, line.kind, from.cast_signed());
                if !emit(Listed {
                    name: &line.name,
                    ino,
                    kind,
                    next,
                }) {
                    return Ok(());
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// As `InodeOps::link`.
    pub(crate) fn link_entry(
        &self,
        dir: &Inode,
        name: &[u8],
        target: &Arc<Inode>,
        now: Timespec,
    ) -> Result<(), Errno> {
        let entries = self.entries().ok_or(Errno::EPERM)?;
        let node = self.sibling(target)?;
        if target.is_dir() {
            return Err(Errno::EPERM);
        }
        if dir.nlink() == 0 {
            return Err(Errno::ENOENT);
        }
        let links = target.nlink();
        links_after(links, 1).ok_or(Errno::EMLINK)?;
        // The first name of a temporary file is paid for with the inode.
        let is_paid = links == 0;
        if !is_paid {
            node.places().take()?;
        }
        let mut entries = entries.write();
        if entries.get(name).is_some() {
            if !is_paid {
                node.places().give();
            }
            return Err(Errno::EEXIST);
        }
        entries.put(name, Arc::clone(target));
        changed(dir, &entries, 0, now);
        target.update(|a| {
            a.nlink = a.nlink.saturating_add(1);
            a.ctime = now;
        });
        Ok(())
    }

    /// Removes a name of `victim`, which is a directory only if it is empty.
    pub(crate) fn remove_entry(
        &self,
        dir: &Inode,
        name: &[u8],
        victim: &Arc<Inode>,
        now: Timespec,
    ) -> Result<(), Errno> {
        let entries = self.entries().ok_or(Errno::EPERM)?;
        self.sibling(victim)?;
        let mut entries = entries.write();
        if !entries
            .get(name)
            .is_some_and(|found| Arc::ptr_eq(found, victim))
        {
            return Err(Errno::ENOENT);
        }
        let removed = entries.remove(name);
        changed(dir, &entries, -i32::from(victim.is_dir()), now);
        drop(entries);
        lose_name(victim, now);
        drop(removed);
        Ok(())
    }

    /// # Errors
    /// `ENOTDIR`, `ENOTEMPTY`.
    pub(crate) fn must_be_empty(&self) -> Result<(), Errno> {
        let entries = self.entries().ok_or(Errno::ENOTDIR)?.read();
        if entries.is_empty() {
            Ok(())
        } else {
            Err(Errno::ENOTEMPTY)
        }
    }
}

/// Counts one name less of an inode of this backend; a directory loses its own `.` with it.
pub(crate) fn lose_name(inode: &Inode, now: Timespec) {
    let mut links = 0;
    let is_dir = inode.is_dir();
    inode.update(|a| {
        links = a.nlink;
        a.nlink = if is_dir { 0 } else { links.saturating_sub(1) };
        a.ctime = now;
    });
    if links > 1
        && !is_dir
        && let Some(node) = Node::behind(inode)
    {
        node.places().give();
    }
}

/// Brings a directory's attributes up to its entries, after a change that also made or removed as
/// many subdirectories.
pub(crate) fn changed(dir: &Inode, entries: &Entries, subdirs: i32, now: Timespec) {
    dir.update(|a| {
        a.size = entries.size();
        a.nlink = links_after(a.nlink, subdirs).unwrap_or(a.nlink);
        a.mtime = now;
        a.ctime = now;
    });
}
