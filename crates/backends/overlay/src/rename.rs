// SPDX-License-Identifier: MIT OR Apache-2.0
//! Renames files, by one rename in the upper tree.
//!
//! # Kernel analogue
//! `ovl_rename`.
//!
//! # Rules
//! R1. An old name that a lower tree has leaves a whiteout: the one that hid the new name, or a new
//!     one.
//! R2. A guest's whiteout (`RENAME_WHITEOUT`) is a file. The rename leaves a whiteout of this
//!     overlay at the old name, which the guest's then replaces. A crash between the two leaves a
//!     complete rename without a guest's whiteout.
//! R3. A directory with lower directories gets a redirect, by which they are found from its new
//!     name. One without becomes opaque where the new name would show some.

use crate::copy_up::ALL;
use crate::layer::{create, lookup, rename};
use crate::marks::REDIRECT;
use crate::node::Node;
use crate::staged::{Destination, StagedFile, new_whiteout};
use crate::whiteout::{is_whiteout, stored_mode};
use openpath_abi::limits::PATH_MAX;
use openpath_abi::{Errno, Timespec};
use openpath_vfs::{Inode, NewInode, Rename, WaitMode};
use std::sync::Arc;

impl Node {
    /// As `InodeOps::rename`.
    ///
    /// # Errors
    /// In this order: `EINVAL` (a guest's whiteout, without `OverlayOptions::null_devices`),
    /// `EXDEV` (a directory with lower directories, and no redirects), `EROFS`, `ENOTEMPTY`, those
    /// of the layers.
    pub(crate) fn rename(&self, r: &Rename<'_>) -> Result<(), Errno> {
        if r.whiteout.is_some() && !self.fs.options.null_devices {
            return Err(Errno::EINVAL);
        }
        let (old, new) = (self.sibling(r.old_dir)?, self.sibling(r.new_dir)?);
        let source = self.sibling(r.source)?;
        let target = r.target.map(|target| self.sibling(target)).transpose()?;
        let swapped = target.filter(|_| r.exchange);
        for node in [Some(source), swapped].into_iter().flatten() {
            if !self.fs.options.redirects && node.is_dir() && !node.lowers().is_empty() {
                return Err(Errno::EXDEV);
            }
        }
        let replaced = target.filter(|_| !r.exchange);
        // As the kernel does it, which leaves other checks to the upper tree.
        let merged = replaced.filter(|node| node.is_dir() && !node.lowers().is_empty());
        merged.map_or(Ok(()), |node| node.check_empty())?;
        for node in [old, new, source] {
            node.copy_up(r.now, ALL)?;
        }
        let plain = replaced.filter(|node| node.is_dir() && node.lowers().is_empty());
        plain.map_or(Ok(()), |node| node.check_empty())?;
        if let Some(target) = swapped {
            target.copy_up(r.now, ALL)?;
        }
        // The source is already copied up, so its `copy_up_lock` is not needed.
        let locked = target.map(|target| target.copy_up_lock.lock_nested());
        if r.exchange {
            self.swap(r, (old, new), (source, target.ok_or(Errno::ENOENT)?))?;
        } else {
            self.replace(r, (old, new), source, replaced)?;
        }
        new.mark_impure(r.source, r.now)?;
        if let (Some(_), Some(target)) = (swapped, r.target) {
            old.mark_impure(target, r.now)?;
        }
        if let Some(target) = replaced
            && (target.is_dir() || target.upper().is_none())
        {
            target.note_lost_name();
        }
        drop(locked);
        for (node, inode) in [(old, r.old_dir), (new, r.new_dir)] {
            node.bump_version();
            node.copy_attr(inode);
        }
        source.copy_attr(r.source);
        if let (Some(node), Some(inode)) = (target, r.target) {
            node.copy_attr(inode);
        }
        Ok(())
    }

    fn swap(
        &self,
        r: &Rename<'_>,
        (old, new): (&Self, &Self),
        (source, target): (&Self, &Self),
    ) -> Result<(), Errno> {
        source.prepare_move(new, r.new_name, r.now)?;
        target.prepare_move(old, r.old_name, r.now)?;
        rename(&Rename {
            old_dir: upper_of(old)?,
            source: upper_of(source)?,
            new_dir: upper_of(new)?,
            target: Some(upper_of(target)?),
            ..*r
        })?;
        self.fs.sync(upper_of(new)?)?;
        self.fs.sync(upper_of(old)?)
    }

    fn replace(
        &self,
        r: &Rename<'_>,
        (old, new): (&Self, &Self),
        source: &Self,
        target: Option<&Arc<Self>>,
    ) -> Result<(), Errno> {
        let mut guests = r
            .whiteout
            .map(|new| self.stage_guests_whiteout(&new))
            .transpose()?;
        let leaves = guests.is_some() || old.is_in_lower(r.old_name)?;
        source.prepare_move(new, r.new_name, r.now)?;
        let (from, to) = (upper_of(old)?, upper_of(new)?);
        if let Some(target) = target
            && target.is_dir()
            && let Some(upper) = target.upper()
        {
            target.make_opaque_and_clear(upper, r.now)?;
        }
        let there = lookup(to, r.new_name, WaitMode::Wait)?;
        let whiteout = there.as_ref().filter(|there| is_whiteout(there));
        let moved = upper_of(source)?;
        let taken = self.fs.taken_at(moved)?;
        if let Some(there) = &there {
            self.fs
                .record_taken(moved, self.fs.taken_at(there)?, r.now)?;
        }
        // R1
        let exchange = whiteout.is_some();
        let left = (leaves && !exchange).then(|| new_whiteout(from, r.now));
        rename(&Rename {
            old_dir: from,
            source: moved,
            new_dir: to,
            target: there.as_ref(),
            exchange,
            whiteout: left,
            ..*r
        })?;
        if let (Some(whiteout), false) = (whiteout, leaves) {
            crate::layer::remove(from, r.old_name, whiteout, r.now)?;
        }
        if leaves
            && taken.is_some()
            && let Some(left) = lookup(from, r.old_name, WaitMode::Wait)?
        {
            self.fs.record_taken(&left, taken, r.now)?;
        }
        if let Some(guests) = &mut guests {
            // R2
            let ours = lookup(from, r.old_name, WaitMode::Wait)?;
            let (dir, name) = (from, r.old_name);
            guests.install(Destination { dir, name }, ours.as_ref(), false)?;
        }
        self.fs.sync(to)?;
        self.fs.sync(from)
    }

    /// Stages the whiteout that the guest leaves at the old name.
    fn stage_guests_whiteout(&self, new: &NewInode<'_>) -> Result<StagedFile<'_>, Errno> {
        let new = NewInode {
            mode: stored_mode(new.mode, new.rdev),
            ..*new
        };
        self.fs
            .stage(new.now, |work, name| create(work, name, &new))
    }

    /// Makes a moved file show the same under its new name in `dir` (R3).
    ///
    /// # Errors
    /// `EXDEV`: its lower path is too long for a redirect.
    fn prepare_move(&self, dir: &Self, name: &[u8], now: Timespec) -> Result<(), Errno> {
        if !self.is_dir() {
            return Ok(());
        }
        let upper = upper_of(self)?;
        if self.lowers().is_empty() {
            if dir.is_in_lower(name)? {
                return self.make_opaque(upper, now);
            }
            if !dir.lowers().is_empty() {
                // As for a new directory: whatever a lower tree gets later must not show.
                let _unless_it_cannot = self.make_opaque(upper, now);
            }
            return Ok(());
        }
        let to = [b"/", &self.lower_path()?[..]].concat();
        if to.len() >= PATH_MAX {
            return Err(Errno::EXDEV);
        }
        let marks = self.fs.options.marks;
        if marks.get(upper, REDIRECT)?.as_ref() == Some(&to) {
            return Ok(());
        }
        marks.set(upper, REDIRECT, &to, now)
    }
}

fn upper_of(node: &Node) -> Result<&Arc<Inode>, Errno> {
    node.upper().ok_or(Errno::EIO)
}

#[cfg(test)]
mod tests {
    use crate::node::Node;
    use crate::{OverlayFs, OverlayOptions};
    use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_WRONLY};
    use openpath_abi::rename::RENAME_EXCHANGE;
    use openpath_mem::{MemFs, MemOptions};
    use openpath_vfs::{Cred, Vfs};

    #[test]
    fn rename_and_exchange_sync_both_directories() {
        let memory = || MemFs::new(MemOptions::default());
        let tree = OverlayFs::new(OverlayOptions {
            lowers: vec![memory()],
            upper: Some(memory()),
            syncs: true,
            ..OverlayOptions::default()
        });
        let tree = tree.expect("an overlay");
        let vfs = Vfs::builder().build(tree.clone()).expect("a Vfs");
        let task = vfs.task(Cred::root()).expect("a task");
        for path in [&b"/a"[..], b"/b"] {
            task.mkdir(path, 0o755).expect("mkdir");
        }
        for path in [&b"/a/f"[..], b"/b/g"] {
            let fd = task.open(path, O_CREAT | O_WRONLY, 0o644);
            task.close(fd.expect("open")).expect("close");
        }
        let synced = || Node::of(tree.root()).expect("a node").fs.sync_count.get();
        for flags in [RENAME_EXCHANGE, openpath_abi::RenameFlags::empty()] {
            let before = synced();
            let renamed = task.renameat2(AT_FDCWD, b"/a/f", AT_FDCWD, b"/b/g", flags);
            assert_eq!(renamed, Ok(()));
            assert_eq!(synced() - before, 2, "{flags:?}");
        }
    }
}
