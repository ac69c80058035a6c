// SPDX-License-Identifier: MIT OR Apache-2.0
//! Removes names: unlink(2), rmdir(2), unlinkat(2).
//!
//! # Kernel analogue
//! `do_unlinkat`, `do_rmdir`, `vfs_unlink`, `vfs_rmdir`.
//!
//! # Locks
//! The directory, then the file removed from it: no mount comes on it meanwhile, and no name into
//! it.

use super::child::defer_free;
use super::rename::LockedFailure;
use super::{Parent, PinnedPath, resolve_parent};
use crate::dcache::Dcache;
use crate::file::PathStart;
use crate::file_ops::Fd;
use crate::inode::{Inode, flag};
use crate::perm;
use crate::task::{Core, Task};
use crate::walk::{Disowned, LastKind};
use openpath_abi::fcntl::AT_REMOVEDIR;
use openpath_abi::{AtFlags, Errno};
use std::sync::Arc;

impl Task {
    /// Removes a name that is not a directory. Linux: unlink(2).
    ///
    /// # Errors
    /// As [`Task::unlinkat`].
    pub fn unlink(&self, path: &[u8]) -> Result<(), Errno> {
        unlink(&self.core, PathStart::Cwd, path, 0)
    }

    /// Removes an empty directory. Linux: rmdir(2).
    ///
    /// # Errors
    /// As [`Task::unlinkat`] with `AT_REMOVEDIR`.
    pub fn rmdir(&self, path: &[u8]) -> Result<(), Errno> {
        rmdir(&self.core, PathStart::Cwd, path, 0)
    }

    /// Removes a name: an empty directory's with `AT_REMOVEDIR`, else any other. Linux:
    /// unlinkat(2).
    ///
    /// # Errors
    /// In this order:
    /// * `EINVAL` (flags); `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk;
    /// * for a last component that is no name `EISDIR`, or with `AT_REMOVEDIR` `EINVAL` (`.`),
    ///   `ENOTEMPTY` (`..`), `EBUSY` (`/`);
    /// * `EROFS`; `ENOENT`, `ENAMETOOLONG`;
    /// * without `AT_REMOVEDIR`, for a slash after the name, `EISDIR` or `ENOTDIR`;
    /// * `EACCES`, `EPERM` (sticky directory, append-only or immutable file or directory);
    /// * `ENOTDIR`, `EISDIR`; `EBUSY` (it is covered by a mount, or a rule keeps it in place);
    /// * `EINTR` (while it waited for a delegation); `ENOTEMPTY` and others that the backend meets.
    pub fn unlinkat(&self, dirfd: Fd, path: &[u8], flags: AtFlags) -> Result<(), Errno> {
        self.unlinkat_by(dirfd, path, flags, 0)
    }

    /// As [`Task::unlinkat`], walking with these flags besides.
    pub(super) fn unlinkat_by(
        &self,
        dirfd: Fd,
        path: &[u8],
        flags: AtFlags,
        lookup: u32,
    ) -> Result<(), Errno> {
        let base = self.core.base(dirfd);
        let at = base.at();
        match flags {
            AT_REMOVEDIR => rmdir(&self.core, at, path, lookup),
            none if none.is_empty() => unlink(&self.core, at, path, lookup),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// The file that must go, and its directory. Held: the directory's names.
#[derive(Clone, Copy)]
struct Victim<'a, 't> {
    parent: &'a Parent<'t>,
    dir: &'a Inode,
    entry: &'a PinnedPath<'t>,
}

fn unlink(core: &Core, at: PathStart<'_>, path: &[u8], lookup: u32) -> Result<(), Errno> {
    let parent = resolve_parent(core, at, path, lookup)?;
    if parent.last.kind != LastKind::Norm {
        return Err(Errno::EISDIR);
    }
    let _writing = parent.dir.begin_write()?;
    let take = |victim: &Victim<'_, '_>| {
        let inode = victim.entry.inode()?;
        if victim.parent.last.slash {
            // The lookup asked for a directory; this reports the type that it found.
            return Err(if inode.is_dir() {
                Errno::EISDIR
            } else {
                Errno::ENOTDIR
            });
        }
        unlink_locked(core, victim, inode)
    };
    let left = core.past_delegations(|| remove(core, &parent, take))?;
    left.map(defer_free);
    Ok(())
}

fn rmdir(core: &Core, at: PathStart<'_>, path: &[u8], lookup: u32) -> Result<(), Errno> {
    let parent = resolve_parent(core, at, path, lookup)?;
    match parent.last.kind {
        LastKind::Norm => {}
        LastKind::Dot => return Err(Errno::EINVAL),
        LastKind::DotDot => return Err(Errno::ENOTEMPTY),
        LastKind::Root => return Err(Errno::EBUSY),
    }
    let _writing = parent.dir.begin_write()?;
    loop {
        let take = |victim: &Victim<'_, '_>| rmdir_locked(core, victim);
        match core.past_delegations(|| remove(core, &parent, take)) {
            Ok(left) => {
                left.map(defer_free);
                return Ok(());
            }
            Err(LockedFailure::Refused(errno)) => return Err(errno),
            Err(LockedFailure::Busy(inode)) => inode.wait_for_names(),
        }
    }
}

/// Finds the file, and lets `take` remove it and its name; the entry to be queued for reclaim.
fn remove<'t, E: From<Errno>>(
    core: &'t Core,
    parent: &Parent<'t>,
    take: impl FnOnce(&Victim<'_, 't>) -> Result<(), E>,
) -> Result<Option<PinnedPath<'t>>, E> {
    let dir = parent.dir.inode()?;
    let disowned = Disowned::new(core);
    let names = dir.lock_names();
    let entry = parent.dir.existing_child(&parent.name, &disowned)?;
    take(&Victim {
        parent,
        dir,
        entry: &entry,
    })?;
    core.vfs.dcache.unhash(entry.path_ids().dentry);
    let left = tell_removed(core, parent, dir, entry);
    drop(names);
    Ok(left)
}

/// Reports the removal of a name, to the marks of its inode first; the entry, unless that was the
/// end of it. Held: the directory's names, so that this event comes before those of a new file of
/// that name.
#[inline(always)]
fn tell_removed<'t>(
    core: &Core,
    parent: &Parent<'_>,
    dir: &Inode,
    entry: PinnedPath<'t>,
) -> Option<PinnedPath<'t>> {
    if !core.vfs.notify.is_active() {
        return Some(entry);
    }
    let inode = entry.inode();
    let (watched, is_dir) = inode.map_or((false, false), |inode| {
        (inode.flags() & flag::WATCHED != 0, inode.is_dir())
    });
    let left = if watched {
        defer_free(entry);
        None
    } else {
        Some(entry)
    };
    core.vfs.tell_deleted(dir, &parent.name, is_dir);
    left
}

/// Removes a name with the directory locked (`vfs_unlink`).
fn unlink_locked(core: &Core, victim: &Victim<'_, '_>, inode: &Inode) -> Result<(), Errno> {
    let Victim { parent, dir, entry } = *victim;
    let sb = &parent.dir.mount()?.sb;
    perm::may_delete(&core.cred(), sb, dir, inode, false)?;
    let _file = inode.lock_names_nested();
    if entry.is_mountpoint() || parent.has_to_stay(core)? {
        return Err(Errno::EBUSY);
    }
    core.try_break(dir)?;
    core.try_break(inode)?;
    let shared = entry.share_inode()?;
    let now = core.vfs.clock.now();
    dir.shielded(|ops| ops.unlink(dir, &parent.name, &shared, now))?;
    core.vfs.tell_links_changed(inode);
    Ok(())
}

/// Removes a directory with its parent locked (`vfs_rmdir`).
fn rmdir_locked(core: &Core, victim: &Victim<'_, '_>) -> Result<(), LockedFailure> {
    let Victim { parent, dir, entry } = *victim;
    let sb = &parent.dir.mount()?.sb;
    let inode = entry.share_inode()?;
    perm::may_delete(&core.cred(), sb, dir, &inode, true)?;
    let _names = match sb.is_ours_alone() {
        true => inode.lock_names_nested(),
        false => match inode.try_lock_names() {
            Some(names) => names,
            None => return Err(LockedFailure::Busy(Arc::clone(&inode))),
        },
    };
    if entry.is_mountpoint() || parent.has_to_stay(core)? {
        return Err(Errno::EBUSY.into());
    }
    core.try_break(dir)?;
    let now = core.vfs.clock.now();
    dir.shielded(|ops| ops.rmdir(dir, &parent.name, &inode, now))?;
    remove_dir_entry(core, entry, &inode, Dcache::unhash);
    Ok(())
}

/// Lets `take` unhash a directory that the backend has just removed or replaced. Held: the names of
/// its parent and its own.
pub(super) fn remove_dir_entry(
    core: &Core,
    entry: &PinnedPath<'_>,
    inode: &Inode,
    take: impl FnOnce(&Dcache, u32),
) {
    let dcache = &core.vfs.dcache;
    let dentry = entry.path_ids().dentry;
    let _changed = dcache.begin_dir_change(dentry);
    // First of all: every lookup in it fails from now on.
    inode.set_flags(flag::DEAD);
    take(dcache, dentry);
    dcache.forget_children(dentry);
}
