// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptor tables, and the calls on descriptors.
//!
//! # Kernel analogue
//! `struct files_struct` with its `fdtable`: `alloc_fd`, `fd_install`, `close_fd`, `do_dup2`,
//! `dup_fd`, `__fget_files`.
//!
//! # States of a descriptor
//! Free -> reserved (claimed, without a file) -> installed -> free. A reserved one belongs to the
//! open that reserved it: nobody else sees a file there, closes it or puts one there.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | slots | the table's lock | any time, with R2 |
//! | map | the table's lock | the table's lock |
//! | claimed | the table's lock | any time, as a hint (R3) |
//! | noted | once: the table has, or had, locks on files | any time |
//!
//! # Locks
//! One lock for each table, which costs nothing while one task has the table
//! ([`openpath_sync::Biased`]). Nothing is released, and no backend called, while it is held.
//!
//! # Rules
//! R1. A file is in a table shared by several tasks, or in several tables, only as a shared file.
//! R2. A lookup reads the slot, takes a reference to the file, and reads the slot again: the number
//!     may mean another file by then. Slots never move, so the table itself need not be read again.
//! R3. If fewer are claimed than the limit, one below the limit is free; so an open that fails need
//!     not lock the table to know that it could have had a descriptor.
//! R4. What may wait or change something reserves a descriptor before it begins; what only looks at
//!     the cache claims one when it has found its file.

mod calls;
mod control;
mod map;
mod owner;
mod range;
mod share;

pub(crate) use control::signals;
pub use map::FdMap;

use crate::config::Config;
use crate::file::Filp;
use crate::file_ops::Fd;
use crate::lock_order::FdTables;
use crate::object::Ground;
use crate::task::Core;
use openpath_abi::Errno;
use openpath_sync::{Biased, FileRef, FileSlots, unfailing};

/// A task's hold on a descriptor table.
pub(crate) struct FdTable {
    table: Biased<FileSlots, FdMap, FdTables>,
    /// A number that only this table has, whoever holds it: whose its locks are.
    number: u64,
}

/// The number of a slot, if a descriptor can be one.
#[inline(always)]
fn slot_of(fd: Fd) -> Result<u32, Errno> {
    u32::try_from(fd).map_err(|_| Errno::EBADF)
}

/// A slot as a descriptor: `nr_open` keeps numbers below 2^31.
#[inline(always)]
fn fd_of(slot: u32) -> Fd {
    slot.cast_signed()
}

impl FdTable {
    /// An empty table.
    pub(crate) fn new(store: &Ground, config: &Config, number: u64) -> Self {
        let tuning = &config.tuning;
        let nr_open = config.limits.nr_open;
        let map = FdMap::new(nr_open, tuning.fd_word_peek, tuning.fd_conditional_summary);
        Self::of(FileSlots::new(store), map, number)
    }

    fn of(slots: FileSlots, map: FdMap, number: u64) -> Self {
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

    /// From now on it may have locks, for which each close looks.
    pub(crate) fn note_locks(&self) {
        if self.table.noted.get() == 0 {
            self.table.noted.set(1);
        }
    }

    /// Whether it may have locks, to be asked when a descriptor is out of it.
    #[inline(always)]
    fn has_noted(&self) -> bool {
        self.table.noted.get() != 0
    }

    /// Whether the file is at `fd`, once whoever was taking it out has done so.
    pub(crate) fn still_has(&self, fd: Fd, file: &Filp<'_>) -> bool {
        let _map = self.table.lock();
        slot_of(fd).is_ok_and(|slot| self.table.get(slot) == file.file().id())
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

    /// A reference to the file at `fd` (`fget`).
    #[inline(always)]
    fn get(&self, core: &Core, fd: Fd) -> Result<FileRef, Errno> {
        let slot = slot_of(fd)?;
        loop {
            let id = self.table.get(slot);
            if id == 0 {
                return Err(Errno::EBADF);
            }
            let Some(file) = core.pins.get_file(id) else {
                openpath_sync::relax();
                continue;
            };
            // R2
            if self.table.get(slot) == id {
                return Ok(file);
            }
            core.put_file(file);
        }
    }

    /// Reserves the lowest free descriptor from `start` on, below `end` (`alloc_fd`).
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    fn reserve(&self, start: u32, end: u32, cloexec: bool) -> Result<u32, Errno> {
        let mut map = self.table.lock();
        let _step = unfailing();
        let slot = map.alloc(start, end, cloexec)?;
        self.table.claimed.poke(map.count());
        Ok(slot)
    }

    /// Gives a reserved descriptor up (`put_unused_fd`).
    fn abandon(&self, slot: u32) {
        let mut map = self.table.lock();
        map.free(slot);
        self.table.claimed.poke(map.count());
    }

    /// Puts a file at a reserved descriptor (`fd_install`).
    ///
    /// # Errors
    /// Hands the file back if there is no memory for the slot.
    fn install(&self, slot: u32, file: FileRef) -> Result<(), FileRef> {
        self.table.lock().put_in(slot, file)
    }

    /// Puts a file at the lowest free descriptor from `start` on, below `end`.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`; the file comes back.
    #[inline(always)]
    fn add(
        &self,
        file: FileRef,
        start: u32,
        end: u32,
        cloexec: bool,
    ) -> Result<u32, (Errno, FileRef)> {
        let mut map = self.table.lock();
        let _step = unfailing();
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

    /// Takes the file at `fd` out, whose descriptor is free from now on (`file_close_fd`); and
    /// whether the table may have locks on it.
    ///
    /// # Errors
    /// `EBADF`: not open, or reserved.
    #[inline(always)]
    fn take(&self, core: &Core, fd: Fd) -> Result<(FileRef, bool), Errno> {
        let slot = slot_of(fd)?;
        let mut map = self.table.lock();
        let _step = unfailing();
        let file = map.take_out(&core.vfs.dcache.store, slot);
        let file = file.ok_or(Errno::EBADF)?;
        map.free(slot);
        self.table.claimed.poke(map.count());
        Ok((file, self.has_noted()))
    }
}

/// A descriptor that an open has reserved; it is given up if this is dropped without a file.
#[must_use]
pub(crate) struct Reserved<'t> {
    core: &'t Core,
    slot: u32,
}

impl Reserved<'_> {
    /// Puts the file there, and says which descriptor it is.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn install(self, file: Filp<'_>) -> Result<Fd, Errno> {
        let core = self.core;
        let installed = core.fds().install(self.slot, file.into_ref());
        if let Err(file) = installed {
            drop(self);
            drop(Filp::hold(core, file));
            return Err(Errno::ENOMEM);
        }
        let fd = fd_of(self.slot);
        core::mem::forget(self);
        Ok(fd)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let _step = unfailing();
        self.core.fds().abandon(self.slot);
    }
}

impl Core {
    /// One more than the highest descriptor that may be handed out now (`RLIMIT_NOFILE`).
    #[inline(always)]
    pub(crate) fn fd_end(&self) -> u32 {
        u32::try_from(self.nofile.get()).unwrap_or(u32::MAX)
    }

    /// Reserves the lowest free descriptor.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`.
    pub(crate) fn reserve_fd(&self, cloexec: bool) -> Result<Reserved<'_>, Errno> {
        let slot = self.fds().reserve(0, self.fd_end(), cloexec)?;
        Ok(Reserved { core: self, slot })
    }

    /// Puts a file at the lowest free descriptor.
    ///
    /// # Errors
    /// `EMFILE`, `ENOMEM`; the file is put back.
    #[inline(always)]
    pub(crate) fn add_fd(&self, file: FileRef, cloexec: bool) -> Result<Fd, Errno> {
        let added = self.fds().add(file, 0, self.fd_end(), cloexec);
        match added {
            Ok(slot) => Ok(fd_of(slot)),
            Err((errno, file)) => {
                self.put_file(file);
                Err(errno)
            }
        }
    }

    /// The file at `fd`, for the length of a call (`fdget_raw`).
    ///
    /// # Errors
    /// `EBADF`.
    #[inline(always)]
    pub(crate) fn fdget(&self, fd: Fd) -> Result<Filp<'_>, Errno> {
        let file = self.fds().get(self, fd)?;
        Ok(Filp::hold(self, file))
    }

    /// As [`Core::fdget`], for calls that want more than a place (`fdget`).
    ///
    /// # Errors
    /// `EBADF`: not open, or opened with `O_PATH`.
    #[inline(always)]
    pub(crate) fn fdget_full(&self, fd: Fd) -> Result<Filp<'_>, Errno> {
        let file = self.fdget(fd)?;
        if file.is_path() {
            return Err(Errno::EBADF);
        }
        Ok(file)
    }
}
