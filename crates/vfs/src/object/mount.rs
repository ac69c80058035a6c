// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the fields and flags of a mount, and the data that may be read while a reference (a pin)
//! holds it. `mount` has the rules for them.

use crate::absent::MountRules;
use crate::superblock::SuperBlock;
use openpath_sync::rcu::RcuCell;
use openpath_sync::{Item, Life, Word, Word32, slab_item};
use std::sync::Arc;

/// Flags of a mount in its life word, which can differ between two mounts of one tree.
pub mod mflag {
    /// Nothing may be changed through this mount.
    pub const READ_ONLY: u64 = 1 << 3;
    /// Set-user-id bits do not count.
    pub const NO_SUID: u64 = 1 << 4;
    /// Devices cannot be opened.
    pub const NO_DEV: u64 = 1 << 5;
    /// Programs cannot be executed.
    pub const NO_EXEC: u64 = 1 << 6;
    /// Access times stay.
    pub const NO_ATIME: u64 = 1 << 7;
    /// Access times of directories stay.
    pub const NO_DIR_ATIME: u64 = 1 << 8;
    /// Access times move only when they are behind, or a day old.
    pub const REL_ATIME: u64 = 1 << 9;
    /// Symbolic links are not followed.
    pub const NO_SYM_FOLLOW: u64 = 1 << 10;
    /// Taken out of its namespace, and still in use.
    pub(crate) const OUT: u64 = 1 << 11;
    /// A root in it was exchanged for another: a walk from it checks whether that was its task's
    /// own.
    pub(crate) const PIVOTED: u64 = 1 << 12;
    /// The flags that keep a path from this mount off the plain lane.
    pub(crate) const NOT_PLAIN: u64 = PIVOTED | ABSENT;
    /// Some names are absent: walks ask the rules.
    pub(crate) const ABSENT: u64 = 1 << 15;
    /// The flags that can differ between two mounts of one tree.
    pub const ALL: u64 = READ_ONLY
        | NO_SUID
        | NO_DEV
        | NO_EXEC
        | NO_ATIME
        | NO_DIR_ATIME
        | REL_ATIME
        | NO_SYM_FOLLOW;
}

slab_item! {
    /// The words of a mount that walks read.
    pub(crate) struct MountSlot: MountData {
        /// The mount that this one is mounted in; 0 for the first of a namespace and for a detached
        /// one.
        pub(crate) parent: Word32,
        /// The directory it covers there.
        pub(crate) point: Word32,
        /// Its root entry.
        pub(crate) root: Word32,
        /// Number of its superblock.
        pub(crate) sb: Word32,
        /// Next mount of the chain.
        pub(crate) link: Word32,
    }
}

impl MountSlot {
    /// The life word.
    #[inline(always)]
    pub(crate) fn word(&self) -> &Life {
        self.life()
    }
}

/// The data that a pin on a mount gives access to.
pub(crate) struct MountData {
    pub(crate) sb: Arc<SuperBlock>,
    /// Unique for the life of the `Vfs` (`STATX_MNT_ID_UNIQUE`).
    pub(crate) id: u64,
    /// Device number of the tree, as `stat` shows it.
    pub(crate) dev: u64,
    /// Not 0 while a task looks for writers through this mount; see `task::write`.
    pub(crate) asked: Word,
    /// Whether it was found idle by a `MNT_EXPIRE` before.
    pub(crate) expiring: Word,
    /// Rules of absent names; see `task::rules`.
    pub(crate) absent: RcuCell<MountRules>,
}
