// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends the locks of an owner on an inode, and the locks and the lease of an open file at its last
//! close.
//!
//! # Kernel analogue
//! `locks_remove_file`.

use crate::inode::{Inode, shield};
use crate::instance::Shared;
use crate::lock_call::{FileLock, LockCall, LockOwner, Range};
use openpath_sync::LastRef;

impl Shared {
    /// Ends all locks that the owner has on an inode that may have some.
    #[cold]
    pub(crate) fn end_locks(&self, inode: &Inode, owner: LockOwner) {
        let Some(context) = inode.locks() else {
            return;
        };
        if !context.free_all(&self.locks, owner) {
            return;
        }
        let lock = FileLock {
            owner,
            kind: None,
            start: Range::ALL.start,
            end: Range::ALL.end,
            pid: 0,
        };
        // No caller is left to report its answer to.
        let _told = shield(|| {
            inode
                .ops()
                .lock(inode, LockCall::Set(&lock, None))
                .transpose()
        });
    }

    /// Ends the locks and the lease of an open file that has lost its last reference.
    #[cold]
    pub(crate) fn end_file_locks(&self, last: &LastRef) {
        if let Some(inode) = self.dcache.store.dentry_payload(last.pin()) {
            self.end_locks(inode, LockOwner::File(last.id()));
            self.end_locks(inode, LockOwner::Flock(last.id()));
            self.end_lease(inode, last.id());
        }
    }
}
