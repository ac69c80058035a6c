// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the range locks of fcntl(2): `F_GETLK`, `F_SETLK` and `F_SETLKW` for descriptor
//! tables, and `F_OFD_GETLK` and its like for open files.
//!
//! # Kernel analogue
//! `fcntl_getlk`, `fcntl_setlk`, `vfs_lock_file`, `vfs_test_lock`.

use super::args;
use crate::file::Filp;
use crate::file_ops::Fd;
use crate::inode::shield;
use crate::lock::{HeldLock, LockContext, LockRequest, QueuePosition, WaiterCharge, WhenBlocked};
use crate::lock_call::{FileLock, LockCall, LockKind, LockOwner, Range};
use crate::task::{Core, Task};
use openpath_abi::{Errno, Flock};
use openpath_sync::Waiter;
use std::sync::Arc;

/// The owner of a record lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordOwner {
    Table,
    File,
}

impl RecordOwner {
    pub(super) fn owner(self, core: &Core, file: &Filp<'_>) -> LockOwner {
        match self {
            Self::Table => LockOwner::Table(core.fds().number()),
            Self::File => LockOwner::File(file.file().id()),
        }
    }
}

impl Task {
    /// The first lock that would keep this task's table from having what `ask` says. Without one,
    /// `ask` comes back with the kind `F_UNLCK`. Linux: fcntl(2) `F_GETLK`.
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
        file.test_lock(ask, RecordOwner::Table)
    }

    /// Sets a lock of this task's descriptor table on a range of the file at `fd`, or ends those it
    /// has there. What the table had of the range becomes of the new kind. Any close of any
    /// descriptor of the file in this table ends all of its locks on the file; no child inherits
    /// them. Linux: fcntl(2) `F_SETLK`.
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (`whence`), `EOVERFLOW` or `EINVAL` (no such range).
    /// `EINVAL` (kind), `EBADF` (not open for reading, or writing).
    /// `EAGAIN` (a lock is in the way), `ENOLCK` (as many as the tenant may have).
    /// `EBADF` (closed meanwhile: the table has no lock on the file then).
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
        self.set_record(fd, ask, RecordOwner::Table, None)
    }

    /// As [`Task::fcntl_setlk`], and waits until no lock is in the way. Linux: fcntl(2) `F_SETLKW`.
    ///
    /// # Errors
    /// As [`Task::fcntl_setlk`], but for `EAGAIN`: `EDEADLK` (it would wait for itself), `EINTR`
    /// ([`crate::Interrupter`]).
    #[doc(alias = "F_SETLKW")]
    pub fn fcntl_setlkw(&self, fd: Fd, ask: &Flock) -> Result<(), Errno> {
        self.set_record(fd, ask, RecordOwner::Table, Some(&self.core.sleeper))
    }

    /// As [`Task::fcntl_getlk`], for a lock of the open file at `fd`; with `F_UNLCK`, the first
    /// lock that this open file has of the range. Linux: fcntl(2) `F_OFD_GETLK`.
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (`whence`), `EOVERFLOW` or `EINVAL` (no such range),
    /// `EINVAL` (kind, `pid` is not 0).
    #[doc(alias = "F_OFD_GETLK")]
    pub fn ofd_getlk(&self, fd: Fd, ask: &Flock) -> Result<Flock, Errno> {
        self.core.fdget_full(fd)?.test_lock(ask, RecordOwner::File)
    }

    /// As [`Task::fcntl_setlk`], for a lock of the open file at `fd`. All descriptors of the open
    /// file share the lock, and the last close ends it. Linux: fcntl(2) `F_OFD_SETLK`.
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (`whence`), `EOVERFLOW` or `EINVAL` (no such range),
    /// `EINVAL` (kind), `EBADF` (not open for reading, or writing), `EINVAL` (`pid` is not 0).
    /// `EAGAIN` (a lock is in the way), `ENOLCK` (as many as the tenant may have).
    #[doc(alias = "F_OFD_SETLK")]
    pub fn ofd_setlk(&self, fd: Fd, ask: &Flock) -> Result<(), Errno> {
        self.set_record(fd, ask, RecordOwner::File, None)
    }

    /// As [`Task::ofd_setlk`], and waits until no lock is in the way. Two open files that wait for
    /// each other wait for ever. Linux: fcntl(2) `F_OFD_SETLKW`.
    ///
    /// # Errors
    /// As [`Task::ofd_setlk`], but for `EAGAIN`: `EINTR` ([`crate::Interrupter`]).
    #[doc(alias = "F_OFD_SETLKW")]
    pub fn ofd_setlkw(&self, fd: Fd, ask: &Flock) -> Result<(), Errno> {
        self.set_record(fd, ask, RecordOwner::File, Some(&self.core.sleeper))
    }

    fn set_record(
        &self,
        fd: Fd,
        ask: &Flock,
        by: RecordOwner,
        wait: Option<&Waiter>,
    ) -> Result<(), Errno> {
        let (file, owner, range, kind) = self.record(fd, ask, by)?;
        file.set_lock(owner, range, kind, wait)?;
        if by == RecordOwner::Table && kind.is_some() {
            self.keep_lock(fd, &file, owner)?;
        }
        Ok(())
    }

    /// A request for a lock of a range, as it is meant.
    ///
    /// # Errors
    /// `EBADF`, `EINVAL`, `EOVERFLOW`, as [`Task::fcntl_setlk`] says.
    pub(super) fn record(
        &self,
        fd: Fd,
        ask: &Flock,
        by: RecordOwner,
    ) -> Result<(Filp<'_>, LockOwner, Range, Option<LockKind>), Errno> {
        let file = self.core.fdget_full(fd)?;
        let (range, kind) = args::meant(&file, ask)?;
        args::allows(&file, kind)?;
        if by == RecordOwner::File && ask.pid != 0 {
            return Err(Errno::EINVAL);
        }
        let owner = by.owner(&self.core, &file);
        Ok((file, owner, range, kind))
    }

    /// The table has a lock of a file, or waits for one. R1 of `lock`: a close of the descriptor
    /// may have come too early to see it.
    ///
    /// # Errors
    /// `EBADF`: it is closed, and the lock ended.
    pub(super) fn keep_lock(&self, fd: Fd, file: &Filp<'_>, owner: LockOwner) -> Result<(), Errno> {
        if self.core.fds().still_has(fd, file) {
            return Ok(());
        }
        file.drop_locks(owner);
        Err(Errno::EBADF)
    }
}

/// The locks of a file, and a place in line there.
pub(super) type QueuedIn = (Arc<LockContext>, QueuePosition);

impl Filp<'_> {
    fn test_lock(&self, ask: &Flock, by: RecordOwner) -> Result<Flock, Errno> {
        let (range, kind) = args::meant(self, ask)?;
        if by == RecordOwner::File && ask.pid != 0 {
            return Err(Errno::EINVAL);
        }
        let owner = by.owner(self.core, self);
        self.test_for(owner, ask, range, kind)
    }

    /// What keeps the owner from having what `ask` means, in its place.
    pub(super) fn test_for(
        &self,
        owner: LockOwner,
        ask: &Flock,
        range: Range,
        kind: Option<LockKind>,
    ) -> Result<Flock, Errno> {
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
    ) -> Result<Option<HeldLock>, Errno> {
        let inode = self.inode()?;
        let mut lock = self.file_lock(owner, range, kind);
        let asked = shield(|| {
            inode
                .ops()
                .lock(inode, LockCall::Test(&mut lock))
                .transpose()
        })?;
        if asked.is_some() {
            return Ok(lock.kind.map(|kind| HeldLock {
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
        wait: Option<&Waiter>,
    ) -> Result<(), Errno> {
        let lock = self.file_lock(owner, range, kind);
        match (self.ask_lock(&lock, WhenBlocked::asleep(wait))?, wait) {
            (Some((context, place)), Some(sleeper)) => {
                context.wait(&self.core.vfs.locks, &place, sleeper)
            }
            _ => Ok(()),
        }
    }

    /// As [`Filp::set_lock`], or a place in line.
    ///
    /// # Errors
    /// `EAGAIN`; `EDEADLK`; `ENOLCK`, also where a wait takes a thread since a backend keeps the
    /// locks; what that meets.
    pub(super) fn ask_lock(
        &self,
        lock: &FileLock,
        wish: WhenBlocked<'_>,
    ) -> Result<Option<QueuedIn>, Errno> {
        let (core, inode) = (self.core, self.inode()?);
        let FileLock { owner, kind, .. } = *lock;
        let range = Range {
            start: lock.start,
            end: lock.end,
        };
        let set = match kind {
            Some(kind) => {
                // Steps that may fail come before a backend sets a lock that the core would not
                // know.
                let context = core.vfs.lock_context(inode, || Ok(self.mount()?.dev))?;
                self.note_locks(owner);
                Some((kind, context))
            }
            None => None,
        };
        let call = LockCall::Set(lock, wish.sleeper());
        let asked = shield(|| inode.ops().lock(inode, call).transpose());
        let asked = asked.map_err(|errno| match errno {
            Errno::EAGAIN if matches!(wish, WhenBlocked::Later) => Errno::ENOLCK,
            other => other,
        })?;
        if asked.is_some() {
            if let Some((_, context)) = set {
                context.note_foreign();
            }
            return Ok(None);
        }
        let Some((kind, context)) = set else {
            let context = inode.locks();
            let freed = context.map_or(Ok(()), |context| {
                context.free(&core.vfs.locks, owner, range)
            });
            return freed.map(|()| None);
        };
        let ask = LockRequest {
            owner,
            range,
            kind,
            pid: lock.pid,
            tenant: core.tenant().clone(),
            charge: WaiterCharge::default(),
        };
        let place = context.ask(&core.vfs.locks, ask, wish)?;
        Ok(place.map(|place| (Arc::clone(context), place)))
    }

    /// Makes a close look for locks (R1 of `lock`).
    fn note_locks(&self, owner: LockOwner) {
        match owner {
            LockOwner::Table(_) => self.core.fds().note_locks(),
            LockOwner::File(_) | LockOwner::Flock(_) => self.note_own_locks(),
            // A face says itself when something is closed.
            LockOwner::Face(..) => {}
        }
    }

    pub(super) fn file_lock(
        &self,
        owner: LockOwner,
        range: Range,
        kind: Option<LockKind>,
    ) -> FileLock {
        FileLock {
            owner,
            kind,
            start: range.start,
            end: range.end,
            pid: match owner {
                LockOwner::File(_) => -1,
                LockOwner::Table(_) | LockOwner::Flock(_) | LockOwner::Face(..) => {
                    self.core.pid.get()
                }
            },
        }
    }
}
