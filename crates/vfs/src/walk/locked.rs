// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks names up in a directory that is locked for a change, and enters new names of the directory
//! in the cache (`lookup_one_qstr_excl`).
//!
//! # Rules
//! R1. An entry is pinned before it is used: only then is it certain to be the one that was found,
//!     and to stay. Nothing else keeps an unused entry from eviction.
//! R2. An entry that must be confirmed is looked up again, unless it is covered. A covered one can
//!     only go where no lock is held, and cannot be changed anyway.
//! R3. An entry with another meaning is freed, and what is mounted below it detached, when no lock
//!     is held: the caller makes a [`Disowned`] before it locks the directory.

use super::PathIds;
use super::confirm::Revalidated;
use crate::dcache::InvalidationCount;
use crate::inode::{Inode, WaitMode, flag};
use crate::instance::Shared;
use crate::name::NameKey;
use crate::object::dflag;
use crate::superblock::SuperBlock;
use crate::task::Core;
use crate::tenant::count;
use crate::tenant_lru::Kind;
use openpath_abi::Errno;
use openpath_sync::{Pin, Sample};
use std::cell::RefCell;
use std::sync::Arc;

/// Entries that had another meaning when a directory was locked: they are buried when this is
/// dropped. Held then: no lock (R3).
pub(crate) struct Disowned<'a> {
    vfs: &'a Shared,
    entries: RefCell<Vec<u32>>,
}

impl<'a> Disowned<'a> {
    /// None so far.
    #[inline(always)]
    pub(crate) fn new(core: &'a Core) -> Self {
        Self {
            vfs: &core.vfs,
            entries: RefCell::default(),
        }
    }

    #[cold]
    fn bury(&mut self) {
        for entry in self.entries.get_mut().drain(..) {
            self.vfs.defer_free_disowned(entry);
        }
    }
}

impl Drop for Disowned<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.entries.get_mut().is_empty() {
            self.bury();
        }
    }
}

/// A directory whose names are held exclusively, and that is pinned.
#[derive(Clone, Copy)]
pub(crate) struct LockedDir<'a> {
    pub(crate) core: &'a Core,
    pub(crate) at: PathIds,
    pub(crate) inode: &'a Inode,
    pub(crate) sb: &'a SuperBlock,
    /// Made before the names were locked (R3).
    pub(crate) disowned: &'a Disowned<'a>,
}

impl LockedDir<'_> {
    /// The entry `name`, negative or not; `None` if there is none in the cache and none in the
    /// backend.
    ///
    /// # Errors
    /// `ENOENT` (removed directory), `ENAMETOOLONG`, what the backend meets, `ENOMEM`.
    pub(crate) fn find(self, name: &[u8]) -> Result<Option<(Pin, Sample)>, Errno> {
        let dcache = &self.core.vfs.dcache;
        let key = NameKey::of(dcache.key, name, 0, name.len());
        loop {
            let cached = dcache.find_locked(self.at.dentry, key, name);
            let (child, sample) = match cached {
                // R2
                Some((child, sample))
                    if sample.has(dflag::REVALIDATE) && !sample.has(dflag::MOUNTED) =>
                {
                    match self.confirm(name, child, sample)? {
                        Some(entry) => entry,
                        None => continue,
                    }
                }
                Some(entry) => {
                    dcache.at(entry.0).touch();
                    entry
                }
                None => {
                    let seen = dcache.seen(self.at.dentry);
                    match self.ask(name)? {
                        Some(inode) => {
                            self.core.room(Kind::Positive)?;
                            self.enter(key, name, Some(inode), seen)?
                        }
                        None => return Ok(None),
                    }
                }
            };
            if let Some(pinned) = self.pin(child, sample)? {
                return Ok(Some(pinned));
            }
        }
    }

    /// Confirms the entry of a name; `None` if it had another meaning, and is gone.
    ///
    /// # Errors
    /// What the backend meets.
    #[cold]
    fn confirm(self, name: &[u8], child: u32, was: Sample) -> Result<Option<(u32, Sample)>, Errno> {
        let core = self.core;
        core.count(count::MISSES);
        let inode = core.ask_backend(self.inode, name, WaitMode::Wait)?;
        match core.compare(child, was, inode.as_deref()) {
            Revalidated::Same(sample) => Ok(Some((child, sample))),
            Revalidated::Moved => Ok(None),
            Revalidated::Other => {
                self.disowned.entries.borrow_mut().push(child);
                Ok(None)
            }
        }
    }

    /// Tells what the cache knows of a name.
    #[cold]
    pub(crate) fn tell(self, name: &[u8]) {
        if self.core.is_told() {
            let dcache = &self.core.vfs.dcache;
            let key = NameKey::of(dcache.key, name, 0, name.len());
            self.core
                .tell_name(name, dcache.known(self.at.dentry, key, name));
        }
    }

    /// Enters `name`, which had no entry, with the new inode, made after `seen`.
    ///
    /// # Errors
    /// As [`LockedDir::find`].
    pub(crate) fn add(
        self,
        name: &[u8],
        inode: Arc<Inode>,
        seen: InvalidationCount,
    ) -> Result<(Pin, Sample), Errno> {
        let dcache = &self.core.vfs.dcache;
        let key = NameKey::of(dcache.key, name, 0, name.len());
        let (child, sample) = self.enter(key, name, Some(inode), seen)?;
        match self.pin(child, sample)? {
            Some(pinned) => Ok(pinned),
            None => self.find(name)?.ok_or(Errno::ENOENT),
        }
    }

    /// Caches the backend's answer for `name`, which has no entry, unless the directory is complete
    /// anyway; the answer came after `seen`.
    pub(crate) fn note(self, name: &[u8], inode: Option<Arc<Inode>>, seen: InvalidationCount) {
        let dcache = &self.core.vfs.dcache;
        if inode.is_none() && dcache.is_complete(self.at.dentry) {
            return;
        }
        let key = NameKey::of(dcache.key, name, 0, name.len());
        // Without room it is not cached, and the next walk asks the backend.
        let kind = match inode {
            Some(_) => Kind::Positive,
            None => Kind::Negative,
        };
        if self.core.room(kind).is_ok() {
            let _cached = self.enter(key, name, inode, seen);
        }
    }

    fn enter(
        self,
        key: NameKey,
        name: &[u8],
        inode: Option<Arc<Inode>>,
        seen: InvalidationCount,
    ) -> Result<(u32, Sample), Errno> {
        let lru = self.core.tenant();
        let dcache = &self.core.vfs.dcache;
        dcache.add(lru.lru(), self.at.dentry, key, name, inode, seen)
    }

    /// Pins an entry as it was found; `None` if it was evicted in between.
    fn pin(self, child: u32, sample: Sample) -> Result<Option<(Pin, Sample)>, Errno> {
        let core = self.core;
        let mount_was = core.vfs.mounts.at(self.at.mount).word().sample_steady();
        let pin = core.pins.try_pin(self.at.mount, mount_was, child, sample);
        if pin.is_none() && !core.pins.has_room() {
            return Err(Errno::ENOMEM);
        }
        Ok(pin.map(|pin| (pin, sample)))
    }

    fn ask(self, name: &[u8]) -> Result<Option<Arc<Inode>>, Errno> {
        let dir = self.inode;
        if dir.flags() & flag::DEAD != 0 {
            return Err(Errno::ENOENT);
        }
        if name.len() > self.sb.options().name_max {
            return Err(Errno::ENAMETOOLONG);
        }
        let dcache = &self.core.vfs.dcache;
        if dcache.is_complete(self.at.dentry) {
            return Ok(None);
        }
        self.core.count(count::MISSES);
        let found = self.core.ask_backend(dir, name, WaitMode::Wait)?;
        if found.is_none() {
            dcache.try_complete(self.at.dentry, dir);
        }
        Ok(found)
    }
}
