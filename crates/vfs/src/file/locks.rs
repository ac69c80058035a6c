// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a close of a descriptor ends: the locks that its table has on the file.
//!
//! # Kernel analogue
//! `locks_remove_posix`.

use super::Filp;
use crate::lock_call::LockOwner;
use crate::object::fbit;

impl Filp<'_> {
    /// Ends all that the owner has locked of the file, whether that may be something or not.
    #[cold]
    pub(crate) fn drop_locks(&self, owner: LockOwner) {
        if let Ok(inode) = self.inode() {
            self.core.vfs.end_locks(inode, owner);
        }
    }

    /// A descriptor of it in this table is closed (R1 of `lock`).
    pub(crate) fn end_table_locks(&self, table: u64) {
        let inode = self.inode().ok();
        if inode.is_some_and(|inode| self.core.vfs.has_locks(inode)) && !self.is_path() {
            self.drop_locks(LockOwner::Table(table));
        }
    }

    /// Has whoever ends it look for what it has itself: locks, or a lease (R1 of `lock`).
    pub(crate) fn note_own_locks(&self) {
        let bits = &self.body().bits;
        if bits.get() & fbit::LOCKED == 0 {
            bits.set_bits(fbit::LOCKED);
        }
    }
}
