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

use crate::node::{Access, Face, Node};
use crate::options::{HostOptions, Policy};
use crate::places::Place;
use crate::pool::Pool;
use crate::sys::{Facts, Id, Way};
use crate::watch::Watcher;
use openpath_abi::mode;
use openpath_sync::{Mutex, Word};
use openpath_vfs::lock_order::{HostDevices, HostTable};
use openpath_vfs::{Acls, Inode, flag};
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// By what an inode is found: device, number, and of a directory the mount it is reached through.
type Key = (u64, u64, u64);

/// Bits of an inode number that are the host's where several devices are part of the tree.
const INO_BITS: u32 = 48;

/// What all inodes of a tree share.
pub(crate) struct Tree {
    pub(crate) options: HostOptions,
    pub(crate) way: Way,
    /// `/proc/self/fd`, to reopen what has no name.
    pub(crate) proc: Option<Arc<OwnedFd>>,
    pub(crate) pool: Pool,
    pub(crate) changes: Word,
    pub(crate) watcher: Option<Arc<Watcher>>,
    pub(crate) root_mnt: u64,
    #[cfg(feature = "io-uring")]
    pub(crate) kernel_ring: crate::carry::Lazy,
    table: Mutex<HashMap<Key, Weak<Inode>>, HostTable>,
    devices: Mutex<Vec<u64>, HostDevices>,
}

fn key(facts: &Facts) -> Key {
    let mnt = if facts.kind() == mode::S_IFDIR {
        facts.mnt
    } else {
        0
    };
    (facts.id.dev, facts.id.ino, mnt)
}

impl Tree {
    pub(crate) fn new(
        options: HostOptions,
        (way, proc): (Way, Option<Arc<OwnedFd>>),
        root: &Facts,
        watcher: Option<Arc<Watcher>>,
    ) -> Arc<Self> {
        let pool = Pool::new(options.handles_max);
        Arc::new(Self {
            options,
            way,
            proc,
            pool,
            changes: Word::new(1),
            watcher,
            root_mnt: root.mnt,
            #[cfg(feature = "io-uring")]
            kernel_ring: crate::carry::Lazy::default(),
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

    /// The inode that `facts` tell of, found under `place`: the one that is known, or a new one.
    /// A look that began when `changes` was `seen` brings it up to date. `acls` reads its lists,
    /// where they are needed.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        facts: &Facts,
        place: Option<Place>,
        seen: u64,
        acls: impl FnOnce() -> Acls,
    ) -> Arc<Inode> {
        let key = key(facts);
        let known = self.table.lock().get(&key).and_then(Weak::upgrade);
        if let Some(inode) = &known
            && let Some(node) = Node::of(inode)
            && node.id == facts.id
            && node.may_be_at(place.as_ref())
        {
            if let Some(place) = place {
                node.found_at(place);
            }
            node.learn(inode, facts, seen, acls);
            return Arc::clone(inode);
        }
        let inode = self.make(facts, place, acls());
        // Two may make it at once: the first one entered is it.
        let mut table = self.table.lock();
        let other = table.get(&key).and_then(Weak::upgrade);
        if let Some(other) = other {
            let taken_over = known.as_ref().is_some_and(|k| Arc::ptr_eq(k, &other));
            let same = Node::of(&other).is_some_and(|node| node.id == facts.id);
            if !taken_over && same {
                drop(table);
                if let (Some(first), Some(late)) = (Node::of(&other), Node::of(&inode))
                    && let Some(place) = late.place()
                {
                    first.found_at(place);
                }
                return other;
            }
            table.insert(key, Arc::downgrade(&inode));
            drop(table);
            return inode;
        }
        table.insert(key, Arc::downgrade(&inode));
        inode
    }

    fn make(self: &Arc<Self>, facts: &Facts, place: Option<Place>, acls: Acls) -> Arc<Inode> {
        let node = Node::new(self, facts, place);
        let special = mode::is_chr(facts.attr.mode) || mode::is_blk(facts.attr.mode);
        let rdev = if special { facts.rdev } else { 0 };
        let ops = Box::new(Face(Arc::clone(&node)));
        let number = self.number(facts.id);
        let inode = Inode::new(number, rdev, facts.attr, facts.btime(), ops);
        let mut flags = 0;
        if matches!(facts.kind(), mode::S_IFREG | mode::S_IFDIR)
            && mode::file_type(facts.attr.mode) == facts.kind()
        {
            flags |= flag::OPEN_HOOK | flag::WRITE_HOOK;
        }
        if facts.immutable {
            flags |= flag::IMMUTABLE;
        }
        if facts.append_only {
            flags |= flag::APPEND_ONLY;
        }
        inode.set_flags(flags);
        inode.put_acls(acls);
        node.note_acls(facts);
        node.belongs_to(&inode);
        inode
    }

    /// The inode that `facts` tell of, if it is known.
    pub(crate) fn known(&self, facts: &Facts) -> Option<Arc<Inode>> {
        let known = self.table.lock().get(&key(facts)).and_then(Weak::upgrade);
        known.filter(|inode| Node::of(inode).is_some_and(|node| node.id == facts.id))
    }

    /// All inodes that are known.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        let table = self.table.lock();
        table.values().filter_map(Weak::upgrade).collect()
    }

    /// Forgets an inode that goes.
    pub(crate) fn forget(&self, node: &Node) {
        let mnt = if node.is_dir() { node.mnt } else { 0 };
        let key = (node.id.dev, node.id.ino, mnt);
        let mut table = self.table.lock();
        // Another may have been entered in its place.
        if table.get(&key).is_some_and(|weak| weak.strong_count() == 0) {
            table.remove(&key);
        }
    }
}
