// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the state that all inodes of one tree share.
//!
//! # Fields
//! | field | what |
//! |---|---|
//! | table | inodes by their identity on the host, so that two names of a file are one inode |
//! | `change_count` | how many refreshes of attributes followed changes of ours |
//! | devices | the host's devices that were met, the root's first |
//!
//! The result of a look at the host that began before a change of ours is discarded once the change
//! was seen. The index of its device keeps inode numbers of different devices apart.
//!
//! # Rules
//! R1. No lock of the tree is held over a call of the host, nor while an inode is dropped.

use crate::options::{HostOptions, Policy};
use crate::pool::Pool;
use crate::sys::{HostStat, Id, PathOpener};
use crate::watches::Watches;
use openpath_abi::mode;
use openpath_sync::{Mutex, Word};
use openpath_vfs::Inode;
use openpath_vfs::lock_order::{HostDevices, HostTable};
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The key of an inode: device, number, and for a directory the mount it is reached through.
pub(crate) type Key = (u64, u64, u64);

/// Bits of an inode number that are the host's where several devices are part of the tree.
const INO_BITS: u32 = 48;

/// Where the access time that a file shows comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AtimeSource {
    /// From reads here, if there was one since the host's was set.
    Own,
    /// From the host.
    Host,
}

/// The state that all inodes of a tree share.
pub(crate) struct Tree {
    pub(crate) options: HostOptions,
    pub(crate) opener: PathOpener,
    /// `/proc/self/fd`, to reopen files without a name.
    pub(crate) proc: Option<Arc<OwnedFd>>,
    pub(crate) pool: Pool,
    pub(crate) change_count: Word,
    pub(crate) watches: Option<Arc<Watches>>,
    pub(crate) root_mnt: u64,
    #[cfg(feature = "io-uring")]
    pub(crate) kernel_ring: crate::kernel_ring::LazyRing,
    pub(crate) table: Mutex<HashMap<Key, Weak<Inode>>, HostTable>,
    devices: Mutex<Vec<u64>, HostDevices>,
}

pub(crate) fn key(id: Id, mnt: u64) -> Key {
    let mnt = if mode::is_dir(id.kind()) { mnt } else { 0 };
    (id.dev, id.ino, mnt)
}

impl Tree {
    pub(crate) fn new(
        options: HostOptions,
        (opener, proc): (PathOpener, Option<Arc<OwnedFd>>),
        root: &HostStat,
        watches: Option<Arc<Watches>>,
    ) -> Arc<Self> {
        let pool = Pool::new(options.handles_max);
        Arc::new(Self {
            options,
            opener,
            proc,
            pool,
            change_count: Word::new(1),
            watches,
            root_mnt: root.mnt,
            #[cfg(feature = "io-uring")]
            kernel_ring: crate::kernel_ring::LazyRing::default(),
            table: Mutex::new(HashMap::new()),
            devices: Mutex::new(vec![root.id.dev]),
        })
    }

    /// Whether attributes and names are cached until a call of ours changes them.
    pub(crate) fn caches_attributes(&self) -> bool {
        matches!(self.options.policy, Policy::Exclusive | Policy::Notify)
    }

    /// Where access times come from.
    pub(crate) fn atime_source(&self) -> AtimeSource {
        if self.caches_attributes() {
            AtimeSource::Own
        } else {
            AtimeSource::Host
        }
    }

    /// Whether files are held open beyond their openings.
    pub(crate) fn keeps_handles(&self) -> bool {
        self.options.policy != Policy::None
    }

    /// The number that an inode of the host is shown with.
    pub(crate) fn number(&self, id: Id) -> u64 {
        self.number_on(id.dev, id.ino)
    }

    /// As [`Tree::number`], from device and number.
    pub(crate) fn number_on(&self, dev: u64, ino: u64) -> u64 {
        let mut devices = self.devices.lock();
        let index = devices.iter().position(|d| *d == dev);
        let index = index.unwrap_or_else(|| {
            devices.push(dev);
            devices.len() - 1
        });
        ino ^ ((index as u64) << INO_BITS)
    }

    /// All inodes in the table.
    pub(crate) fn all_inodes(&self) -> Vec<Arc<Inode>> {
        let table = self.table.lock();
        table.values().filter_map(Weak::upgrade).collect()
    }

    /// Removes the entry of an inode that is dropped.
    pub(crate) fn forget(&self, id: Id, mnt: u64) {
        let key = key(id, mnt);
        let mut table = self.table.lock();
        // Another inode may have been entered under this key.
        if table.get(&key).is_some_and(|weak| weak.strong_count() == 0) {
            table.remove(&key);
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Some(watches) = &self.watches {
            watches.end();
        }
    }
}
