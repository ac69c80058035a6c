// SPDX-License-Identifier: MIT OR Apache-2.0
//! One directory of the host as a tree: what all of its inodes share.
//!
//! # Fields
//! | field | what |
//! |---|---|
//! | table | inodes by what the host knows them by, so that two names of a file are one inode |
//! | changes | how often attributes were brought up to date after a change of ours |
//! | devices | those of the host that were met, the root's first |
//!
//! A look at the host that began before a change of ours was seen is not used after it. The places
//! of devices tell inode numbers apart.
//!
//! # Rules
//! R1. No lock of the tree is held over a call of the host, nor while an inode is dropped.

use crate::options::{HostOptions, Policy};
use crate::pool::Pool;
use crate::sys::{Facts, Id, Way};
use crate::watches::Watches;
use openpath_abi::mode;
use openpath_sync::{Mutex, Word};
use openpath_vfs::Inode;
use openpath_vfs::lock_order::{HostDevices, HostTable};
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// By what an inode is found: device, number, and of a directory the mount it is reached through.
pub(crate) type Key = (u64, u64, u64);

/// Bits of an inode number that are the host's where several devices are part of the tree.
const INO_BITS: u32 = 48;

/// Whose access time a file is shown with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// The one that reading here moved, if it did since the host's was set.
    Ours,
    /// The host's.
    Hosts,
}

/// What all inodes of a tree share.
pub(crate) struct Tree {
    pub(crate) options: HostOptions,
    pub(crate) way: Way,
    /// `/proc/self/fd`, to reopen what has no name.
    pub(crate) proc: Option<Arc<OwnedFd>>,
    pub(crate) pool: Pool,
    pub(crate) changes: Word,
    pub(crate) watches: Option<Arc<Watches>>,
    pub(crate) root_mnt: u64,
    #[cfg(feature = "io-uring")]
    pub(crate) kernel_ring: crate::kernel_ring::Lazy,
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
        (way, proc): (Way, Option<Arc<OwnedFd>>),
        root: &Facts,
        watches: Option<Arc<Watches>>,
    ) -> Arc<Self> {
        let pool = Pool::new(options.handles_max);
        Arc::new(Self {
            options,
            way,
            proc,
            pool,
            changes: Word::new(1),
            watches,
            root_mnt: root.mnt,
            #[cfg(feature = "io-uring")]
            kernel_ring: crate::kernel_ring::Lazy::default(),
            table: Mutex::new(HashMap::new()),
            devices: Mutex::new(vec![root.id.dev]),
        })
    }

    /// Whether attributes and names stay as they are unless a call of ours changes them.
    pub(crate) fn keeps(&self) -> bool {
        matches!(self.options.policy, Policy::Exclusive | Policy::Notify)
    }

    /// Whose access times files are shown with.
    pub(crate) fn access(&self) -> Access {
        if self.keeps() {
            Access::Ours
        } else {
            Access::Hosts
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
        let place = devices.iter().position(|d| *d == dev);
        let place = place.unwrap_or_else(|| {
            devices.push(dev);
            devices.len() - 1
        });
        ino ^ ((place as u64) << INO_BITS)
    }

    /// All inodes that are known.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        let table = self.table.lock();
        table.values().filter_map(Weak::upgrade).collect()
    }

    /// Forgets an inode that goes.
    pub(crate) fn forget(&self, id: Id, mnt: u64) {
        let key = key(id, mnt);
        let mut table = self.table.lock();
        // Another may have been entered in its place.
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
