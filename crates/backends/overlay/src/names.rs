// SPDX-License-Identifier: MIT OR Apache-2.0
//! Creates, links and removes files in the upper tree, and replaces or leaves whiteouts where a
//! lower tree has the name.
//!
//! # Kernel analogue
//! `ovl_create_or_link`, `ovl_do_remove`.
//!
//! # Rules
//! R1. A file that replaces a whiteout is staged first; a directory becomes opaque before that.
//! R2. A removed name that a lower tree has leaves a whiteout, by the rename that removes it. One
//!     that only lower trees have may get it by one call.
//! R3. A directory without lower ones has no whiteouts, so a name that shows nothing is free there.

use crate::copy_up::ALL;
use crate::layer::{create, lock_both, lookup, with_lock};
use crate::marks::IMPURE;
use crate::merged_lookup::MergedLookup;
use crate::node::Node;
use crate::staged::Destination;
use crate::whiteout::{is_whiteout, stored_mode};
use openpath_abi::{Errno, Timespec, mode};
use openpath_vfs::{Inode, NewInode, WaitMode};
use std::sync::Arc;

impl Node {
    /// As `InodeOps::create`.
    ///
    /// # Errors
    /// In this order: `EPERM` (a character device 0:0, without `OverlayOptions::null_devices`),
    /// `EROFS`, `EEXIST`, those of the upper tree.
    pub(crate) fn create(
        &self,
        dir: &Inode,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<Arc<Inode>, Errno> {
        if mode::is_chr(new.mode) && new.rdev == 0 && !self.fs.options.null_devices {
            return Err(Errno::EPERM);
        }
        let new = &NewInode {
            mode: stored_mode(new.mode, new.rdev),
            ..*new
        };
        let is_dir = mode::is_dir(new.mode);
        let made = self.make_in_upper(name, new.now, is_dir, |dir, name| create(dir, name, new))?;
        let inode = self.fs.adopt(MergedLookup::of_upper(made))?;
        if is_dir && let Some(node) = Self::of(&inode) {
            node.is_upper_only.set(1);
        }
        self.copy_attr(dir);
        Ok(inode)
    }

    /// As `InodeOps::tmpfile`.
    pub(crate) fn create_tmpfile(&self, new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        let upper = self.copy_up(new.now, ALL)?;
        let made = with_lock(upper, |ops| ops.tmpfile(upper, new))?;
        self.fs.adopt(MergedLookup::of_upper(made))
    }

    /// As `InodeOps::link`.
    pub(crate) fn link(
        &self,
        dir: &Inode,
        name: &[u8],
        target: &Arc<Inode>,
        now: Timespec,
    ) -> Result<(), Errno> {
        let node = self.sibling(target)?;
        let file = node.copy_up(now, ALL)?;
        self.make_in_upper(name, now, false, |dir, name| {
            let _locked = lock_both(dir, file);
            dir.ops().link(dir, name, file, now)?;
            Ok(Arc::clone(file))
        })?;
        self.mark_impure(target, now)?;
        node.copy_attr(target);
        self.copy_attr(dir);
        Ok(())
    }

    /// Makes a file in the upper tree under a name that shows nothing.
    fn make_in_upper(
        &self,
        name: &[u8],
        now: Timespec,
        is_dir: bool,
        make: impl FnOnce(&Arc<Inode>, &[u8]) -> Result<Arc<Inode>, Errno>,
    ) -> Result<Arc<Inode>, Errno> {
        let dir = self.copy_up(now, ALL)?;
        let there = match self.is_upper_only.get() {
            // R3
            1 => None,
            _ => lookup(dir, name, WaitMode::Wait)?,
        };
        let made = match there {
            None => {
                let made = make(dir, name)?;
                if is_dir && !self.lowers().is_empty() {
                    // There is nothing to hide now; whatever a lower tree gets later must not show.
                    let _unless_it_cannot = self.make_opaque(&made, now);
                }
                made
            }
            Some(whiteout) if is_whiteout(&whiteout) => {
                let mut staged = self.fs.stage(now, make)?;
                let made = Arc::clone(staged.inode.as_ref().ok_or(Errno::EIO)?);
                if is_dir {
                    // R1
                    self.make_opaque(&made, now)?;
                }
                self.fs
                    .record_taken(&made, self.fs.taken_at(&whiteout)?, now)?;
                staged.install(Destination { dir, name }, Some(&whiteout), is_dir)?;
                made
            }
            Some(_) => return Err(Errno::EEXIST),
        };
        self.bump_version();
        Ok(made)
    }

    /// Marks this directory of the upper tree if a file in it shows another number than its own.
    pub(crate) fn mark_impure(&self, file: &Arc<Inode>, now: Timespec) -> Result<(), Errno> {
        let (Some(dir), Some(node)) = (self.upper(), Self::of(file)) else {
            return Ok(());
        };
        let own = node.upper().map(|upper| self.fs.number(None, upper.ino()));
        if self.impure.get() == 0 && own != Some(file.ino()) {
            self.fs.options.marks.set(dir, IMPURE, b"y", now)?;
            self.impure.set(1);
        }
        Ok(())
    }

    /// As `InodeOps::unlink` and `InodeOps::rmdir`.
    ///
    /// # Errors
    /// `ENOTEMPTY`, `EROFS`, those of the upper tree.
    pub(crate) fn remove(
        &self,
        dir: &Inode,
        name: &[u8],
        victim: &Arc<Inode>,
        now: Timespec,
    ) -> Result<(), Errno> {
        let node = self.sibling(victim)?;
        if node.is_dir() {
            node.check_empty()?;
        }
        let into = self.copy_up(now, ALL)?;
        let hides = self.is_in_lower(name)?;
        let locked = node.copy_up_lock.lock_nested();
        let destination = Destination { dir: into, name };
        match node.upper() {
            Some(upper) => {
                if node.is_dir() {
                    node.make_opaque_and_clear(upper, now)?;
                }
                if hides {
                    // R2
                    let mut staged = self.fs.stage_whiteout(now)?;
                    if let Some(whiteout) = &staged.inode {
                        self.fs
                            .record_taken(whiteout, self.fs.taken_at(upper)?, now)?;
                    }
                    staged.install(destination, Some(upper), node.is_dir())?;
                } else {
                    self.remove_from_upper(destination, upper, now)?;
                }
                if node.is_dir() {
                    node.note_lost_name();
                }
            }
            None if hides => {
                self.fs.put_whiteout(destination, now)?;
                node.note_lost_name();
            }
            // A lower layer lost it by a change of others.
            None => return Err(Errno::ESTALE),
        }
        drop(locked);
        self.bump_version();
        node.copy_attr(victim);
        self.copy_attr(dir);
        Ok(())
    }
}
