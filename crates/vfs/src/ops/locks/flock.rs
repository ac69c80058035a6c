// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements flock(2): a lock of an open file on its whole file.
//!
//! # Kernel analogue
//! `sys_flock`, `flock_lock_inode`.

use crate::file::Filp;
use crate::file_ops::Fd;
use crate::lock_call::{LockKind, LockOwner, Range};
use crate::task::Task;
use openpath_abi::Errno;
use openpath_abi::lock::{LOCK_EX, LOCK_MAND, LOCK_NB, LOCK_SH, LOCK_UN};

impl Task {
    /// Sets the lock of the open file at `fd` (`LOCK_SH`, `LOCK_EX`), or ends it (`LOCK_UN`);
    /// waits, unless `LOCK_NB` says not to. All descriptors of the open file share the lock, and
    /// the last close ends it. A change of kind ends the lock that the file has first: a refused or
    /// interrupted change leaves none. Linux: flock(2).
    ///
    /// # Errors
    /// None with `LOCK_MAND`, which does nothing. `EINVAL` (no operation), `EBADF` (not open,
    /// `O_PATH`; open for neither reading nor writing), `EAGAIN` (a lock is in the way), `EINTR`
    /// ([`crate::Interrupter`]), `ENOLCK` (as many as the tenant may have).
    pub fn flock(&self, fd: Fd, op: u32) -> Result<(), Errno> {
        let Some(kind) = kind_of(op)? else {
            return Ok(());
        };
        let file = self.core.fdget_full(fd)?;
        let owner = file.flock_owner(kind)?;
        let wait = (op & LOCK_NB == 0).then_some(&self.core.sleeper);
        file.set_lock(owner, Range::ALL, kind, wait)
    }
}

/// The kind of lock that is asked for, if any; with `LOCK_MAND`, nothing is.
///
/// # Errors
/// `EINVAL`.
pub(super) fn kind_of(op: u32) -> Result<Option<Option<LockKind>>, Errno> {
    if op & LOCK_MAND != 0 {
        return Ok(None);
    }
    match op & !LOCK_NB {
        LOCK_SH => Ok(Some(Some(LockKind::Read))),
        LOCK_EX => Ok(Some(Some(LockKind::Write))),
        LOCK_UN => Ok(Some(None)),
        _ => Err(Errno::EINVAL),
    }
}

impl Filp<'_> {
    /// The owner of a lock of the whole file, of that kind.
    ///
    /// # Errors
    /// `EBADF`: it is open for neither reading nor writing, and not to end it.
    #[inline]
    pub(super) fn flock_owner(&self, kind: Option<LockKind>) -> Result<LockOwner, Errno> {
        if kind.is_some() && !self.readable() && !self.writable() {
            return Err(Errno::EBADF);
        }
        Ok(LockOwner::Flock(self.file().id()))
    }
}
