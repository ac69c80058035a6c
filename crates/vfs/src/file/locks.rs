// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends the locks of a descriptor table on a file that the table closes a descriptor of, and marks
//! an open file that has locks or a lease of its own.
//!
//! # Kernel analogue
//! `locks_remove_posix`.

use super::Filp;
use crate::lock_call::LockOwner;
use crate::object::fbit;

impl Filp<'_> {
    /// Ends all locks of the owner on the file, whether or not it has any.
    #[cold]
    pub(crate) fn drop_locks(&self, owner: LockOwner) {
        if let Ok(inode) = self.inode() {
            self.core.vfs.end_locks(inode, owner);
        }
    }

    /// Ends the table's locks when a descriptor of the file is closed there (R1 of `lock`).
    pub(crate) fn end_table_locks(&self, table: u64) {
        let inode = self.inode().ok();
        if inode.is_some_and(|inode| self.core.vfs.has_locks(inode)) && !self.is_path() {
            self.drop_locks(LockOwner::Table(table));
        }
    }

    /// Makes the last put look for the file's own locks or lease (R1 of `lock`).
    pub(crate) fn note_own_locks(&self) {
        let bits = &self.body().bits;
        if bits.get() & fbit::LOCKED == 0 {
            bits.set_bits(fbit::LOCKED);
        }
    }
}
