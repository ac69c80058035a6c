// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls on a directory: making, linking, removing and listing names.

use crate::entries::{BATCH, Entries};
use crate::make::{Names, make};
use crate::node::Node;
use openpath_abi::{Errno, Timespec, mode};
use openpath_vfs::{Inode, Listed, NewInode};
use std::sync::Arc;

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
