// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records which cached entries a directory has, for backends that invalidate names, and which
//! inodes must have their attributes confirmed by the backend before a descriptor shows them.
//!
//! # Kernel analogue
//! `i_dentry`, the aliases of an inode. A directory has one, unless another program moves it
//! without the core.
//!
//! # Rules
//! R1. An entry is noted before it is live, and dropped when it is freed. A reader of the list may
//!     meet entries that are something else by now. An extra invalidation of them does no harm.

use super::{Attr, Inode, WaitMode};
use openpath_abi::Errno;
use openpath_sync::no_fault_injection;

/// Flag of the attributes' sequence: the backend must confirm them before a descriptor shows them.
const CONFIRM: u64 = 1 << 3;

impl Inode {
    /// The entry at `index` is about to be this directory's.
    pub(crate) fn note_entry(&self, index: u32) {
        if self.is_dir() && !self.entry.swap_if(0, index) {
            let _step = no_fault_injection();
            self.rare().entries.lock().push(index);
        }
    }

    /// The entry at `index` is freed.
    pub(crate) fn drop_entry(&self, index: u32) {
        if !self.is_dir() || self.entry.swap_if(index, 0) {
            return;
        }
        if let Some(rare) = self.rare.get() {
            rare.entries.lock().retain(|&entry| entry != index);
        }
    }

    /// The entries of this directory (R1).
    pub(crate) fn entries(&self) -> Vec<u32> {
        let mut entries = match self.rare.get() {
            Some(rare) => rare.entries.lock().clone(),
            None => Vec::new(),
        };
        entries.extend(Some(self.entry.get()).filter(|&entry| entry != 0));
        entries
    }

    /// From now on its attributes are confirmed before a descriptor shows them.
    pub(crate) fn confirm_attributes(&self) {
        if !self.is_confirmed() {
            self.attr.seq.change().set(CONFIRM);
        }
    }

    /// Whether its attributes are to be confirmed, and its access time is the backend's own.
    #[inline]
    pub(crate) fn is_confirmed(&self) -> bool {
        self.attr.seq.sample().has(CONFIRM)
    }

    /// As [`Inode::attr`]; asks `confirm` first if the attributes must be confirmed.
    ///
    /// # Errors
    /// Those of `confirm`.
    #[inline(always)]
    pub(crate) fn confirmed_attr(
        &self,
        confirm: impl FnOnce(&Self) -> Result<(), Errno>,
    ) -> Result<Attr, Errno> {
        let seq = self.attr.seq.sample();
        if !seq.is_busy() && !seq.has(CONFIRM) {
            let attr = self.attr.read_words();
            if self.attr.seq.is_unchanged(seq) {
                return Ok(attr);
            }
        }
        self.confirmed_slowly(confirm)
    }

    #[cold]
    #[inline(never)]
    fn confirmed_slowly(
        &self,
        confirm: impl FnOnce(&Self) -> Result<(), Errno>,
    ) -> Result<Attr, Errno> {
        if self.is_confirmed() {
            confirm(self)?;
        }
        Ok(self.attr())
    }

    /// Asks the backend to bring the attributes up to date.
    ///
    /// # Errors
    /// What it meets; `EAGAIN` if it would have to wait and may not.
    pub(crate) fn refresh(&self, wait_mode: WaitMode) -> Result<(), Errno> {
        self.shielded(|ops| ops.refresh(self, wait_mode))
    }
}
