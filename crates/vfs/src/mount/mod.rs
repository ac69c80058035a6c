// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the mount table: it maps a covered directory of a mount to the mount on it.
//!
//! # Kernel analogue
//! `struct mount`, `mount_hashtable`, `mount_lock`. A mount is found by (mount below, directory); a
//! stack of mounts on one directory is a chain in which each covers the root of the one before.
//!
//! This module has the table of mounts and their topology; `object::mount` has the parts of a
//! mount. `namespace` makes mounts, puts them on directories and takes them off.
//!
//! # States
//! Made, in no namespace -> in a namespace, mounted on something (in the table) -> out of it, but
//! in use -> free. One that is out may be mounted in another that is out: walks inside still cross.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | flags | the mount's change | a sample of its life |
//! | parent, point | topology lock and `changes` | a sample of `changes`, or the topology lock |
//! | root, superblock number | once | any time while it lives |
//!
//! # Rules
//! R1. An attach or detach holds the topology lock and a change of `changes`. A walk that crossed a
//!     mount checks `changes` afterwards before it trusts the result.
//! R2. A mount pins its root and the directory it covers. The mount it is mounted in needs no pin:
//!     that is freed only when nothing is mounted in it.

mod find;
mod flags;
mod group;
mod info;
mod inner;
mod numbers;
mod pivot;
mod rootfs;
mod topology;

pub(crate) use find::MountLookup;
pub use flags::MountFlags;
pub use group::Propagation;
pub use info::MountInfo;
pub(crate) use inner::InternalTree;
pub(crate) use numbers::{Numbers, SUPERBLOCKS_MAX};
pub(crate) use rootfs::rootfs;
pub(crate) use topology::{Node, Topology};

use crate::clock::Secrets;
use crate::dcache::Dcache;
use crate::lock_order::MountTopology;
use crate::object::{MountData, MountSlot, mflag};
use openpath_abi::Errno;
use openpath_sync::{Chain, Life, Table};
use openpath_sync::{HashKey, Mutex, Word, Word32};
use std::sync::Arc;

/// All mounts of one `Vfs`.
pub(crate) struct Mounts {
    store: Arc<crate::object::ObjectStore>,
    table: Table,
    /// Sequence of attaching and detaching (`mount_lock`).
    pub(crate) changes: Life,
    /// How many mounts are out of their namespace and wait for their last user.
    pub(crate) waiting: Word,
    /// How many roots were exchanged so far.
    pub(crate) pivots: Word,
    pub(crate) topology: Mutex<Topology, MountTopology>,
    /// For the table's next key.
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
