// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls: fcntl(2) with `F_GETLK`, `F_SETLK` and `F_SETLKW`, and the same for open files.
//!
//! # Kernel analogue
//! `fcntl_getlk`, `fcntl_setlk`, `vfs_lock_file`, `vfs_test_lock`.

use super::ranges::{Ask, Held};
use super::{FileLock, LockCall, LockKind, LockOwner, Range, args};
use crate::file::{Fd, Filp, fbit};
use crate::inode::shield;
use crate::task::{Core, Task};
use openpath_abi::{Errno, Flock};
use openpath_sync::Sleeper;

/// Whose a record lock is to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Table,
    File,
}

impl By {
    fn owner(self, core: &Core, file: &Filp<'_>) -> LockOwner {
        match self {
            Self::Table => LockOwner::Table(core.fds().number()),
            Self::File => LockOwner::File(file.file().id()),
        }
    }
}

impl Task {
    /// The first lock that would keep this task's table from having what `ask` says; what would
    /// not, comes back as it is, but for the kind `F_UNLCK`. Linux: fcntl(2) `F_GETLK`.
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (neither `F_RDLCK` nor `F_WRLCK`; `whence`; before
    /// the file), `EOVERFLOW`.
    #[doc(alias = "F_GETLK")]
    pub fn fcntl_getlk(&self, fd: Fd, ask: &Flock) -> Result<Flock, Errno> {
        let file = self.core.fdget_full(fd)?;
        if !matches!(LockKind::of(ask.kind), Ok(Some(_))) {
            return Err(Errno::EINVAL);
        }
        file.test_lock(ask, By::Table)
    }

    /// Sets a lock of this task's descriptor table on a range of the file at `fd`, or ends those it
    /// has there. What the table had of the range becomes of the new kind. Any close of any
    /// descriptor of the file in this table ends all of its locks on the file; no child inherits
    /// them. Linux: fcntl(2) `F_SETLK`.
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (`whence`), `EOVERFLOW` or `EINVAL` (no such range),
    /// `EINVAL` (kind), `EBADF` (not open for reading, or writing), `EAGAIN` (somebody is in the
    /// way), `ENOLCK` (as many as the tenant may have), `EBADF` (closed meanwhile: the table has no
    /// lock on the file then).
    ///
    /// ```no_run
    /// # use openpath_abi::{Errno, Flock, lock::{F_UNLCK, F_WRLCK}};
    /// # fn example(task: &openpath_vfs::Task, fd: i32) -> Result<(), Errno> {
    /// // The first ten bytes, alone; and none of them any more.
    /// task.fcntl_setlk(fd, &Flock::new(F_WRLCK, 0, 10))?;
    /// task.fcntl_setlk(fd, &Flock::new(F_UNLCK, 0, 10))
    /// # }
    /// ```
    #[doc(alias = "F_SETLK")]
    pub fn fcntl_setlk(&self, fd: Fd, ask: &Flock) -> Result<(), Errno> {
        self.set_record(fd, ask, By::Table, None)
    }

    /// As [`Task::fcntl_setlk`], and waits until nobody is in the way. Linux: fcntl(2) `F_SETLKW`.
    ///
    /// # Errors
    /// As [`Task::fcntl_setlk`], but for `EAGAIN`: `EDEADLK` (it would wait for itself), `EINTR`
    /// ([`crate::Interrupter`]).
    #[doc(alias = "F_SETLKW")]
    pub fn fcntl_setlkw(&self, fd: Fd, ask: &Flock) -> Result<(), Errno> {
        self.set_record(fd, ask, By::Table, Some(&self.core.sleeper))
    }

    /// As [`Task::fcntl_getlk`], for a lock of the open file at `fd`; with `F_UNLCK`, the first
    /// lock that this open file has of the range. Linux: fcntl(2) `F_OFD_GETLK`.
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (`whence`), `EOVERFLOW` or `EINVAL` (no such range),
    /// `EINVAL` (kind, `pid` is not 0).
    #[doc(alias = "F_OFD_GETLK")]
    pub fn ofd_getlk(&self, fd: Fd, ask: &Flock) -> Result<Flock, Errno> {
        self.core.fdget_full(fd)?.test_lock(ask, By::File)
    }

    /// As [`Task::fcntl_setlk`], for a lock of the open file at `fd`: whoever has a descriptor of
    /// it has the lock, and the last close ends it. Linux: fcntl(2) `F_OFD_SETLK`.
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (`whence`), `EOVERFLOW` or `EINVAL` (no such range),
    /// `EINVAL` (kind), `EBADF` (not open for reading, or writing), `EINVAL` (`pid` is not 0),
    /// `EAGAIN` (somebody is in the way), `ENOLCK` (as many as the tenant may have).
    #[doc(alias = "F_OFD_SETLK")]
    pub fn ofd_setlk(&self, fd: Fd, ask: &Flock) -> Result<(), Errno> {
        self.set_record(fd, ask, By::File, None)
    }

    /// As [`Task::ofd_setlk`], and waits until nobody is in the way; for ever, if who is waits for
    /// this. Linux: fcntl(2) `F_OFD_SETLKW`.
    ///
    /// # Errors
    /// As [`Task::ofd_setlk`], but for `EAGAIN`: `EINTR` ([`crate::Interrupter`]).
    #[doc(alias = "F_OFD_SETLKW")]
    pub fn ofd_setlkw(&self, fd: Fd, ask: &Flock) -> Result<(), Errno> {
        self.set_record(fd, ask, By::File, Some(&self.core.sleeper))
    }

    fn set_record(&self, fd: Fd, ask: &Flock, by: By, wait: Option<&Sleeper>) -> Result<(), Errno> {
        let core = &self.core;
        let file = core.fdget_full(fd)?;
        let (range, kind) = args::meant(&file, ask)?;
        args::allows(&file, kind)?;
        if by == By::File && ask.pid != 0 {
            return Err(Errno::EINVAL);
        }
        let owner = by.owner(core, &file);
        file.set_lock(owner, range, kind, wait)?;
        if by == By::Table && kind.is_some() && !core.fds().still_has(fd, &file) {
            // R1 of the module: who closed it may have come too early to see the lock.
            file.drop_locks(owner);
            return Err(Errno::EBADF);
        }
        Ok(())
    }
}

impl Filp<'_> {
    fn test_lock(&self, ask: &Flock, by: By) -> Result<Flock, Errno> {
        let (range, kind) = args::meant(self, ask)?;
        if by == By::File && ask.pid != 0 {
            return Err(Errno::EINVAL);
        }
        let owner = by.owner(self.core, self);
        let found = self.in_the_way(owner, range, kind)?;
        Ok(match found {
            Some(held) => args::told(&held),
            None => Flock {
                kind: LockKind::raw(None),
                ..*ask
            },
        })
    }

    /// What keeps the owner from having a lock; without a kind, what it has.
    fn in_the_way(
        &self,
        owner: LockOwner,
        range: Range,
        kind: Option<LockKind>,
    ) -> Result<Option<Held>, Errno> {
        let inode = self.inode()?;
        let mut lock = self.file_lock(owner, range, kind);
        let asked = shield(|| {
            inode
                .ops()
                .lock(inode, LockCall::Test(&mut lock))
                .transpose()
        })?;
        if asked.is_some() {
            return Ok(lock.kind.map(|kind| Held {
                owner: lock.owner,
                range: Range {
                    start: lock.start,
                    end: lock.end,
                },
                kind,
                pid: lock.pid,
            }));
        }
        let context = inode.locks();
        Ok(context.and_then(|context| context.test(owner, range, kind)))
    }

    /// Sets a lock, or ends what the owner has of the range.
    ///
    /// # Errors
    /// `EAGAIN`; `EDEADLK`, `EINTR`; `ENOLCK`; what a backend that keeps locks meets.
    pub(super) fn set_lock(
        &self,
        owner: LockOwner,
        range: Range,
        kind: Option<LockKind>,
        wait: Option<&Sleeper>,
    ) -> Result<(), Errno> {
        let (core, inode) = (self.core, self.inode()?);
        // What may fail is asked before a backend sets a lock of which the core would not know.
        let set = match kind {
            Some(kind) => Some((kind, self.mount()?.dev)),
            None => None,
        };
        if set.is_some() {
            self.note_locks(owner);
        }
        let lock = self.file_lock(owner, range, kind);
        let call = LockCall::Set(&lock, wait);
        let asked = shield(|| inode.ops().lock(inode, call).transpose())?;
        if asked.is_some() {
            if let Some((_, dev)) = set {
                let context = core.vfs.lock_context(inode, dev);
                context.state.lock().foreign = true;
            }
            return Ok(());
        }
        let Some((kind, dev)) = set else {
            let context = inode.locks();
            return context.map_or(Ok(()), |context| context.free(&core.vfs, owner, range));
        };
        let ask = Ask {
            owner,
            range,
            kind,
            pid: lock.pid,
            tenant: core.tenant().clone(),
        };
        let context = core.vfs.lock_context(inode, dev);
        context.set(&core.vfs, &ask, wait)
    }

    /// Has whoever closes it look for locks (R1 of the module).
    fn note_locks(&self, owner: LockOwner) {
        match owner {
            LockOwner::Table(_) => self.core.fds().note_locks(),
            LockOwner::File(_) | LockOwner::Flock(_) => self.note_own_locks(),
        }
    }

    /// The same for what the open file itself has: locks, or a lease.
    pub(crate) fn note_own_locks(&self) {
        let bits = &self.body().bits;
        if bits.get() & fbit::LOCKED == 0 {
            bits.set_bits(fbit::LOCKED);
        }
    }

    fn file_lock(&self, owner: LockOwner, range: Range, kind: Option<LockKind>) -> FileLock {
        FileLock {
            owner,
            kind,
            start: range.start,
            end: range.end,
            pid: match owner {
                LockOwner::File(_) => -1,
                LockOwner::Table(_) | LockOwner::Flock(_) => self.core.pid.get(),
            },
        }
    }
}
