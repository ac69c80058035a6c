// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares and copies descriptor tables for fork(2), clone(2) with `CLONE_FILES`, and unshare(2).
//!
//! # Kernel analogue
//! `dup_fd`, `unshare_files`.

use crate::fd_table::FdTable;
use crate::file::Filp;
use crate::task::{Core, Task};
use openpath_abi::Errno;
use openpath_sync::FileSlots;

impl FdTable {
    /// A table with the same open files at the same descriptors, but for those in `hole`. Reserved
    /// descriptors are free in it.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn copy(&self, core: &Core, hole: Option<(u32, u32)>) -> Result<Self, Errno> {
        let mut from = self.table.lock();
        let mut slots = FileSlots::new(&core.vfs.dcache.store);
        let mut lost = None;
        let keep = |slot: u32| {
            let id = self.table.get(slot);
            let left_out = hole.is_some_and(|(first, last)| (first..=last).contains(&slot));
            if id == 0 || left_out || lost.is_some() {
                return false;
            }
            // R1; the table's own reference keeps the file alive.
            core.pins.share_file_at(id);
            let put = core.pins.get_file(id).map(|file| slots.put_in(slot, file));
            match put {
                Some(Ok(())) => true,
                Some(Err(file)) => {
                    lost = Some(file);
                    false
                }
                None => false,
            }
        };
        let map = from.copy_upto(u32::MAX, keep)?;
        slots.claimed.poke(map.count());
        drop(from);
        let copy = Self::of(slots, map, core.vfs.locks.new_table());
        if let Some(file) = lost {
            drop(Filp::hold(core, file));
            copy.leave(core);
            return Err(Errno::ENOMEM);
        }
        Ok(copy)
    }

    /// A further reference to this table, for another task.
    pub(crate) fn share(&self, core: &Core) -> Self {
        {
            let map = self.table.lock();
            for slot in map.open_in(0, u32::MAX) {
                // R1
                core.pins.share_file_at(self.table.get(slot));
            }
        }
        Self {
            table: self.table.share(),
            number: self.number,
        }
    }
}

impl Core {
    /// Gives the task a table of its own, a copy without the descriptors in `hole`.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn unshare_fds(&self, hole: Option<(u32, u32)>) -> Result<(), Errno> {
        let copy = self.fds().copy(self, hole)?;
        self.swap_fds(copy).leave(self);
        Ok(())
    }
}

impl Task {
    /// A new task with the same descriptor table: each sees what the other opens or closes.
    /// Otherwise as [`Task::fork`]. Linux: clone(2) with `CLONE_FILES`.
    ///
    /// # Errors
    /// `ENOMEM` when there are no pins left.
    pub fn clone_files(&self) -> Result<Self, Errno> {
        let child = self.sibling()?;
        let shared = self.core.fds().share(&self.core);
        child.core.swap_fds(shared).leave(&child.core);
        Ok(child)
    }

    /// A copy of this task: same namespace, tenant, root, working directory, umask, credentials and
    /// limits, and a descriptor table of its own with the same open files. Linux: fork(2).
    ///
    /// # Errors
    /// `ENOMEM` when there are no pins left.
    pub fn fork(&self) -> Result<Self, Errno> {
        let child = self.sibling()?;
        let copy = self.core.fds().copy(&self.core, None)?;
        child.core.swap_fds(copy).leave(&child.core);
        Ok(child)
    }

    /// Gives this task a descriptor table of its own, if it shares one. Linux: unshare(2) with
    /// `CLONE_FILES`.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn unshare_files(&self) -> Result<(), Errno> {
        if self.core.fds().is_shared() {
            self.core.unshare_fds(None)?;
        }
        Ok(())
    }
}
