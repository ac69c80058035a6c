// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements lock requests that wait without a thread ([`LockWait`]).
//!
//! # Kernel analogue
//! `FILE_LOCK_DEFERRED` and `lm_grant`, by which a server of NFS waits.
//!
//! # States
//! In line -> answered by a release, which calls its waker -> read. It leaves the line when it is
//! ended or dropped.
//!
//! # Rules
//! R1. It costs its tenant a lock until its answer is read, so that waits are limited as locks are.
//! R2. A grant is a claim, and becomes a lock when the answer is read. A wait dropped before that
//!     leaves its owner's locks as they are.
//! R3. The file stays open while it is waited for.
//!
//! # Divergence: L86

use super::calls::{QueuedIn, RecordOwner};
use super::flock::kind_of;
use crate::file::{Filp, OpenFile};
use crate::file_ops::Fd;
use crate::instance::Shared;
use crate::lock::{LockContext, QueuePosition, WhenBlocked};
use crate::lock_call::{LockOwner, Range};
use crate::task::Task;
use openpath_abi::lock::LOCK_NB;
use openpath_abi::{Errno, Flock};
use openpath_sync::Word;
use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// A request for a lock that waits in line without a thread. Its owner has the lock from the moment
/// the answer is read. Dropped before that, it is taken back, and nothing is changed.
///
/// Any thread may have it. A wait that began by a [`Task`]'s call is asked by [`Task::lock_wait`]
/// and ended by [`Task::lock_end`]; a face asks it itself.
#[must_use = "it waits for as long as this lives"]
pub struct LockWait {
    vfs: Arc<Shared>,
    context: Arc<LockContext>,
    place: QueuePosition,
    /// Of a table's lock: the descriptor, which must be there still when it is granted.
    fd: Option<Fd>,
    /// Of a face's: not 0 when that is gone, and would not end a grant.
    gone: Option<Arc<Word>>,
    file: OpenFile,
}

impl LockWait {
    /// Of a table's lock, with the descriptor it asks by.
    pub(super) fn new(
        (context, place): QueuedIn,
        file: Filp<'_>,
        fd: Option<Fd>,
        gone: Option<Arc<Word>>,
    ) -> Self {
        let core = file.core;
        core.pins.share_file(file.file());
        Self {
            vfs: Arc::clone(&core.vfs),
            context,
            place,
            fd,
            gone,
            file: OpenFile::new(Arc::clone(&core.vfs), file.into_ref()),
        }
    }

    /// Whether it has its answer. If not, the release calls `waker` once, in whichever thread; it
    /// may take no lock that its caller could hold.
    ///
    /// The answer is `EDEADLK` (it would wait for itself), `ENOLCK` (as many locks as the tenant
    /// may have), or that it is granted.
    ///
    /// Of a lock of a [`Task`]'s table this is no more than a look: it becomes the task's by
    /// [`Task::lock_wait`] or [`Task::lock_end`], which check that its descriptor is still there.
    pub fn poll(&self, waker: &Waker) -> Poll<Result<(), Errno>> {
        match self.place.answer.poll(waker) {
            Some(told) => Poll::Ready(self.told(told)),
            None => Poll::Pending,
        }
    }

    /// Ends the wait: the answer, if it came before that. Of a lock of a [`Task`]'s table no more
    /// than a look, as [`LockWait::poll`].
    pub fn end(&self) -> Option<Result<(), Errno>> {
        self.context.leave(&self.vfs.locks, &self.place);
        self.place.answer.end().map(|told| self.told(told))
    }

    /// The answer once it is read; of a table's lock, without reading it.
    fn told(&self, told: Result<(), Errno>) -> Result<(), Errno> {
        match self.fd {
            Some(_) => told,
            None => self.hear(told),
        }
    }

    /// The answer once it is read (R2); if the claim has ended, the answer that it left.
    fn hear(&self, told: Result<(), Errno>) -> Result<(), Errno> {
        let heard = self.context.hear(&self.vfs.locks, &self.place);
        heard.or_else(|| self.place.answer.get()).unwrap_or(told)
    }
}

impl Drop for LockWait {
    fn drop(&mut self) {
        self.context.give_up(&self.vfs.locks, &self.place);
        self.place.answer.end();
        if self.gone.as_ref().is_some_and(|gone| gone.get() != 0) {
            self.context.free_all(&self.vfs.locks, self.place.owner);
        }
    }
}

impl fmt::Debug for LockWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockWait")
            .field("owner", &self.place.owner)
            .finish_non_exhaustive()
    }
}

impl Task {
    /// As [`Task::fcntl_setlkw`], but that no thread waits: what waits, or nothing if there is
    /// nothing to wait for. Its answer may be `EBADF` too (closed meanwhile).
    ///
    /// ```
    /// # use openpath_abi::{Errno, Flock, fcntl::{O_CREAT, O_RDWR}, lock::{F_UNLCK, F_WRLCK}};
    /// # use std::task::{Poll, Waker};
    /// # fn example(task: &openpath_vfs::Task) -> Result<(), Errno> {
    /// let other = task.fork()?;
    /// let fd = task.open(b"/file", O_CREAT | O_RDWR, 0o600)?;
    /// let its = other.open(b"/file", O_RDWR, 0)?;
    /// let all = Flock::new(F_WRLCK, 0, 0);
    /// assert!(task.fcntl_setlkw_later(fd, &all)?.is_none(), "granted");
    /// let wait = other.fcntl_setlkw_later(its, &all)?.expect("a lock is in the way");
    /// assert!(other.lock_wait(&wait, Waker::noop()).is_pending());
    /// task.fcntl_setlk(fd, &Flock::new(F_UNLCK, 0, 0))?;
    /// assert_eq!(other.lock_wait(&wait, Waker::noop()), Poll::Ready(Ok(())));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Task::fcntl_setlkw`], but for `EINTR`. `ENOLCK` also where a backend keeps the locks
    /// ([`crate::InodeOps::lock`]) and a lock is in the way: that wait takes a thread; and where
    /// the tenant may have no more locks than it has and waits for.
    pub fn fcntl_setlkw_later(&self, fd: Fd, ask: &Flock) -> Result<Option<LockWait>, Errno> {
        let (file, owner, range, kind) = self.record(fd, ask, RecordOwner::Table)?;
        let lock = file.file_lock(owner, range, kind);
        let line = file.ask_lock(&lock, WhenBlocked::Later)?;
        if kind.is_some() && line.is_none() {
            self.keep_lock(fd, &file, owner)?;
        }
        Ok(line.map(|line| LockWait::new(line, file, Some(fd), None)))
    }

    /// As [`Task::ofd_setlkw`], but that no thread waits.
    ///
    /// # Errors
    /// As [`Task::ofd_setlkw`], but for `EINTR`; `ENOLCK` as for [`Task::fcntl_setlkw_later`].
    pub fn ofd_setlkw_later(&self, fd: Fd, ask: &Flock) -> Result<Option<LockWait>, Errno> {
        let (file, owner, range, kind) = self.record(fd, ask, RecordOwner::File)?;
        let lock = file.file_lock(owner, range, kind);
        let line = file.ask_lock(&lock, WhenBlocked::Later)?;
        Ok(line.map(|line| LockWait::new(line, file, None, None)))
    }

    /// As [`Task::flock`], but that no thread waits.
    ///
    /// # Errors
    /// As [`Task::flock`], but for `EINTR`; `ENOLCK` as for [`Task::fcntl_setlkw_later`].
    pub fn flock_later(&self, fd: Fd, op: u32) -> Result<Option<LockWait>, Errno> {
        let Some(kind) = kind_of(op)? else {
            return Ok(None);
        };
        let file = self.core.fdget_full(fd)?;
        let owner = file.flock_owner(kind)?;
        let lock = file.file_lock(owner, Range::ALL, kind);
        let wish = if op & LOCK_NB == 0 {
            WhenBlocked::Later
        } else {
            WhenBlocked::Now
        };
        let line = file.ask_lock(&lock, wish)?;
        Ok(line.map(|line| LockWait::new(line, file, None, None)))
    }

    /// Whether what waits for a lock of this task has its answer; else as [`LockWait::poll`].
    #[must_use = "what is not looked at is asked again"]
    pub fn lock_wait(&self, wait: &LockWait, waker: &Waker) -> Poll<Result<(), Errno>> {
        wait.poll(waker).map(|told| self.heard(wait, told))
    }

    /// Ends what waits for a lock of this task: the answer, if it came before that.
    pub fn lock_end(&self, wait: &LockWait) -> Option<Result<(), Errno>> {
        wait.end().map(|told| self.heard(wait, told))
    }

    /// What the answer is now, of which what was granted becomes a lock.
    fn heard(&self, wait: &LockWait, told: Result<(), Errno>) -> Result<(), Errno> {
        told?;
        let Some(fd) = wait.fd else { return Ok(()) };
        let file = self.asked_by(wait, fd).inspect_err(|_| {
            wait.context.give_up(&wait.vfs.locks, &wait.place);
        })?;
        match wait.context.hear(&wait.vfs.locks, &wait.place) {
            Some(set) => {
                set?;
                self.keep_lock(fd, &file, wait.place.owner)
            }
            // It was heard before.
            None => wait.place.answer.get().unwrap_or(told),
        }
    }

    /// The file, if this task still has it where it was asked for a lock of its table.
    ///
    /// # Errors
    /// `EBADF`: no close would end the lock.
    fn asked_by(&self, wait: &LockWait, fd: Fd) -> Result<Filp<'_>, Errno> {
        let file = Filp::hold(&self.core, wait.file.lend(&self.core)?);
        let table = LockOwner::Table(self.core.fds().number());
        if wait.place.owner == table && self.core.fds().still_has(fd, &file) {
            Ok(file)
        } else {
            Err(Errno::EBADF)
        }
    }
}
