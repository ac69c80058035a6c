// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives write access to mounts and inodes, and keeps new writers out while a remount looks for
//! writers and makes a mount read-only.
//!
//! # Kernel analogue
//! `mnt_want_write`, `get_write_access`, `mnt_make_readonly`, `sb_prepare_remount_readonly`.
//!
//! # Rules
//! R1. A writer marks its pin on the mount (and the inode) as written to, then makes three checks.
//!     While `MountData::asked` is set, a task wants to make the mount read-only and looks for
//!     writers: the writer waits until it is clear. Then it checks whether the mount or its tree is
//!     read-only, and whether writing to the inode is denied. A task that sets one of the three
//!     does so first and then looks for marks. So either it sees the mark, or the writer sees what
//!     it set. The mark stays until the writer is refused, or is done.
//! R2. Nothing is counted: an open for writing stores nothing that another task's call reads.

use super::Core;
use crate::inode::Inode;
use crate::object::{MountData, ObjectStore, mflag};
use crate::path::PathIds;
use openpath_abi::Errno;
use openpath_sync::{Pin, no_fault_injection};
use std::collections::HashSet;
use std::sync::Arc;

/// A change through a mount under way; dropping it ends it.
#[must_use]
pub(crate) struct WriteAccess<'t> {
    core: &'t Core,
    pin: Option<Pin>,
}

impl Drop for WriteAccess<'_> {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.core.pins.release(pin);
        }
    }
}

/// No task can begin to write through a mount until this is dropped.
#[must_use]
pub(crate) struct NoWriters<'a>(&'a MountData);

impl Drop for NoWriters<'_> {
    fn drop(&mut self) {
        let _step = no_fault_injection();
        self.0.asked.set(0);
    }
}

impl Core {
    /// Begins a change through the mount at `index` (`mnt_want_write`), which the caller pins.
    ///
    /// # Errors
    /// `ENOMEM` when there are no pins left; `EROFS`: the mount or its superblock is read-only.
    pub(crate) fn want_write(
        &self,
        index: u32,
        mount: &MountData,
    ) -> Result<WriteAccess<'_>, Errno> {
        let pin = self.pins.pin_now(index, 0).ok_or(Errno::ENOMEM)?;
        let allowed = self.may_write(&pin, mount);
        let writing = WriteAccess {
            core: self,
            pin: Some(pin),
        };
        allowed.map(|()| writing)
    }

    /// Begins to write to the inode at `path_ids`, which the caller pins; the mount was checked
    /// already (`get_write_access`).
    ///
    /// # Errors
    /// `ENOMEM` when there are no pins left; `ETXTBSY`: writing is denied.
    pub(crate) fn want_write_inode(
        &self,
        path_ids: PathIds,
        inode: &Inode,
    ) -> Result<WriteAccess<'_>, Errno> {
        let pin = self.pins.pin_now(path_ids.mount, path_ids.dentry);
        let pin = pin.ok_or(Errno::ENOMEM)?;
        self.pins.mark_writing(&pin);
        let writing = WriteAccess {
            core: self,
            pin: Some(pin),
        };
        if inode.is_write_denied() {
            return Err(Errno::ETXTBSY);
        }
        Ok(writing)
    }

    /// Marks `pin` as written to, if that may be (`__mnt_want_write`); otherwise it is as before.
    ///
    /// # Errors
    /// `EROFS`: the mount or its superblock is read-only.
    #[inline]
    pub(crate) fn may_write(&self, pin: &Pin, mount: &MountData) -> Result<(), Errno> {
        self.pins.mark_writing(pin);
        // R1: while it waits, too.
        while mount.asked.get() != 0 {
            openpath_sync::relax();
        }
        let flags = self.vfs.mounts.at(pin.mount()).word().sample();
        if flags.has(mflag::READ_ONLY) || mount.sb.is_read_only() {
            self.pins.unmark_writing(pin);
            return Err(Errno::EROFS);
        }
        Ok(())
    }

    /// Begins to write to the inode that `pin` holds, through its mount (`file_get_write_access`):
    /// afterwards the pin is marked.
    ///
    /// # Errors
    /// `ETXTBSY` (writing is denied), `EROFS`: the mount or its superblock is read-only.
    pub(crate) fn get_write_access(
        &self,
        pin: &Pin,
        mount: &MountData,
        inode: &Inode,
    ) -> Result<(), Errno> {
        self.pins.mark_writing(pin);
        if inode.is_write_denied() {
            self.pins.unmark_writing(pin);
            return Err(Errno::ETXTBSY);
        }
        self.may_write(pin, mount)
    }
}

impl MountData {
    /// Keeps writers out of these mounts, if there are none in any of them. Held: the topology
    /// lock, so that only one task asks.
    pub(crate) fn keep_writers_out<'a>(
        store: &ObjectStore,
        mounts: &'a [(u32, Arc<Self>)],
    ) -> Option<Vec<NoWriters<'a>>> {
        let keep = |(_, mount): &'a (u32, Arc<Self>)| {
            mount.asked.set(1);
            NoWriters(mount)
        };
        let kept_out: Vec<_> = mounts.iter().map(keep).collect();
        let asked: HashSet<u32> = mounts.iter().map(|&(index, _)| index).collect();
        let idle =
            asked.is_empty() || store.has_writers(|mount, _| asked.contains(&mount)) == Some(false);
        idle.then_some(kept_out)
    }
}
