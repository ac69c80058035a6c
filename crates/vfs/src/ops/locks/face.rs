// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks files for owners whose descriptor tables are not here: a face, such as the FUSE server,
//! says which owner asks for a lock and when it closes a file.
//!
//! # Rules
//! R1. An owner is a table: its locks of a file join, they show the process that it names, and a
//!     wait for itself is refused.
//! R2. Locks end by [`LockFace::end`] or with the face: the face reports each close.
//! R3. flock(2) locks belong to the open file that the face has here; [`Task::flock`] and
//!     [`Task::flock_later`] set them.

use super::args;
use super::later::LockWait;
use crate::file::Filp;
use crate::file_ops::Fd;
use crate::instance::Shared;
use crate::lock::WhenBlocked;
use crate::lock_call::{FileLock, LockKind, LockOwner, Range};
use crate::task::Task;
use openpath_abi::{Errno, Flock};
use openpath_sync::Word;
use std::fmt;
use std::sync::Arc;

/// A face that locks files for its owners. Their locks end with it, and a grant to one of its
/// waiters ends with the wait. Locks that a backend keeps ([`crate::InodeOps::lock`]) stay: the
/// face has no list of them.
///
/// ```
/// # use openpath_abi::{Errno, Flock, fcntl::{O_CREAT, O_RDWR}, lock::{F_UNLCK, F_WRLCK}};
/// # fn example(task: &openpath_vfs::Task) -> Result<(), Errno> {
/// let face = task.lock_face();
/// let fd = task.open(b"/file", O_CREAT | O_RDWR, 0o600)?;
/// let all = Flock { pid: 4711, ..Flock::new(F_WRLCK, 0, 0) };
/// face.setlk(task, fd, 1, &all)?;
/// assert_eq!(face.setlk(task, fd, 2, &all), Err(Errno::EAGAIN));
/// assert_eq!(task.fcntl_getlk(fd, &all)?.pid, 4711);
/// face.end(task, fd, 1)?;
/// assert_eq!(task.fcntl_getlk(fd, &all)?.kind, F_UNLCK);
/// # Ok(())
/// # }
/// ```
pub struct LockFace {
    vfs: Arc<Shared>,
    number: u32,
    /// Not 0: the face is gone; its waiters read this.
    gone: Arc<Word>,
}

impl Task {
    /// A face whose owners lock files of this task's `Vfs`.
    #[must_use]
    pub fn lock_face(&self) -> LockFace {
        let vfs = Arc::clone(&self.core.vfs);
        let number = vfs.locks.new_face();
        LockFace {
            vfs,
            number,
            gone: Arc::default(),
        }
    }
}

impl LockFace {
    fn owner(&self, owner: u64) -> LockOwner {
        LockOwner::Face(self.number, owner)
    }

    /// As [`Task::fcntl_getlk`], for `owner`; with `F_UNLCK`, the first lock that it has of the
    /// range. The file is at `fd` of `task`.
    ///
    /// # Errors
    /// As there.
    pub fn getlk(&self, task: &Task, fd: Fd, owner: u64, ask: &Flock) -> Result<Flock, Errno> {
        let file = task.core.fdget_full(fd)?;
        let (range, kind) = args::meant(&file, ask)?;
        file.test_for(self.owner(owner), ask, range, kind)
    }

    /// As [`Task::fcntl_setlk`], for `owner`, by the process that `ask` names. The face itself
    /// checks that the owner's descriptor is still open.
    ///
    /// # Errors
    /// As there, except for a close meanwhile.
    pub fn setlk(&self, task: &Task, fd: Fd, owner: u64, ask: &Flock) -> Result<(), Errno> {
        let (file, lock) = self.meant(task, fd, owner, ask)?;
        file.ask_lock(&lock, WhenBlocked::Now).map(drop)
    }

    /// As [`LockFace::setlk`], and waits until no lock is in the way: the wait, or `None` if it is
    /// granted.
    ///
    /// # Errors
    /// As [`Task::fcntl_setlkw_later`], except for a close meanwhile.
    pub fn setlkw(
        &self,
        task: &Task,
        fd: Fd,
        owner: u64,
        ask: &Flock,
    ) -> Result<Option<LockWait>, Errno> {
        let (file, lock) = self.meant(task, fd, owner, ask)?;
        let line = file.ask_lock(&lock, WhenBlocked::Later)?;
        Ok(line.map(|line| LockWait::new(line, file, None, Some(Arc::clone(&self.gone)))))
    }

    /// The range and kind of a request.
    fn meant<'t>(
        &self,
        task: &'t Task,
        fd: Fd,
        owner: u64,
        ask: &Flock,
    ) -> Result<(Filp<'t>, FileLock), Errno> {
        let file = task.core.fdget_full(fd)?;
        let (range, kind): (Range, Option<LockKind>) = args::meant(&file, ask)?;
        args::allows(&file, kind)?;
        let lock = FileLock {
            pid: ask.pid,
            ..file.file_lock(self.owner(owner), range, kind)
        };
        Ok((file, lock))
    }

    /// Ends all that `owner` has locked of the file at `fd` of `task`, as its first close of any
    /// descriptor of the file does.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn end(&self, task: &Task, fd: Fd, owner: u64) -> Result<(), Errno> {
        let file = task.core.fdget(fd)?;
        if self.vfs.has_locks(file.inode()?) {
            file.drop_locks(self.owner(owner));
        }
        Ok(())
    }
}

impl Drop for LockFace {
    /// R2. A later grant ends with its wait.
    fn drop(&mut self) {
        self.gone.set(1);
        let is_mine = |owner| matches!(owner, LockOwner::Face(face, _) if face == self.number);
        for context in self.vfs.locks.contexts() {
            let owners = context.record_owners(is_mine);
            for owner in owners {
                context.free_all(&self.vfs.locks, owner);
            }
        }
    }
}

impl fmt::Debug for LockFace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LockFace").field(&self.number).finish()
    }
}
