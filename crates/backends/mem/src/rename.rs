// SPDX-License-Identifier: MIT OR Apache-2.0
//! Renames entries: within a directory and across, replacing, exchanging, leaving a whiteout.
//!
//! # Kernel analogue
//! `shmem_rename2`. The modification and change times of both directories move, and the change time
//! of every inode that got or lost a name.
//!
//! # Rules
//! R1. All checks come first. The core keeps both directories locked meanwhile, so their results
//!     still hold. Each directory is changed under its own lock, one after the other.

use crate::dir::{drop_link, links_after, update_dir};
use crate::make::{Naming, make_inode};
use crate::node::Node;
use openpath_abi::Errno;
use openpath_vfs::{Inode, Rename};
use std::sync::Arc;

/// The changes of the numbers of subdirectories.
struct Subdirs {
    old: i32,
    new: i32,
}

fn subdirs(rename: &Rename<'_>) -> Subdirs {
    let source = i32::from(rename.source.is_dir());
    let target = i32::from(rename.target.is_some_and(|t| t.is_dir()));
    let back = if rename.exchange { target } else { 0 };
    Subdirs {
        old: back - source,
        new: source - target,
    }
}

impl Node {
    /// As `InodeOps::rename`.
    pub(crate) fn rename_entry(&self, rename: &Rename<'_>) -> Result<(), Errno> {
        let old = self.sibling(rename.old_dir)?;
        let new = self.sibling(rename.new_dir)?;
        self.sibling(rename.source)?;
        old.check_entry(rename.old_name, Some(rename.source))?;
        new.check_entry(rename.new_name, rename.target)?;
        if rename
            .target
            .is_some_and(|target| Arc::ptr_eq(target, rename.source))
        {
            return Ok(());
        }
        if let Some(target) = rename.target {
            self.check_target(rename, target)?;
        } else if rename.exchange {
            return Err(Errno::ENOENT);
        }
        if rename.new_dir.nlink() == 0 {
            return Err(Errno::ENOENT);
        }
        if !same_dir(rename) {
            let count = subdirs(rename);
            links_after(rename.new_dir.nlink(), count.new.max(0)).ok_or(Errno::EMLINK)?;
            links_after(rename.old_dir.nlink(), count.old.max(0)).ok_or(Errno::EMLINK)?;
        }
        let left = if rename.exchange {
            rename.target.cloned()
        } else {
            let whiteout = rename.whiteout.as_ref();
            whiteout
                .map(|w| make_inode(self.space(), w, Naming::Named))
                .transpose()?
        };
        old.move_names(new, rename, left)
    }

    /// # Errors
    /// `EXDEV` for another tree's inode; unless they are exchanged: `ENOTDIR`, `EISDIR`,
    /// `ENOTEMPTY`.
    fn check_target(&self, rename: &Rename<'_>, target: &Inode) -> Result<(), Errno> {
        let node = self.sibling(target)?;
        if rename.exchange {
            return Ok(());
        }
        match (rename.source.is_dir(), target.is_dir()) {
            (true, _) => node.check_empty(),
            (false, true) => Err(Errno::EISDIR),
            (false, false) => Ok(()),
        }
    }

    /// # Errors
    /// `ENOTDIR`; `ENOENT` or `EEXIST` if `name` does not mean `inode`.
    fn check_entry(&self, name: &[u8], inode: Option<&Arc<Inode>>) -> Result<(), Errno> {
        let entries = self.entries().ok_or(Errno::ENOTDIR)?.read();
        match (entries.get(name), inode) {
            (None, None) => Ok(()),
            (Some(found), Some(inode)) if Arc::ptr_eq(found, inode) => Ok(()),
            (Some(_), None) => Err(Errno::EEXIST),
            (_, Some(_)) => Err(Errno::ENOENT),
        }
    }

    /// Moves the names, and leaves `left` under the old one. It fails only if a parent is not a
    /// directory, before any change.
    fn move_names(
        &self,
        new: &Self,
        rename: &Rename<'_>,
        left: Option<Arc<Inode>>,
    ) -> Result<(), Errno> {
        let (Some(old_entries), Some(new_entries)) = (self.entries(), new.entries()) else {
            return Err(Errno::ENOTDIR);
        };
        let now = rename.now;
        let count = subdirs(rename);

        let mut entries = old_entries.write();
        let source = match left {
            Some(left) => entries.insert(rename.old_name, left),
            None => entries.remove(rename.old_name),
        };
        update_dir(rename.old_dir, &entries, count.old, now);
        drop(entries);

        let mut entries = new_entries.write();
        let replaced = entries.insert(rename.new_name, Arc::clone(rename.source));
        update_dir(rename.new_dir, &entries, count.new, now);
        drop(entries);

        rename.source.update(|a| a.ctime = now);
        if let Some(target) = rename.target {
            if rename.exchange {
                target.update(|a| a.ctime = now);
            } else {
                drop_link(target, now);
            }
        }
        drop(source);
        drop(replaced);
        Ok(())
    }
}

fn same_dir(rename: &Rename<'_>) -> bool {
    std::ptr::eq(rename.old_dir, rename.new_dir)
}
