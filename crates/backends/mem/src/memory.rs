// SPDX-License-Identifier: MIT OR Apache-2.0
//! One budget of bytes for everything that a tree holds ([`Charging::Memory`]).
//!
//! # Charges
//! | what | bytes |
//! |---|---|
//! | a page of a file, set aside or written; a long symbolic link | 4096 |
//! | an inode with its first name, whatever its type | [`INODE`] |
//! | each further name | [`NAME`] |
//! | an extended attribute | its name, its value and [`XATTR_HEAD`] |
//!
//! # Rules
//! R1. A charge covers the longest name, and what the caches above keep for the same file, so that
//!     the budget bounds the process that serves the tree and not the tree alone.

use crate::options::{Charging, MemOptions};
use crate::pool::Pool;

/// An inode and its first name. Measured with `openpath run`: 1,700 bytes for an empty file or a
/// directory, 2,400 with a name of 250 bytes, 1,800 for a symbolic link of 120.
pub(crate) const INODE: u64 = 3072;
/// A further name. Measured: 480 bytes, 1,210 with a name of 250.
const NAME: u64 = 1280;
/// An extended attribute besides its name and value: two allocations and a place in a tree.
pub(crate) const XATTR_HEAD: u64 = 128;

/// The budget of a tree.
pub(crate) struct Memory {
    /// Bytes that the user may fill.
    pub(crate) size: u64,
    /// These, and the bytes for the root and the spare inodes.
    pub(crate) pool: Pool,
}

impl Memory {
    /// As the options say; `None` if the tree is charged as a tmpfs.
    pub(crate) fn new(options: &MemOptions) -> Option<Self> {
        let Charging::Memory { spare_inodes } = options.charging else {
            return None;
        };
        let spare = u64::from(spare_inodes) + 1;
        let limit = options.size.saturating_add(spare * INODE);
        Some(Self {
            size: options.size,
            pool: Pool::new(limit),
        })
    }

    /// What is left for the user.
    pub(crate) fn left(&self) -> u64 {
        self.pool.left().min(self.size)
    }

    /// Bytes of some places, of which one may be an inode's.
    pub(crate) fn of_places(with_inode: bool, places: u64) -> u64 {
        let names = places - u64::from(with_inode);
        names * NAME + if with_inode { INODE } else { 0 }
    }
}
