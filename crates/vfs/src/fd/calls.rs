// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the calls on one descriptor: close(2), dup(2), dup2(2) and dup3(2). Also takes open
//! files out of a table and installs files from outside it.
//!
//! # Kernel analogue
//! `filp_close`, `ksys_dup3`, `do_dup2`, `receive_fd`.

use crate::fd_table::{FdTable, fd_of, slot_of};
use crate::file::{Filp, OpenFile};
use crate::file_ops::Fd;
use crate::inode::shield;
use crate::task::{Core, Task};
use openpath_abi::fcntl::O_CLOEXEC;
use openpath_abi::{Errno, OFlags};
use openpath_sync::{FileRef, no_fault_injection};
use std::sync::Arc;

impl Filp<'_> {
    /// Closes a descriptor's file: tells the opening, then drops this reference (`filp_close`).
    /// `table` is as for [`Filp::flush`].
    ///
    /// # Errors
    /// What the opening's own `flush` says.
    pub(super) fn close(self, table: Option<u64>) -> Result<(), Errno> {
        self.flush(table)
    }

    /// Tells the opening that a descriptor of it is gone, and ends the locks that the table it was
    /// in has on the file; `None`: that table has no locks (`filp_flush`).
    ///
    /// # Errors
    /// What it says.
    pub(super) fn flush(&self, table: Option<u64>) -> Result<(), Errno> {
        let told = match self.own_ops() {
            Some(ops) if !self.is_path() => shield(|| ops.flush()),
            _ => Ok(()),
        };
        if let Some(table) = table {
            self.end_table_locks(table);
        }
        told
    }
}

impl FdTable {
    /// Puts a file at `slot`, whether or not it is free (`do_dup2`); the file that was there, and
    /// whether the table may have locks on it.
    ///
    /// # Errors
    /// `EBUSY` (reserved), `EBADF` (past the end of any table), `ENOMEM`; the file comes back.
    fn replace(
        &self,
        core: &Core,
        slot: u32,
        file: FileRef,
        cloexec: bool,
    ) -> Result<Option<(FileRef, bool)>, (Errno, FileRef)> {
        let mut map = self.table.lock();
        let _step = no_fault_injection();
        let new = match map.claim(slot, cloexec) {
            Ok(false) if self.table.get(slot) == 0 => return Err((Errno::EBUSY, file)),
            Ok(new) => new,
            Err(errno) => return Err((errno, file)),
        };
        map.set_cloexec(slot, cloexec);
        // No lookup meanwhile finds the descriptor closed.
        match map.replace(&core.vfs.dcache.store, slot, file) {
            Ok(was) => {
                self.table.claimed.poke(map.count());
                Ok(was.map(|was| (was, self.has_noted())))
            }
            Err(file) => {
                if new {
                    map.free(slot);
                }
                Err((Errno::ENOMEM, file))
            }
        }
    }
}

impl Core {
    /// Closes a file that was taken out of this task's table, where an opening or a watcher must be
    /// told, or the table may have locks on it.
    ///
    /// # Errors
    /// What the opening's own `flush` says.
    #[inline(never)]
    fn close_told(&self, file: FileRef, locks: bool) -> Result<(), Errno> {
        let table = locks.then(|| self.fds().number());
        Filp::hold(self, file).close(table)
    }
}

impl Task {
    /// Closes `fd`. Everything that the last reference ends has ended when this returns.
    /// Linux: close(2).
    ///
    /// # Errors
    /// `EBADF` (not open, or reserved by an open under way); what the backend answers: the
    /// descriptor is free all the same.
    #[inline]
    pub fn close(&self, fd: Fd) -> Result<(), Errno> {
        let core = &self.core;
        let (file, locks) = core.fds().take(core, fd)?;
        if locks || core.vfs.dcache.store.file_payload(&file).is_some() {
            return core.close_told(file, locks);
        }
        core.put_file(file);
        Ok(())
    }

    /// As [`Task::close`], for a caller that no one waits for: a small file without a name may be
    /// freed later, together with others. It goes when enough of them wait, when another call finds
    /// no room or asks for the free space, or by [`crate::Vfs::collect`].
    ///
    /// # Errors
    /// As [`Task::close`].
    pub fn close_lazily(&self, fd: Fd) -> Result<(), Errno> {
        let core = &self.core;
        let (file, locks) = core.fds().take(core, fd)?;
        if locks || core.vfs.dcache.store.file_payload(&file).is_some() {
            return core.close_told(file, locks);
        }
        if let Some(last) = core.pins.put_file(file) {
            core.vfs.release_lazily(&core.pins, last);
        }
        Ok(())
    }

    /// A second descriptor, the lowest free one, for the open file at `fd`. Linux: dup(2).
    ///
    /// # Errors
    /// `EBADF`, `EMFILE`.
    pub fn dup(&self, fd: Fd) -> Result<Fd, Errno> {
        let file = self.core.fdget(fd)?;
        self.core.add_fd(file.into_ref(), false)
    }

    /// Makes `new` a descriptor for the open file at `old`, and closes the file that was there.
    /// Linux: dup2(2).
    ///
    /// # Errors
    /// `EBADF` (`old` not open, `new` negative or past the limit), `EBUSY` (`new` is reserved by an
    /// open under way).
    pub fn dup2(&self, old: Fd, new: Fd) -> Result<Fd, Errno> {
        if old == new {
            return self.core.fdget(old).map(|_| new);
        }
        self.dup_onto(old, new, false)
    }

    /// As [`Task::dup2`], with `O_CLOEXEC` for the new descriptor. Linux: dup3(2).
    ///
    /// # Errors
    /// `EINVAL` (flags, `old` is `new`), then as [`Task::dup2`].
    pub fn dup3(&self, old: Fd, new: Fd, flags: OFlags) -> Result<Fd, Errno> {
        if flags.intersects(!O_CLOEXEC) || old == new {
            return Err(Errno::EINVAL);
        }
        self.dup_onto(old, new, flags.contains(O_CLOEXEC))
    }

    fn dup_onto(&self, old: Fd, new: Fd, cloexec: bool) -> Result<Fd, Errno> {
        let core = &self.core;
        let slot = slot_of(new)?;
        if slot >= core.fd_end() {
            return Err(Errno::EBADF);
        }
        let file = core.fdget(old)?;
        let replaced = core.fds().replace(core, slot, file.into_ref(), cloexec);
        match replaced {
            Ok(None) => Ok(new),
            Ok(Some((was, locks))) => {
                // As in Linux, the backend's answer is dropped.
                let _told = core.close_told(was, locks);
                Ok(new)
            }
            Err((errno, file)) => {
                core.put_file(file);
                Err(if errno == Errno::EMFILE {
                    Errno::EBADF
                } else {
                    errno
                })
            }
        }
    }

    /// The open file at `fd` on its own: what a message that passes the descriptor carries, and
    /// what other tasks can [`Task::install`]. Linux: `fget`, unix(7) `SCM_RIGHTS`.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn file(&self, fd: Fd) -> Result<OpenFile, Errno> {
        let core = &self.core;
        let file = core.fdget(fd)?;
        core.pins.share_file(file.file());
        Ok(OpenFile::new(Arc::clone(&core.vfs), file.into_ref()))
    }

    /// Takes the open file at `fd` out of the table: the descriptor is free, and the file stays
    /// open without it. Its opening is not told, since no descriptor was closed; but locks that the
    /// table has on the file end. Linux: `file_close_fd` of a worker of `io_uring`.
    ///
    /// # Errors
    /// `EBADF` (not open, or reserved by an open under way).
    pub fn take_file(&self, fd: Fd) -> Result<OpenFile, Errno> {
        let core = &self.core;
        let (file, locks) = core.fds().take(core, fd)?;
        let file = Filp::hold(core, file);
        if locks {
            file.end_table_locks(core.fds().number());
        }
        core.pins.share_file(file.file());
        Ok(OpenFile::new(Arc::clone(&core.vfs), file.into_ref()))
    }

    /// Puts an open file from elsewhere at the lowest free descriptor; `flags` may have
    /// `O_CLOEXEC`. Linux: `receive_fd`.
    ///
    /// # Errors
    /// `EXDEV` (a file of another `Vfs`), `EMFILE`.
    pub fn install(&self, file: &OpenFile, flags: OFlags) -> Result<Fd, Errno> {
        let core = &self.core;
        core.add_fd(file.lend(core)?, flags.contains(O_CLOEXEC))
    }

    /// The open descriptors, ascending (`/proc/self/fd`).
    #[must_use]
    pub fn descriptors(&self) -> Vec<Fd> {
        let fds = self.core.fds();
        let map = fds.table.lock();
        let installed = |slot: &u32| fds.table.get(*slot) != 0;
        map.open_in(0, u32::MAX)
            .filter(installed)
            .map(fd_of)
            .collect()
    }
}
