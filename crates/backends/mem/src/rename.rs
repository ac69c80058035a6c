// SPDX-License-Identifier: MIT OR Apache-2.0
//! Renames: within a directory and across, replacing, exchanging, leaving a whiteout.
//!
//! # Kernel analogue
//! `shmem_rename2`. Both directories' data and inode change times move, and the inode change time
//! of everything that was given or lost a name.
//!
//! # Rules
//! R1. All that can fail is done first. The core keeps both directories locked meanwhile, so what
//!     was found then still holds; each directory is changed under its own lock, one after the
//!     other.

use crate::dir::{changed, links_after, lose_name};
use crate::make::{Names, make};
use crate::node::Node;
use openpath_abi::Errno;
use openpath_vfs::{Inode, Rename};
use std::sync::Arc;

/// What becomes of the number of subdirectories.
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
        old.must_have(rename.old_name, Some(rename.source))?;
        new.must_have(rename.new_name, rename.target)?;
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
        if !same(rename) {
            let count = subdirs(rename);
            links_after(rename.new_dir.nlink(), count.new.max(0)).ok_or(Errno::EMLINK)?;
            links_after(rename.old_dir.nlink(), count.old.max(0)).ok_or(Errno::EMLINK)?;
        }
        let left = if rename.exchange {
            rename.target.cloned()
        } else {
            let whiteout = rename.whiteout.as_ref();
            whiteout
                .map(|w| make(self.space(), w, Names::One))
                .transpose()?
        };
        old.carry_out(new, rename, left)
    }

    /// # Errors
    /// `EXDEV` for a foreign one; unless they are exchanged: `ENOTDIR`, `EISDIR`, `ENOTEMPTY`.
    fn check_target(&self, rename: &Rename<'_>, target: &Inode) -> Result<(), Errno> {
        let node = self.sibling(target)?;
        if rename.exchange {
            return Ok(());
        }
        match (rename.source.is_dir(), target.is_dir()) {
            (true, _) => node.must_be_empty(),
            (false, true) => Err(Errno::EISDIR),
            (false, false) => Ok(()),
        }
    }

    /// # Errors
    /// `ENOTDIR`; `ENOENT` or `EEXIST` if `name` does not mean `inode`.
    fn must_have(&self, name: &[u8], inode: Option<&Arc<Inode>>) -> Result<(), Errno> {
        let entries = self.entries().ok_or(Errno::ENOTDIR)?.read();
        match (entries.get(name), inode) {
            (None, None) => Ok(()),
            (Some(found), Some(inode)) if Arc::ptr_eq(found, inode) => Ok(()),
            (Some(_), None) => Err(Errno::EEXIST),
            (_, Some(_)) => Err(Errno::ENOENT),
        }
    }

    /// Moves the names, with `left` under the old one. Nothing is refused here but what is not a
    /// directory, before anything is changed.
    fn carry_out(
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
            Some(left) => entries.put(rename.old_name, left),
            None => entries.remove(rename.old_name),
        };
        changed(rename.old_dir, &entries, count.old, now);
        drop(entries);

        let mut entries = new_entries.write();
        let replaced = entries.put(rename.new_name, Arc::clone(rename.source));
        changed(rename.new_dir, &entries, count.new, now);
        drop(entries);

        rename.source.update(|a| a.ctime = now);
        if let Some(target) = rename.target {
            if rename.exchange {
                target.update(|a| a.ctime = now);
            } else {
                lose_name(target, now);
            }
        }
        drop(source);
        drop(replaced);
        Ok(())
    }
}

fn same(rename: &Rename<'_>) -> bool {
    std::ptr::eq(rename.old_dir, rename.new_dir)
}
