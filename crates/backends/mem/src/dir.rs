// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the calls on a directory: creating, linking, removing and listing names.

use crate::entries::{BATCH, Entries};
use crate::make::{Naming, make_inode};
use crate::node::Node;
use openpath_abi::{Errno, Timespec, mode};
use openpath_vfs::{Inode, ListedEntry, NewInode};
use std::sync::Arc;

impl Drop for Entries {
    /// Drops whole trees level by level, because a tree may be deeper than the stack.
    fn drop(&mut self) {
        let mut pending = Vec::new();
        self.take_all(&mut pending);
        while let Some(inode) = pending.pop() {
            // The last reference gives the inode itself; for any other, a later drop does this.
            if let Some(inode) = Arc::into_inner(inode)
                && let Some(entries) = Node::of(&inode).and_then(Node::entries)
            {
                entries.write().take_all(&mut pending);
            }
        }
    }
}

/// `links` plus `change`, or `None` past the ends of the counter.
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
        let inode = make_inode(self.space(), new, Naming::Named)?;
        let mut entries = entries.write();
        if entries.get(name).is_some() {
            drop(entries);
            return Err(Errno::EEXIST);
        }
        entries.insert(name, Arc::clone(&inode));
        update_dir(dir, &entries, subdirs, new.now);
        Ok(inode)
    }

    /// As `InodeOps::readdir`. No lock is held while `emit` runs.
    pub(crate) fn list_entries(
        &self,
        from: i64,
        emit: &mut dyn FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        let entries = self.entries().ok_or(Errno::ENOTDIR)?;
        let mut from = from.max(0).cast_unsigned();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            entries.read().batch(from, &mut batch);
            let is_last = batch.len() < BATCH;
            for (position, entry) in batch.drain(..) {
                from = position + 1;
                let (ino, kind, next) = (entry.ino, entry.kind, from.cast_signed());
                if !emit(ListedEntry {
                    name: &entry.name,
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
        // The first name of a temporary file was charged with the inode.
        let is_paid = links == 0;
        if !is_paid {
            node.charge().take()?;
        }
        let mut entries = entries.write();
        if entries.get(name).is_some() {
            if !is_paid {
                node.charge().give();
            }
            return Err(Errno::EEXIST);
        }
        entries.insert(name, Arc::clone(target));
        update_dir(dir, &entries, 0, now);
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
        update_dir(dir, &entries, -i32::from(victim.is_dir()), now);
        drop(entries);
        drop_link(victim, now);
        drop(removed);
        Ok(())
    }

    /// # Errors
    /// `ENOTDIR`, `ENOTEMPTY`.
    pub(crate) fn check_empty(&self) -> Result<(), Errno> {
        let entries = self.entries().ok_or(Errno::ENOTDIR)?.read();
        if entries.is_empty() {
            Ok(())
        } else {
            Err(Errno::ENOTEMPTY)
        }
    }
}

/// Removes one link of an inode; a directory loses its own `.` with it.
pub(crate) fn drop_link(inode: &Inode, now: Timespec) {
    let mut links = 0;
    let is_dir = inode.is_dir();
    inode.update(|a| {
        links = a.nlink;
        a.nlink = if is_dir { 0 } else { links.saturating_sub(1) };
        a.ctime = now;
    });
    if links > 1
        && !is_dir
        && let Some(node) = Node::of(inode)
    {
        node.charge().give();
    }
}

/// Updates a directory's attributes after a change of its entries, which also made or removed as
/// many subdirectories.
pub(crate) fn update_dir(dir: &Inode, entries: &Entries, subdirs: i32, now: Timespec) {
    dir.update(|a| {
        a.size = entries.size();
        a.nlink = links_after(a.nlink, subdirs).unwrap_or(a.nlink);
        a.mtime = now;
        a.ctime = now;
    });
}
