// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits everything that a tree holds by one budget of bytes ([`Charging::Memory`]).
//!
//! # Charges
//! | what | bytes |
//! |---|---|
//! | a page of a file, preallocated or written; a long symbolic link | 4096 |
//! | an inode with its first name, whatever its type | [`INODE`] |
//! | each further name | [`NAME`] |
//! | an extended attribute | its name, its value and [`XATTR_HEAD`] |
//!
//! # Rules
//! R1. A charge covers the longest name, and what the core's caches keep for the same file. So the
//!     budget bounds the process that serves the tree, and not only the tree.

use crate::budget::Budget;
use crate::options::{Charging, MemOptions};

/// An inode and its first name. Measured with `openpath run`: 1,700 bytes for an empty file or a
/// directory, 2,400 with a name of 250 bytes, 1,800 for a symbolic link of 120.
pub(crate) const INODE: u64 = 3072;
/// A further name. Measured: 480 bytes, 1,210 with a name of 250.
const NAME: u64 = 1280;
/// An extended attribute besides its name and value: two allocations and a node of a map.
pub(crate) const XATTR_HEAD: u64 = 128;

/// The budget of a tree.
pub(crate) struct MemoryBudget {
    /// Bytes that the user may fill.
    pub(crate) size: u64,
    /// The bytes of `size`, and those for the root and the spare inodes.
    pub(crate) budget: Budget,
}

impl MemoryBudget {
    /// The budget that the options ask for; `None` if the tree is charged as a tmpfs.
    pub(crate) fn new(options: &MemOptions) -> Option<Self> {
        let Charging::Memory { spare_inodes } = options.charging else {
            return None;
        };
        let spare = u64::from(spare_inodes) + 1;
        let limit = options.size.saturating_add(spare * INODE);
        Some(Self {
            size: options.size,
            budget: Budget::new(limit),
        })
    }

    /// What is left for the user.
    pub(crate) fn left(&self) -> u64 {
        self.budget.left().min(self.size)
    }

    /// Bytes of some names, the first of which may come with its inode.
    pub(crate) fn bytes_of(with_inode: bool, names: u64) -> u64 {
        let further = names - u64::from(with_inode);
        further * NAME + if with_inode { INODE } else { 0 }
    }
}
