// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a close ends: of any descriptor, the locks that its table has on the file; of the last one,
//! those of the open file.
//!
//! # Kernel analogue
//! `locks_remove_posix`, `locks_remove_file`.

use super::{FileLock, LockCall, LockOwner, Range};
use crate::file::Filp;
use crate::inode::{Inode, shield};
use crate::instance::Shared;
use openpath_sync::LastRef;

impl Shared {
    /// Ends all locks that the owner has on an inode that may have some.
    #[cold]
    pub(crate) fn end_locks(&self, inode: &Inode, owner: LockOwner) {
        let Some(context) = inode.locks() else {
            return;
        };
        if !context.free_all(self, owner) {
            return;
        }
        let lock = FileLock {
            owner,
            kind: None,
            start: Range::ALL.start,
            end: Range::ALL.end,
            pid: 0,
        };
        // Nobody is left to be told what it says.
        let _told = shield(|| {
            inode
                .ops()
                .lock(inode, LockCall::Set(&lock, None))
                .transpose()
        });
    }

    /// Ends what an open file has, whose last reference is gone.
    #[cold]
    pub(crate) fn end_file_locks(&self, last: &LastRef) {
        if let Some(inode) = self.dcache.store.dentry_payload(last.pin()) {
            self.end_locks(inode, LockOwner::File(last.id()));
            self.end_locks(inode, LockOwner::Flock(last.id()));
            self.end_lease(inode, last.id());
        }
    }
}

impl Filp<'_> {
    /// Ends all that the owner has locked of the file, whether that may be something or not.
    #[cold]
    pub(super) fn drop_locks(&self, owner: LockOwner) {
        if let Ok(inode) = self.inode() {
            self.core.vfs.end_locks(inode, owner);
        }
    }

    /// A descriptor of it in this table is closed (R1 of the module).
    pub(crate) fn end_table_locks(&self, table: u64) {
        let inode = self.inode().ok();
        if inode.is_some_and(|inode| self.core.vfs.has_locks(inode)) && !self.is_path() {
            self.drop_locks(LockOwner::Table(table));
        }
    }
}
