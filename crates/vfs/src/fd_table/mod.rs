// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a descriptor table: its slots, its bitmap of claimed slots, and its note that it may
//! have file locks. `fd` puts files in and takes them out, and has the table's states, locks and
//! rules.

mod map;

pub use map::FdMap;

use crate::config::Config;
use crate::file_ops::Fd;
use crate::lock_order::FdTables;
use crate::object::ObjectStore;
use openpath_abi::Errno;
use openpath_sync::{Biased, FileRef, FileSlots, no_fault_injection};

/// A task's reference to a descriptor table.
pub(crate) struct FdTable {
    pub(crate) table: Biased<FileSlots, FdMap, FdTables>,
    /// A number that only this table has, whichever tasks hold it: the owner of its locks.
    pub(crate) number: u64,
}

/// The number of a slot, if a descriptor can be one.
#[inline(always)]
pub(crate) fn slot_of(fd: Fd) -> Result<u32, Errno> {
    u32::try_from(fd).map_err(|_| Errno::EBADF)
}

/// A slot as a descriptor: `nr_open` keeps numbers below 2^31.
#[inline(always)]
pub(crate) fn fd_of(slot: u32) -> Fd {
    slot.cast_signed()
}

impl FdTable {
    /// An empty table.
    pub(crate) fn new(store: &ObjectStore, config: &Config, number: u64) -> Self {
        let tuning = &config.tuning;
        let nr_open = config.limits.nr_open;
        let map = FdMap::new(nr_open, tuning.fd_word_peek, tuning.fd_conditional_summary);
        Self::of(FileSlots::new(store), map, number)
    }

    /// A table with these slots and this map.
    pub(crate) fn of(slots: FileSlots, map: FdMap, number: u64) -> Self {
        Self {
            table: Biased::new(slots, map),
            number,
        }
    }

    /// A number that only this table has.
    #[inline(always)]
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Notes that it may have locks, so that each close looks for them.
    pub(crate) fn note_locks(&self) {
        if self.table.noted.get() == 0 {
            self.table.noted.set(1);
        }
    }

    /// Whether it may have locks; to be read when a descriptor is out of it.
    #[inline(always)]
    pub(crate) fn has_noted(&self) -> bool {
        self.table.noted.get() != 0
    }

    /// Whether other tasks have it too.
    #[inline(always)]
    pub(crate) fn is_shared(&self) -> bool {
        self.table.is_shared()
    }

    /// Whether some descriptor below `end` is free (R3).
    #[inline(always)]
    pub(crate) fn has_room(&self, end: u32) -> bool {
        self.table.claimed.peek() < end || self.has_room_exactly(end)
    }

    #[cold]
    fn has_room_exactly(&self, end: u32) -> bool {
        self.table.lock().has_free_below(end)
    }

    /// Reserves the lowest free descriptor from `start` on, below `end` (`alloc_fd`).
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub(crate) fn reserve(&self, start: u32, end: u32, cloexec: bool) -> Result<u32, Errno> {
        let mut map = self.table.lock();
        let _step = no_fault_injection();
        let slot = map.alloc(start, end, cloexec)?;
        self.table.claimed.poke(map.count());
        Ok(slot)
    }

    /// Gives a reserved descriptor up (`put_unused_fd`).
    pub(crate) fn abandon(&self, slot: u32) {
        let mut map = self.table.lock();
        map.free(slot);
        self.table.claimed.poke(map.count());
    }

    /// Puts a file at a reserved descriptor (`fd_install`).
    ///
    /// # Errors
    /// Hands the file back if there is no memory for the slot.
    pub(crate) fn install(&self, slot: u32, file: FileRef) -> Result<(), FileRef> {
        self.table.lock().put_in(slot, file)
    }

    /// Puts a file at the lowest free descriptor from `start` on, below `end`.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`; the file comes back.
    #[inline(always)]
    pub(crate) fn add(
        &self,
        file: FileRef,
        start: u32,
        end: u32,
        cloexec: bool,
    ) -> Result<u32, (Errno, FileRef)> {
        let mut map = self.table.lock();
        let _step = no_fault_injection();
        let slot = match map.alloc(start, end, cloexec) {
            Ok(slot) => slot,
            Err(errno) => return Err((errno, file)),
        };
        if let Err(file) = map.put_in(slot, file) {
            map.free(slot);
            return Err((Errno::ENOMEM, file));
        }
        self.table.claimed.poke(map.count());
        Ok(slot)
    }
}
