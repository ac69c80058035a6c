// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounts come and go.

use super::{Anchors, MountData, Mounts, Topology, mflag};
use crate::dcache::dflag;
use crate::instance::Shared;
use crate::superblock::{Seat, SuperBlock};
use crate::walk::Spot;
use openpath_abi::{Errno, stat};
use openpath_sync::Word;
use std::sync::Arc;

impl Shared {
    /// The place of `sb` in this `Vfs`, taken now if it has none.
    ///
    /// # Errors
    /// `EBUSY` if another `Vfs` uses it; `ENOMEM`.
    fn seat(&self, sb: &SuperBlock) -> Result<Seat, Errno> {
        let mut seat = sb.seat.lock();
        if let Some(taken) = *seat {
            return if taken.vfs == self.id {
                Ok(taken)
            } else {
                Err(Errno::EBUSY)
            };
        }
        let number = self.superblocks.lock().take().ok_or(Errno::ENOMEM)?;
        let root = self.dcache.add_root(Arc::clone(sb.root()), number)?;
        let options = sb.options();
        let dev = if options.dev == 0 {
            stat::makedev(0, number + 20)
        } else {
            options.dev
        };
        let new = Seat {
            vfs: self.id,
            root,
            number,
            dev,
            mounts: 0,
        };
        *seat = Some(new);
        Ok(new)
    }

    /// A new mount of `sb` that shows the tree below `root` (its own root if `None`), attached
    /// nowhere.
    ///
    /// # Errors
    /// `EBUSY` if another `Vfs` uses the superblock; `ENOSPC` at the limit of mounts; `ENOMEM`.
    pub(crate) fn new_mount(
        &self,
        topology: &mut Topology,
        sb: &Arc<SuperBlock>,
        root: Option<u32>,
        flags: u64,
    ) -> Result<u32, Errno> {
        let seat = self.seat(sb)?;
        let root = root.unwrap_or(seat.root);
        let pin = self.house.lock().pin_now(0, root).ok_or(Errno::ENOMEM)?;
        let new = self.dcache.store.new_mount(|m, change| {
            m.parent.set(0);
            m.point.set(0);
            m.root.set(root);
            m.sb.set(seat.number);
            m.link.set(0);
            change.replace(flags & mflag::ALL);
        });
        let Some((mount, _)) = new else {
            self.dcache.store.release(pin);
            return Err(Errno::ENOSPC);
        };
        topology.made += 1;
        let data = MountData {
            sb: Arc::clone(sb),
            id: topology.made,
            dev: seat.dev,
            asked: Word::new(0),
            expiring: Word::new(0),
        };
        // A fresh slot has no payload, so this cannot be refused.
        let _taken = self.dcache.store.set_mount_payload(mount, Arc::new(data));
        topology.anchors.insert(
            mount,
            Anchors {
                root: pin,
                point: None,
            },
        );
        if let Some(seat) = &mut *sb.seat.lock() {
            seat.mounts += 1;
        }
        Ok(mount)
    }

    /// Puts `mount` on the directory `at` (or file on a file). Held: the topology lock.
    ///
    /// # Errors
    /// `ENOENT` if the place went away; `ENOMEM`.
    pub(crate) fn attach(
        &self,
        topology: &mut Topology,
        mount: u32,
        at: Spot,
    ) -> Result<(), Errno> {
        let d = self.dcache.at(at.dentry);
        if d.word().sample().has(dflag::UNHASHED) && !d.word().sample().has(dflag::ROOT) {
            return Err(Errno::ENOENT);
        }
        let pin = self
            .house
            .lock()
            .pin_now(at.mount, at.dentry)
            .ok_or(Errno::ENOMEM)?;
        if let Some(anchors) = topology.anchors.get_mut(&mount) {
            anchors.point = Some(pin);
        }
        topology.cover(at.dentry);
        topology.children.entry(at.mount).or_default().push(mount);
        // What is found below this directory changes, for paths as for steps.
        let moved = self.dcache.begin_dir_change(at.dentry);
        let changes = self.mounts.changes.change();
        self.dcache.set_flags(at.dentry, dflag::MOUNTED, 0);
        self.mounts.insert(mount, at);
        drop(changes);
        drop(moved);
        Ok(())
    }

    /// Takes `mount` off what it covers, pinned or not. Held: the topology lock.
    pub(crate) fn detach(&self, topology: &mut Topology, mount: u32) {
        let Some((parent, point)) = self.mounts.below(mount) else {
            return;
        };
        let last = topology.uncover(point);
        if let Some(siblings) = topology.children.get_mut(&parent) {
            siblings.retain(|&m| m != mount);
        }
        let moved = self.dcache.begin_dir_change(point);
        let changes = self.mounts.changes.change();
        self.mounts.remove(mount);
        if last {
            self.dcache.set_flags(point, 0, dflag::MOUNTED);
        }
        drop(changes);
        drop(moved);
        if let Some(pin) = topology
            .anchors
            .get_mut(&mount)
            .and_then(|a| a.point.take())
        {
            self.dcache.store.release(pin);
        }
    }

    /// Frees `mount` and detaches it if nobody pins it; whether it went. Held: the topology lock.
    pub(crate) fn free_mount(&self, topology: &mut Topology, mount: u32) -> bool {
        let mut victims = vec![mount];
        let mut freed = None;
        self.dcache
            .store
            .reclaim_mounts(&mut victims, |index, _, data| {
                // Still dying: whoever finds it in the table waits, and then finds nothing.
                self.detach(topology, index);
                freed = data;
            });
        let Some(data) = freed else { return false };
        topology.children.remove(&mount);
        if let Some(anchors) = topology.anchors.remove(&mount) {
            self.dcache.store.release(anchors.root);
        }
        self.leave_seat(&data.sb);
        true
    }

    /// Counts one mount less of `sb`; the last one takes its entries along.
    fn leave_seat(&self, sb: &SuperBlock) {
        let mut seat = sb.seat.lock();
        let Some(mine) = &mut *seat else { return };
        mine.mounts -= 1;
        if mine.mounts == 0 {
            let gone = *mine;
            *seat = None;
            drop(seat);
            self.tell_unmounted(sb);
            self.dcache.forget_tree(gone.root);
            self.dcache.bury_root(gone.root);
            self.superblocks.lock().give(gone.number);
        }
    }

    /// Frees detached mounts that nobody pins any more. Held: the topology lock.
    pub(crate) fn sweep_detached(&self, topology: &mut Topology) {
        let waiting = core::mem::take(&mut topology.detached);
        for mount in waiting {
            if !self.free_mount(topology, mount) {
                topology.detached.push(mount);
            }
        }
    }
}

impl Mounts {
    fn insert(&self, mount: u32, at: Spot) {
        let m = self.at(mount);
        m.parent.set(at.mount);
        m.point.set(at.dentry);
        self.table
            .lock(self.hash_of(at.mount, at.dentry))
            .insert(self, mount);
        self.table.grow(self);
    }

    fn remove(&self, mount: u32) {
        let m = self.at(mount);
        self.table
            .lock(self.hash_of(m.parent.get(), m.point.get()))
            .remove(self, mount);
        m.parent.set(0);
        m.point.set(0);
    }
}

/// Numbers of superblocks in one `Vfs`.
#[derive(Default)]
pub(crate) struct Numbers {
    free: Vec<u32>,
    fresh: u32,
}

/// How many superblocks one `Vfs` can have at a time.
pub(crate) const SUPERBLOCKS_MAX: u32 = 1 << 16;

impl Numbers {
    fn take(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            (self.fresh < SUPERBLOCKS_MAX - 1).then(|| {
                self.fresh += 1;
                self.fresh
            })
        })
    }

    fn give(&mut self, number: u32) {
        self.free.push(number);
    }
}
