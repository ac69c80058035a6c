// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes, copies and frees mounts.
//!
//! # Kernel analogue
//! `alloc_vfsmnt`, `clone_mnt`, `copy_tree`, `cleanup_mnt`.

use crate::dcache::tree_flags;
use crate::instance::Shared;
use crate::mount::{Node, Topology};
use crate::object::{MountData, mflag};
use crate::path::PathIds;
use crate::superblock::{SuperBinding, SuperBlock};
use openpath_abi::{Errno, stat};
use openpath_sync::Word;
use openpath_sync::rcu::RcuCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The propagation of a copy of a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyPropagation {
    /// The same as the original: a peer if that has peers, a slave if that is one.
    Peer,
    /// A slave of the original, which is shared; with peers of its own if `shared`.
    Slave {
        /// It has peers of its own.
        shared: bool,
    },
}

/// Which mounts of a tree are copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyDepth {
    /// The first alone.
    One,
    /// All except unbindable ones, and the mounts below them.
    Bindable,
    /// All.
    All,
}

impl Shared {
    /// The number of `sb` in this `Vfs`, assigned now if it has none.
    ///
    /// # Errors
    /// `EBUSY` if another `Vfs` uses it; `ENOMEM`.
    fn binding(&self, sb: &SuperBlock) -> Result<SuperBinding, Errno> {
        let mut binding = sb.binding.lock();
        if let Some(taken) = &*binding {
            return if taken.vfs == self.id {
                Ok(taken.clone())
            } else {
                Err(Errno::EBUSY)
            };
        }
        let number = self.superblocks.lock().take().ok_or(Errno::ENOMEM)?;
        let options = sb.options();
        let root = Arc::clone(sb.root());
        let root = self.dcache.add_root(root, number, tree_flags(options));
        let root = root.inspect_err(|_| self.superblocks.lock().give(number))?;
        let dev = if options.dev == 0 {
            stat::makedev(0, number + 20)
        } else {
            options.dev
        };
        let new = SuperBinding {
            vfs: self.id,
            owner: self.weak_self.get().cloned().unwrap_or_default(),
            root,
            number,
            dev,
            mounts: 0,
        };
        *binding = Some(new.clone());
        Ok(new)
    }

    /// A new mount of `sb` that shows the tree below `root` (its own root if `None`), private,
    /// mounted nowhere and in no namespace.
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
        let binding = self.binding(sb)?;
        let new = self.new_mount_of(topology, sb, binding, root, flags);
        if new.is_err() {
            self.vacate(sb);
        }
        new
    }

    /// As [`Shared::new_mount`], of a superblock that has a number.
    fn new_mount_of(
        &self,
        topology: &mut Topology,
        sb: &Arc<SuperBlock>,
        binding: SuperBinding,
        root: Option<u32>,
        flags: u64,
    ) -> Result<u32, Errno> {
        let root = root.unwrap_or(binding.root);
        let pin = self
            .mount_pins
            .lock()
            .pin_now(0, root)
            .ok_or(Errno::ENOMEM)?;
        let new = self.dcache.store.new_mount(|m, change| {
            m.parent.set(0);
            m.point.set(0);
            m.root.set(root);
            m.sb.set(binding.number);
            m.link.set(0);
            change.replace(flags & mflag::ALL);
        });
        let Some((mount, _)) = new else {
            self.dcache.store.release(pin);
            return Err(Errno::ENOSPC);
        };
        topology.made += 1;
        let data = Arc::new(MountData {
            sb: Arc::clone(sb),
            id: topology.made,
            dev: binding.dev,
            asked: Word::new(0),
            expiring: Word::new(0),
            absent: RcuCell::empty(),
        });
        // A fresh slot has no payload, so this cannot be refused.
        let _taken = self
            .dcache
            .store
            .set_mount_payload(mount, Arc::clone(&data));
        let node = Node {
            data,
            root: pin,
            point: None,
            namespace: 0,
            children: BTreeSet::new(),
            group: 0,
            master: 0,
            unbindable: false,
            rules: None,
        };
        topology.nodes.insert(mount, node);
        if let Some(binding) = &mut *sb.binding.lock() {
            binding.mounts += 1;
        }
        Ok(mount)
    }

    /// A mount that shows the place `from`, with the flags and rules of that mount (`clone_mnt`).
    /// It is bindable, even if that one is not.
    ///
    /// # Errors
    /// As [`Shared::new_mount`].
    fn copy_mount(
        &self,
        topology: &mut Topology,
        from: PathIds,
        kin: CopyPropagation,
    ) -> Result<u32, Errno> {
        let old = topology.node(from.mount)?;
        let (sb, group, master) = (Arc::clone(&old.data.sb), old.group, old.master);
        let flags = self.mounts.at(from.mount).word().sample().flags();
        let new = self.new_mount(topology, &sb, Some(from.dentry), flags)?;
        if let Err(errno) = self.copy_absent_rules(topology, from.mount, new) {
            self.discard(topology, &[new]);
            return Err(errno);
        }
        match kin {
            CopyPropagation::Peer => {
                topology.join(new, group);
                topology.receive_from(new, master);
            }
            CopyPropagation::Slave { shared } => {
                topology.receive_from(new, group);
                if shared {
                    topology.share(new);
                }
            }
        }
        Ok(new)
    }

    /// Copies the mount at `from` and all mounts below that place (`copy_tree`). Each copy comes
    /// with its original, the top first. They are in no namespace.
    ///
    /// # Errors
    /// As [`Shared::new_mount`]; nothing is left behind.
    pub(crate) fn copy_tree(
        &self,
        topology: &mut Topology,
        from: PathIds,
        kin: CopyPropagation,
        depth: CopyDepth,
    ) -> Result<Vec<(u32, u32)>, Errno> {
        let top = self.copy_mount(topology, from, kin)?;
        let mut made = vec![(top, from.mount)];
        // Each with the mount that its copy goes into; the last is next, so one tree is whole
        // before another.
        let children = |topology: &Topology, source: u32, into: u32| -> Vec<(u32, u32)> {
            let all = topology.children(source).iter().rev();
            all.map(|&child| (child, into)).collect()
        };
        let mut pending = match depth {
            CopyDepth::One => Vec::new(),
            _ => children(topology, from.mount, top),
        };
        while let Some((child, into)) = pending.pop() {
            match self.copy_child(topology, from, child, into, kin, depth) {
                Ok(None) => {}
                Ok(Some(new)) => {
                    made.push((new, child));
                    pending.extend(children(topology, child, new));
                }
                Err(errno) => {
                    let made: Vec<u32> = made.iter().map(|&(new, _)| new).collect();
                    self.discard(topology, &made);
                    return Err(errno);
                }
            }
        }
        Ok(made)
    }

    /// A copy of `child`, mounted in `into`, if it is within the copied place.
    fn copy_child(
        &self,
        topology: &mut Topology,
        from: PathIds,
        child: u32,
        into: u32,
        kin: CopyPropagation,
        depth: CopyDepth,
    ) -> Result<Option<u32>, Errno> {
        let Some((parent, point)) = self.mounts.below(child) else {
            return Ok(None);
        };
        let shown = parent != from.mount || self.dcache.is_below_now(point, from.dentry);
        if !shown || depth == CopyDepth::Bindable && topology.node(child)?.unbindable {
            return Ok(None);
        }
        let source = PathIds {
            mount: child,
            dentry: self.mounts.at(child).root.get(),
        };
        let new = self.copy_mount(topology, source, kin)?;
        let place = PathIds {
            mount: into,
            dentry: point,
        };
        match self.attach(topology, new, place) {
            Ok(()) => Ok(Some(new)),
            Err(errno) => {
                self.discard(topology, &[new]);
                Err(errno)
            }
        }
    }

    /// Frees mounts that were made just now and are not visible, children first.
    pub(crate) fn discard(&self, topology: &mut Topology, made: &[u32]) {
        for &mount in made.iter().rev() {
            self.take_out(topology, mount);
        }
        self.sweep(topology);
    }

    /// Forgets a mount that was freed, and its pins.
    pub(super) fn forget_mount(&self, topology: &mut Topology, mount: u32) {
        if let Some(node) = topology.nodes.remove(&mount) {
            topology.forget_pivots(mount);
            self.dcache.store.release(node.root);
            if let Some((_, begin)) = node.rules {
                self.dcache.store.release(begin);
            }
            self.unbind(&node.data.sb);
        }
    }

    /// Counts one mount less of `sb`.
    fn unbind(&self, sb: &SuperBlock) {
        if let Some(binding) = &mut *sb.binding.lock() {
            binding.mounts -= 1;
        }
        self.vacate(sb);
    }

    /// Removes `sb` from the `Vfs`, with its entries, if no mount shows it.
    fn vacate(&self, sb: &SuperBlock) {
        let gone = sb.binding.lock().take_if(|binding| binding.mounts == 0);
        if let Some(gone) = gone {
            self.tell_unmounted(sb);
            self.dcache.forget_tree(gone.root);
            self.dcache.defer_free_root(gone.root);
            self.superblocks.lock().give(gone.number);
        }
    }
}
