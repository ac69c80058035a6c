// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names in a directory that is locked for a change.
//!
//! # Rules
//! R1. An entry is pinned before it is changed: only then it is the one that was found, and stays.
//! R2. An entry taken out of sight is buried when no lock is held: what goes with it may be much.

use super::Held;
use crate::dcache::dflag;
use crate::inode::{Found, Inode, Patience, flag};
use crate::mount::{Writing, mflag};
use crate::name::NameKey;
use crate::task::Core;
use openpath_abi::Errno;
use openpath_sync::Sample;
use std::sync::Arc;

impl<'t> Held<'t> {
    /// Begins a change through the mount this was reached through (`mnt_want_write`).
    ///
    /// # Errors
    /// `EROFS`: the mount or its superblock is read-only.
    pub(crate) fn begin_write(&self) -> Result<Writing<'_>, Errno> {
        let mount = self.mount()?;
        let writing = mount.begin_write();
        if self.mount_flags().has(mflag::READ_ONLY) || mount.sb.is_read_only() {
            return Err(Errno::EROFS);
        }
        Ok(writing)
    }

    /// Whether it is a name without an inode.
    pub(crate) fn is_negative(&self) -> bool {
        self.sample.has(dflag::NEGATIVE)
    }

    /// The entry `name` of this directory, negative or not; `None` if there is none in the cache
    /// and none in the backend. Held: the directory's names, exclusively.
    ///
    /// # Errors
    /// `ENOENT` (removed directory), `ENAMETOOLONG`, what the backend meets, `ENOMEM`.
    pub(crate) fn child(&self, name: &[u8]) -> Result<Option<Self>, Errno> {
        let dcache = &self.core.vfs.dcache;
        let key = NameKey::of(dcache.key, name, 0, name.len());
        let dir = self.spot().dentry;
        loop {
            let (child, sample) = match dcache.find_locked(dir, key, name) {
                Some(entry) => entry,
                None => match self.ask(name)? {
                    Some(inode) => dcache.add(dir, key, name, Some(inode))?,
                    None => return Ok(None),
                },
            };
            if let Some(held) = self.hold_child(child, sample) {
                return Ok(Some(held));
            }
            // Evicted in between: ask again.
            if !self.core.pins.has_room() {
                return Err(Errno::ENOMEM);
            }
        }
    }

    /// As [`Held::child`], for what must exist; a name that does not is cached as such.
    ///
    /// # Errors
    /// As [`Held::child`], and `ENOENT` if there is no such name.
    pub(crate) fn existing_child(&self, name: &[u8]) -> Result<Self, Errno> {
        match self.child(name)? {
            Some(child) if !child.is_negative() => Ok(child),
            Some(_) => Err(Errno::ENOENT),
            None => {
                self.note_absent(name);
                Err(Errno::ENOENT)
            }
        }
    }

    /// Caches that this directory has no `name`. Held: as for [`Held::child`].
    pub(crate) fn note_absent(&self, name: &[u8]) {
        self.cache_child(name, None);
    }

    /// Caches what `name` is, which has no entry. Held: as for [`Held::child`].
    pub(crate) fn cache_child(&self, name: &[u8], inode: Option<Arc<Inode>>) {
        let dcache = &self.core.vfs.dcache;
        let key = NameKey::of(dcache.key, name, 0, name.len());
        // Without room it is not cached, and the next walk asks the backend.
        drop(dcache.add(self.spot().dentry, key, name, inode));
    }

    fn hold_child(&self, child: u32, sample: Sample) -> Option<Self> {
        let core = self.core;
        let mount = self.spot().mount;
        let mount_was = core.vfs.mounts.at(mount).word().sample_steady();
        let pin = core.pins.try_pin(mount, mount_was, child, sample)?;
        Some(Self::new(core, pin, sample))
    }

    fn ask(&self, name: &[u8]) -> Result<Option<Arc<Inode>>, Errno> {
        let dir = self.inode()?;
        if dir.flags() & flag::DEAD != 0 {
            return Err(Errno::ENOENT);
        }
        if name.len() > self.mount()?.sb.options().name_max {
            return Err(Errno::ENAMETOOLONG);
        }
        match dir.shielded(|ops| ops.lookup(dir, name, Patience::Wait))? {
            Found::Inode(inode) => Ok(Some(inode)),
            Found::Absent => Ok(None),
            Found::WouldBlock => Err(Errno::EIO),
        }
    }

    /// Whether something is mounted on it in the namespace (`is_local_mountpoint`). Held: its own
    /// names, so that nothing is mounted meanwhile.
    pub(crate) fn is_mountpoint(&self) -> bool {
        let vfs = &self.core.vfs;
        let dentry = self.spot().dentry;
        let marked = vfs.dcache.at(dentry).word().sample().has(dflag::MOUNTED);
        marked && vfs.mounts.topology.lock().covered.contains_key(&dentry)
    }
}

/// A file this large, in units of 512 bytes, gives its room back as soon as its last name goes.
const LARGE_BLOCKS: u64 = 128;

/// Lets go of an entry that was taken out of sight: it is reclaimed when nobody uses it any more.
/// Held: no lock.
pub(super) fn bury(victim: Held<'_>) {
    let dcache = &victim.core.vfs.dcache;
    let dentry = victim.spot().dentry;
    let large = victim.inode().is_ok_and(|inode| {
        let attr = inode.attr();
        attr.nlink == 0 && attr.blocks >= LARGE_BLOCKS
    });
    drop(victim);
    dcache.bury(dentry);
    if large {
        dcache.collect();
    }
}

/// Runs `call`, and once more if there was no room before unlinked files gave theirs back.
///
/// # Errors
/// Those of `call`.
pub(super) fn with_room<R>(
    core: &Core,
    mut call: impl FnMut() -> Result<R, Errno>,
) -> Result<R, Errno> {
    match call() {
        Err(Errno::ENOSPC) => {
            core.vfs.dcache.collect();
            call()
        }
        other => other,
    }
}
