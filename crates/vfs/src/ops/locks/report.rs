// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the file locks of a `Vfs`, or of one file.

use crate::file_ops::Fd;
use crate::instance::Vfs;
use crate::lock::LockInfo;
use crate::task::Task;
use openpath_abi::Errno;

impl Vfs {
    /// Every lock that is held or waited for, file by file; waiters after holders, in the order
    /// they came. Linux: `/proc/locks`.
    ///
    /// Locks that a backend keeps itself ([`crate::InodeOps::lock`]) are not among them. A grant to
    /// a waiter without a thread is, even if its answer was not read yet: such a lock may lie over
    /// others of its owner.
    #[must_use]
    pub fn locks(&self) -> Vec<LockInfo> {
        self.locks_up_to(usize::MAX).0
    }

    /// The first of [`Vfs::locks`], so many at most, and how many more there are.
    #[must_use]
    pub fn locks_up_to(&self, max: usize) -> (Vec<LockInfo>, usize) {
        let (mut all, contexts) = (Vec::new(), self.0.locks.contexts());
        let more = contexts.iter().map(|of| of.report(&mut all, max)).sum();
        (all, more)
    }
}

impl Task {
    /// The locks on the file at `fd`, as in [`Vfs::locks`].
    ///
    /// # Errors
    /// `EBADF`.
    pub fn locks(&self, fd: Fd) -> Result<Vec<LockInfo>, Errno> {
        let file = self.core.fdget(fd)?;
        let mut all = Vec::new();
        if let Some(context) = file.inode()?.locks() {
            context.report(&mut all, usize::MAX);
        }
        Ok(all)
    }
}
