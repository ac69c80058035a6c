// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the steps that calls on names share: write access to the mount, lookups in a locked
//! directory, a look for mounts on an entry, and the end of a removed entry.
//!
//! # Rules
//! R1. An unhashed entry is queued to be freed when no lock is held: its end may take many steps.

use super::PinnedPath;
use crate::inode::flag;
use crate::object::dflag;
use crate::path::PathIds;
use crate::task::WriteAccess;
use crate::walk::{Disowned, LockedDir};
use openpath_abi::Errno;

impl PinnedPath<'_> {
    /// Begins a change through the mount this was reached through (`mnt_want_write`).
    ///
    /// # Errors
    /// `EROFS`: the mount or its superblock is read-only.
    pub(crate) fn begin_write(&self) -> Result<WriteAccess<'_>, Errno> {
        self.core.want_write(self.path_ids().mount, self.mount()?)
    }

    /// Whether it is a name without an inode.
    pub(crate) fn is_negative(&self) -> bool {
        self.sample.has(dflag::NEGATIVE)
    }

    /// This directory, whose names the caller has locked after it made `disowned`.
    pub(crate) fn locked<'a>(&'a self, disowned: &'a Disowned<'_>) -> Result<LockedDir<'a>, Errno> {
        Ok(LockedDir {
            core: self.core,
            at: self.path_ids(),
            inode: self.inode()?,
            sb: &self.mount()?.sb,
            disowned,
        })
    }

    /// The entry `name` of this directory, negative or not; `None` if there is none in the cache
    /// and none in the backend. Held: the directory's names, exclusively.
    ///
    /// # Errors
    /// As [`LockedDir::find`].
    pub(crate) fn child(
        &self,
        name: &[u8],
        disowned: &Disowned<'_>,
    ) -> Result<Option<Self>, Errno> {
        let found = self.locked(disowned)?.find(name)?;
        Ok(found.map(|(pin, sample)| Self::new(self.core, pin, sample)))
    }

    /// The errno for making `name` in this directory, if a rule of the mount says that it is
    /// absent.
    fn absent_errno(&self, name: &[u8]) -> Result<Option<Errno>, Errno> {
        let PathIds { mount, dentry } = self.path_ids();
        Ok(self.core.absent(mount, self.mount()?, dentry, name))
    }

    /// As [`PinnedPath::child`], for a name that is to be made or replaced.
    ///
    /// # Errors
    /// That of the mount's rules, if the name is absent by them; then as [`PinnedPath::child`].
    pub(crate) fn new_child(
        &self,
        name: &[u8],
        disowned: &Disowned<'_>,
    ) -> Result<Option<Self>, Errno> {
        match self.absent_errno(name)? {
            Some(errno) => Err(errno),
            None => self.child(name, disowned),
        }
    }

    /// As [`PinnedPath::child`], for a name that must exist; a missing one is cached as such.
    ///
    /// # Errors
    /// As [`PinnedPath::child`], and `ENOENT` if there is no such name.
    pub(crate) fn existing_child(
        &self,
        name: &[u8],
        disowned: &Disowned<'_>,
    ) -> Result<Self, Errno> {
        if self.absent_errno(name)?.is_some() {
            return Err(Errno::ENOENT);
        }
        let seen = self.core.vfs.dcache.seen(self.path_ids().dentry);
        match self.child(name, disowned)? {
            Some(child) if !child.is_negative() => Ok(child),
            Some(_) => Err(Errno::ENOENT),
            None => {
                self.locked(disowned)?.note(name, None, seen);
                Err(Errno::ENOENT)
            }
        }
    }

    /// Whether something is mounted on it in the namespace (`is_local_mountpoint`). Held: its own
    /// names, so that nothing is mounted meanwhile.
    pub(crate) fn is_mountpoint(&self) -> bool {
        let vfs = &self.core.vfs;
        let dentry = self.path_ids().dentry;
        let marked = vfs.dcache.at(dentry).word().sample().has(dflag::MOUNTED);
        let namespace = self.core.namespace_id();
        marked
            && vfs
                .mounts
                .topology
                .lock()
                .is_mountpoint_in(namespace, dentry)
    }
}

/// A file this large, in units of 512 bytes, gives its space back as soon as its last name goes.
const LARGE_BLOCKS: u64 = 128;

/// Buries an unhashed entry. Mounts of other namespaces on it go at once. The entry goes after its
/// last user, or at once if its inode is watched. Held: no lock (R1).
pub(super) fn defer_free(victim: PinnedPath<'_>) {
    let dcache = &victim.core.vfs.dcache;
    let dentry = victim.path_ids().dentry;
    let at_once = victim.inode().is_ok_and(|inode| {
        let attr = inode.attr();
        let watched = inode.flags() & flag::WATCHED != 0;
        watched || attr.nlink == 0 && attr.blocks >= LARGE_BLOCKS
    });
    if dcache.at(dentry).word().sample().has(dflag::MOUNTED) {
        victim.core.vfs.detach_mounts(dentry);
    }
    drop(victim);
    dcache.defer_free(dentry);
    if at_once {
        dcache.collect();
    }
}
