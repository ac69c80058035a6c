// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements what a task does with its descriptor table: finds, reserves, installs and takes out
//! files, with the calls on descriptors except fcntl(2) (`ops::fcntl`). `fd_table` has the table
//! itself.
//!
//! # Kernel analogue
//! `struct files_struct` with its `fdtable`: `alloc_fd`, `fd_install`, `close_fd`, `do_dup2`,
//! `dup_fd`, `__fget_files`.
//!
//! # States of a descriptor
//! Free -> reserved (claimed, without a file) -> installed -> free. A reserved one belongs to the
//! open that reserved it: no other call sees a file there, closes it or puts one there.
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
//! R3. If fewer are claimed than the limit, one below the limit is free. So a failing open need not
//!     lock the table to know that it could have had a descriptor.
//! R4. An open that may wait or change something reserves a descriptor before it begins. One that
//!     only reads the cache claims a descriptor when it has found its file.

mod anonymous;
mod calls;
mod range;
mod share;

use crate::fd_table::{FdTable, fd_of, slot_of};
use crate::file::{Filp, PathStart};
use crate::file_ops::Fd;
use crate::task::{Core, Task};
use openpath_abi::Errno;
use openpath_abi::fcntl::AT_FDCWD;
use openpath_sync::{FileRef, no_fault_injection};

impl FdTable {
    /// Whether the file is at `fd`, once a removal under way has ended.
    pub(crate) fn still_has(&self, fd: Fd, file: &Filp<'_>) -> bool {
        let _map = self.table.lock();
        slot_of(fd).is_ok_and(|slot| self.table.get(slot) == file.file().id())
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

    /// Takes the file at `fd` out, which frees the descriptor (`file_close_fd`); and whether the
    /// table may have locks on it.
    ///
    /// # Errors
    /// `EBADF`: not open, or reserved.
    #[inline(always)]
    fn take(&self, core: &Core, fd: Fd) -> Result<(FileRef, bool), Errno> {
        let slot = slot_of(fd)?;
        let mut map = self.table.lock();
        let _step = no_fault_injection();
        let file = map.take_out(&core.vfs.dcache.store, slot);
        let file = file.ok_or(Errno::EBADF)?;
        map.free(slot);
        self.table.claimed.poke(map.count());
        Ok((file, self.has_noted()))
    }
}

/// A descriptor that an open has reserved; it becomes free if this is dropped without a file.
#[must_use]
pub(crate) struct ReservedFd<'t> {
    core: &'t Core,
    slot: u32,
}

impl ReservedFd<'_> {
    /// Puts the file there; which descriptor it is.
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

impl Drop for ReservedFd<'_> {
    fn drop(&mut self) {
        let _step = no_fault_injection();
        self.core.fds().abandon(self.slot);
    }
}

impl Core {
    /// Whether the descriptor closes on exec.
    ///
    /// # Errors
    /// `EBADF`: out of range.
    pub(crate) fn cloexec(&self, fd: Fd) -> Result<bool, Errno> {
        let slot = slot_of(fd)?;
        Ok(self.fds().table.lock().cloexec(slot))
    }

    /// Sets whether the descriptor closes on exec.
    ///
    /// # Errors
    /// `EBADF`: out of range.
    pub(crate) fn set_cloexec(&self, fd: Fd, on: bool) -> Result<(), Errno> {
        let slot = slot_of(fd)?;
        self.fds().table.lock().set_cloexec(slot, on);
        Ok(())
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
    pub(crate) fn reserve_fd(&self, cloexec: bool) -> Result<ReservedFd<'_>, Errno> {
        let slot = self.fds().reserve(0, self.fd_end(), cloexec)?;
        Ok(ReservedFd { core: self, slot })
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

/// A directory descriptor looked up for the length of a call.
pub(crate) enum DirFd<'t> {
    Cwd,
    File(Filp<'t>),
    Bad,
}

impl DirFd<'_> {
    #[inline(always)]
    pub(crate) fn at(&self) -> PathStart<'_> {
        match self {
            Self::Cwd => PathStart::Cwd,
            Self::File(file) => PathStart::File(file),
            Self::Bad => PathStart::Bad,
        }
    }
}

impl Core {
    /// The start of a relative path with this directory descriptor.
    #[inline(always)]
    pub(crate) fn base(&self, dirfd: Fd) -> DirFd<'_> {
        if dirfd == AT_FDCWD {
            return DirFd::Cwd;
        }
        self.fdget(dirfd).map_or(DirFd::Bad, DirFd::File)
    }
}

impl Drop for Task {
    /// Lets go of its table, before the pins of its root and working directory.
    fn drop(&mut self) {
        let core = &self.core;
        let none = FdTable::new(&core.vfs.dcache.store, &core.vfs.config, 0);
        core.swap_fds(none).leave(core);
    }
}

impl Task {
    /// [`Inode::identity`](crate::Inode::identity) of the inode that is open at `fd`.
    ///
    /// # Errors
    /// `EBADF`: nothing is open there.
    pub fn inode_identity(&self, fd: Fd) -> Result<usize, Errno> {
        Ok(self.core.fdget(fd)?.inode()?.identity())
    }
}
