// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds a mount by the directory that it covers, without a lock, and adds mounts to the mount
//! table and removes them.

use super::{Mounts, hash_at};
use crate::path::PathIds;
use openpath_sync::{CHAIN_MAX, Chain, Miss, Probe, Sample, View};

/// The result of a lookup in the mount table.
pub(crate) enum MountLookup {
    /// Nothing is mounted there.
    None,
    /// This mount, sampled; its root, not sampled.
    Mount(u32, Sample, u32),
    /// The table changed meanwhile.
    Changed,
}

impl Mounts {
    /// The mount that covers directory `point` of mount `parent` (`__lookup_mnt`).
    pub(crate) fn cover(&self, parent: u32, point: u32) -> MountLookup {
        let changes = self.changes.sample();
        if changes.is_busy() {
            return MountLookup::Changed;
        }
        let view = self.table.view();
        let mut probe = self.table.probe(&view, hash_at(parent, point, view.key()));
        let mut steps = CHAIN_MAX;
        let found = loop {
            let mut at = probe.head();
            while at != 0 && steps != 0 {
                let m = self.at(at);
                if m.parent.get() == parent && m.point.get() == point {
                    break;
                }
                at = m.link.get();
                steps -= 1;
            }
            if at != 0 {
                let m = self.at(at);
                break MountLookup::Mount(at, m.word().sample(), m.root.get());
            }
            let Some(next) = self.elsewhere(&view, probe, parent, point) else {
                break MountLookup::None;
            };
            probe = next;
        };
        // Whatever changes the table is a change of the mounts, so this covers the search.
        if steps == 0 || !self.changes.is_unchanged(changes) {
            return MountLookup::Changed;
        }
        found
    }

    /// The other chain to look in, while the table changes its key.
    #[inline(always)]
    fn elsewhere(&self, view: &View, probe: Probe, parent: u32, point: u32) -> Option<Probe> {
        if !view.is_moving() {
            return None;
        }
        match self
            .table
            .missed(view, probe, |key| hash_at(parent, point, key))
        {
            Miss::Elsewhere(next) => Some(next),
            Miss::Proved | Miss::Open => None,
        }
    }

    /// As [`Mounts::cover`], waiting for changes to end.
    pub(crate) fn cover_now(&self, parent: u32, point: u32) -> Option<(u32, u32)> {
        loop {
            match self.cover(parent, point) {
                MountLookup::None => return None,
                MountLookup::Mount(mount, _, root) => return Some((mount, root)),
                MountLookup::Changed => openpath_sync::relax(),
            }
        }
    }

    /// Where the mount is mounted: (mount below, directory), as both were at one moment; `None` at
    /// the top.
    pub(crate) fn below(&self, mount: u32) -> Option<(u32, u32)> {
        loop {
            let changes = self.changes.sample();
            let m = self.at(mount);
            let (parent, point) = (m.parent.get(), m.point.get());
            if !changes.is_busy() && self.changes.is_unchanged(changes) {
                return (parent != 0).then_some((parent, point));
            }
            openpath_sync::relax();
        }
    }
}

impl Mounts {
    /// Enters a mount where it is to be. Held: a change of `changes`.
    pub(crate) fn insert(&self, mount: u32, at: PathIds) {
        let m = self.at(mount);
        m.parent.set(at.mount);
        m.point.set(at.dentry);
        if self.table.is_crowded(|key| self.hash(mount, key)) {
            let _tried = self.table.relieve(self, || self.secrets.next());
        }
        self.table
            .lock(|key| self.hash(mount, key))
            .insert(self, mount);
        self.table.grow(self);
    }

    /// Takes a mount out of the table. Held: a change of `changes`.
    pub(crate) fn remove(&self, mount: u32) {
        let m = self.at(mount);
        self.table
            .lock(|key| self.hash(mount, key))
            .remove(self, mount);
        m.parent.set(0);
        m.point.set(0);
    }
}
