// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounts: which tree covers which directory, for whom.
//!
//! # Kernel analogue
//! `struct mount`, `mount_hashtable`, `mount_lock`. A mount is found by (mount below, directory); a
//! stack of mounts on one directory is a chain in which each covers the root of the one before.
//!
//! # States
//! Made, in no namespace -> in a namespace, mounted on something (in the table) -> out of it, but
//! in use -> free. One that is out may be mounted in another that is out: who is in there still
//! crosses.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | flags | the mount's change | a sample of its life |
//! | parent, point | topology lock and `changes` | a sample of `changes`, or the topology lock |
//! | root, superblock number | once | any time while it lives |
//!
//! # Rules
//! R1. Whoever attaches or detaches holds the topology lock and a change of `changes`; a walk that
//!     crossed a mount asks `changes` afterwards whether it may believe what it found.
//! R2. A mount pins its root and the directory it covers. What it is mounted in needs no pin: that
//!     is freed only when nothing is mounted in it.

mod absent;
mod find;
mod flags;
mod glob;
mod graft;
mod group;
mod hide;
mod info;
mod inner;
mod make;
mod namespace;
mod pivot;
mod place;
mod rootfs;
mod topology;
mod uproot;
mod write;

pub use absent::{AbsentRules, AbsentRulesBuilder};
pub(crate) use find::Cover;
pub use flags::MountFlags;
pub(crate) use graft::From;
pub use group::Propagation;
pub(crate) use hide::Says;
pub use info::MountInfo;
pub(crate) use inner::Inner;
pub(crate) use make::{Depth, Kin, Numbers, SUPERBLOCKS_MAX};
pub use namespace::Namespace;
pub(crate) use rootfs::rootfs;
pub(crate) use topology::Topology;
pub(crate) use uproot::Uproot;
pub(crate) use write::Writing;

use crate::clock::Secrets;
use crate::dcache::Dcache;
use crate::lock_order::MountTopology;
use crate::superblock::SuperBlock;
use openpath_abi::Errno;
use openpath_sync::rcu::RcuCell;
use openpath_sync::{Chain, Life, Table};
use openpath_sync::{HashKey, Item, Mutex, Word, Word32, slab_item};
use std::sync::Arc;

/// Flags of a mount in its life word: what can differ between two mounts of one tree.
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
    /// A root in it was exchanged for another: who starts from it asks whether that was its own.
    pub(crate) const PIVOTED: u64 = 1 << 12;
    /// What keeps a path that starts in a mount from the plain lane.
    pub(crate) const NOT_PLAIN: u64 = PIVOTED | ABSENT;
    /// Some names are absent: walks ask the rules.
    pub(crate) const ABSENT: u64 = 1 << 15;
    /// What can differ between two mounts of one tree.
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
    /// A mount, as the walk sees it.
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

/// What a pin on a mount gives access to.
pub(crate) struct MountData {
    pub(crate) sb: Arc<SuperBlock>,
    /// Unique for the life of the `Vfs` (`STATX_MNT_ID_UNIQUE`).
    pub(crate) id: u64,
    /// Device number of the tree, as `stat` shows it.
    pub(crate) dev: u64,
    /// Not 0 while someone asks whether anything writes through this mount; see `write`.
    pub(crate) asked: Word,
    /// Whether it was found idle by a `MNT_EXPIRE` before.
    pub(crate) expiring: Word,
    /// Rules of absent names; see `hide`.
    pub(crate) hidden: RcuCell<hide::Hidden>,
}

/// All mounts of one `Vfs`.
pub(crate) struct Mounts {
    store: Arc<crate::dcache::Ground>,
    table: Table,
    /// Sequence of attaching and detaching (`mount_lock`).
    pub(crate) changes: Life,
    /// How many mounts are out of their namespace and wait for their last user.
    pub(crate) waiting: Word,
    /// How many roots were exchanged so far.
    pub(crate) pivots: Word,
    pub(crate) topology: Mutex<Topology, MountTopology>,
    /// For the table, should it need another key.
    secrets: Secrets,
}

impl Mounts {
    pub(crate) fn new(dcache: &Dcache, limit: u32, secrets: Secrets) -> Result<Self, Errno> {
        Ok(Self {
            store: Arc::clone(&dcache.store),
            table: Table::new(limit.max(64), HashKey::new(secrets.next()))
                .map_err(|_| Errno::ENOMEM)?,
            changes: Life::default(),
            waiting: Word::new(0),
            pivots: Word::new(0),
            topology: Mutex::new(Topology::default()),
            secrets,
        })
    }

    /// The mount at `index`.
    #[inline(always)]
    pub(crate) fn at(&self, index: u32) -> &MountSlot {
        self.store.mount(index)
    }

    /// The address range of the table's buckets.
    pub(crate) fn span(&self) -> (usize, usize) {
        self.table.span()
    }
}

/// The hash of what is mounted on directory `point` of mount `parent`.
fn hash_at(parent: u32, point: u32, key: HashKey) -> u64 {
    key.hash(u64::from(parent), u64::from(point), 0)
}

impl Chain for Mounts {
    fn link(&self, index: u32) -> &Word32 {
        &self.at(index).link
    }
    fn hash(&self, index: u32, key: HashKey) -> u64 {
        let m = self.at(index);
        hash_at(m.parent.get(), m.point.get(), key)
    }
}
