// SPDX-License-Identifier: MIT OR Apache-2.0
//! Renames, carried out in the upper tree by one rename.
//!
//! # Kernel analogue
//! `ovl_rename`.
//!
//! # Rules
//! R1. What has something beneath its old name leaves a whiteout: the one that hid what is beneath
//!     the new name, or a new one.
//! R2. A guest's whiteout (`RENAME_WHITEOUT`) is a file. The rename leaves a whiteout of this
//!     overlay at the old name, which the guest's then replaces. A crash between the two leaves a
//!     complete rename without a guest's whiteout.
//! R3. A directory with others beneath gets a redirect, by which they are found from its new name.
//!     One without becomes opaque where the new name would show some.

use crate::copy_up::ALL;
use crate::layer::{look, make, rename};
use crate::marks::REDIRECT;
use crate::node::Node;
use crate::staged::{Aside, Spot, whiteout_of};
use crate::whiteout::{is_whiteout, stored_mode};
use openpath_abi::limits::PATH_MAX;
use openpath_abi::{Errno, Timespec};
use openpath_vfs::{Inode, NewInode, Patience, Rename};
use std::sync::Arc;

impl Node {
    /// As `InodeOps::rename`.
    ///
    /// # Errors
    /// In this order: `EINVAL` (a guest's whiteout, without `OverlayOptions::null_devices`),
    /// `EXDEV` (a directory with others beneath, and no redirects), `EROFS`, `ENOTEMPTY`, what the
    /// layers meet.
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
        // As the kernel does it, which leaves others to the upper tree.
        let merged = replaced.filter(|node| node.is_dir() && !node.lowers().is_empty());
        merged.map_or(Ok(()), |node| node.must_be_empty())?;
        for node in [old, new, source] {
            node.raise(r.now, ALL)?;
        }
        let plain = replaced.filter(|node| node.is_dir() && node.lowers().is_empty());
        plain.map_or(Ok(()), |node| node.must_be_empty())?;
        if let Some(target) = swapped {
            target.raise(r.now, ALL)?;
        }
        // The source has nothing left to be copied up, so its `doing` matters to nobody.
        let doing = target.map(|target| target.doing.lock_nested());
        if r.exchange {
            self.swap(r, (old, new), (source, target.ok_or(Errno::ENOENT)?))?;
        } else {
            self.replace(r, (old, new), source, replaced)?;
        }
        new.note_impure(r.source, r.now)?;
        if let (Some(_), Some(target)) = (swapped, r.target) {
            old.note_impure(target, r.now)?;
        }
        if let Some(target) = replaced
            && (target.is_dir() || target.upper().is_none())
        {
            target.lose_name();
        }
        drop(doing);
        for (node, inode) in [(old, r.old_dir), (new, r.new_dir)] {
            node.note_change();
            node.settle(inode);
        }
        source.settle(r.source);
        if let (Some(node), Some(inode)) = (target, r.target) {
            node.settle(inode);
        }
        Ok(())
    }

    fn swap(
        &self,
        r: &Rename<'_>,
        (old, new): (&Self, &Self),
        (source, target): (&Self, &Self),
    ) -> Result<(), Errno> {
        source.prepare(new, r.new_name, r.now)?;
        target.prepare(old, r.old_name, r.now)?;
        rename(&Rename {
            old_dir: raised(old)?,
            source: raised(source)?,
            new_dir: raised(new)?,
            target: Some(raised(target)?),
            ..*r
        })?;
        self.fs.sync(raised(new)?)?;
        self.fs.sync(raised(old)?)
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
            .map(|new| self.guests_whiteout(&new))
            .transpose()?;
        let leaves = guests.is_some() || old.has_beneath(r.old_name)?;
        source.prepare(new, r.new_name, r.now)?;
        let (from, to) = (raised(old)?, raised(new)?);
        if let Some(target) = target
            && target.is_dir()
            && let Some(upper) = target.upper()
        {
            target.lay_bare(upper, r.now)?;
        }
        let there = look(to, r.new_name, Patience::Wait)?;
        let whiteout = there.as_ref().filter(|there| is_whiteout(there));
        let moved = raised(source)?;
        let taken = self.fs.taken(moved)?;
        if let Some(there) = &there {
            self.fs.note_taken(moved, self.fs.taken(there)?, r.now)?;
        }
        // R1
        let exchange = whiteout.is_some();
        let left = (leaves && !exchange).then(|| whiteout_of(from, r.now));
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
            && let Some(left) = look(from, r.old_name, Patience::Wait)?
        {
            self.fs.note_taken(&left, taken, r.now)?;
        }
        if let Some(guests) = &mut guests {
            // R2
            let ours = look(from, r.old_name, Patience::Wait)?;
            let (dir, name) = (from, r.old_name);
            guests.put(Spot { dir, name }, ours.as_ref(), false)?;
        }
        self.fs.sync(to)?;
        self.fs.sync(from)
    }

    /// Makes aside what the guest leaves at the old name.
    fn guests_whiteout(&self, new: &NewInode<'_>) -> Result<Aside<'_>, Errno> {
        let new = NewInode {
            mode: stored_mode(new.mode, new.rdev),
            ..*new
        };
        self.fs.aside(new.now, |work, name| make(work, name, &new))
    }

    /// Sees that what moves shows the same where it comes to be (R3): this
    /// name in `dir`.
    ///
    /// # Errors
    /// `EXDEV`: its path beneath is too long to be noted.
    fn prepare(&self, dir: &Self, name: &[u8], now: Timespec) -> Result<(), Errno> {
        if !self.is_dir() {
            return Ok(());
        }
        let upper = raised(self)?;
        if self.lowers().is_empty() {
            if dir.has_beneath(name)? {
                return self.hide_beneath(upper, now);
            }
            if !dir.lowers().is_empty() {
                // As for a directory made there: should there be something later, it is not ours.
                let _unless_it_cannot = self.hide_beneath(upper, now);
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

fn raised(node: &Node) -> Result<&Arc<Inode>, Errno> {
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
        let synced = || Node::of(tree.root()).expect("a node").fs.synced.get();
        for flags in [RENAME_EXCHANGE, 0] {
            let before = synced();
            let renamed = task.renameat2(AT_FDCWD, b"/a/f", AT_FDCWD, b"/b/g", flags);
            assert_eq!(renamed, Ok(()));
            assert_eq!(synced() - before, 2, "{flags}");
        }
    }
}
