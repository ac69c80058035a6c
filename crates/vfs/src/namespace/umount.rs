// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes mounts out of their namespace, with their propagated copies, and frees them when their
//! last user is gone.
//!
//! # Kernel analogue
//! `umount_tree`, `propagate_umount`, `propagate_mount_busy`, `disconnect_mount`,
//! `namespace_unlock`.
//!
//! # Rules
//! R1. A propagated copy goes along only if all mounts in it go too. A mount on the root of one
//!     that goes takes its place.
//! R2. A mount that is out and still in use waits in the topology. A call that lets go of a place
//!     in such a mount sweeps; walks that pass through do not, and leave it to the next sweep.

use crate::instance::Shared;
use crate::mount::Topology;
use crate::object::mflag;
use openpath_abi::Errno;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The extent of an unmount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UmountExtent {
    /// The tree and its propagated copies; each mount by itself.
    Everywhere,
    /// Only the tree; each mount by itself.
    Here,
    /// Only the tree, and tasks in it still find the mounts inside (`UMOUNT_CONNECTED`).
    Together,
}

/// The fates of propagated copies of mounts that go.
#[derive(Default)]
struct CopyFates {
    candidates: BTreeSet<u32>,
    /// Whether a mount goes with all mounts in it, as far as that is known.
    whole: HashMap<u32, bool>,
    /// Those that stay.
    stay: HashSet<u32>,
}

impl Shared {
    /// Detaches and frees `mount`, which has no mounts in it, with its propagated copies. Held: the
    /// topology lock.
    ///
    /// # Errors
    /// `EBUSY` if one of these is in use, or has a mount in it.
    pub(crate) fn unmount_idle(&self, topology: &mut Topology, mount: u32) -> Result<(), Errno> {
        if !topology.children(mount).is_empty() {
            return Err(Errno::EBUSY);
        }
        let mut idle = vec![mount];
        for cognate in self.cognates(topology, mount) {
            let covered = usize::from(self.on_root(topology, cognate).is_some());
            if topology.children(cognate).len() == covered {
                idle.push(cognate);
            }
        }
        // No task can take one of them while they are taken out.
        let seized = self.dcache.store.freeze_mounts(idle.clone());
        let seized = seized.ok_or(Errno::EBUSY)?;
        let mut gone = self.take_out_tree(topology, mount, UmountExtent::Everywhere);
        let mut freed = Vec::with_capacity(idle.len());
        seized.free(|mount, data| freed.push((mount, data)));
        for (mount, _data) in freed {
            self.forget_mount(topology, mount);
        }
        gone.retain(|mount| !idle.contains(mount));
        topology.waiting.extend(gone);
        self.sweep(topology);
        Ok(())
    }

    /// Takes the tree of mounts below `top` out, in use or not; mounts that are not in use are
    /// freed. Held: the topology lock.
    pub(crate) fn umount_tree(&self, topology: &mut Topology, top: u32, how: UmountExtent) {
        let gone = self.take_out_tree(topology, top, how);
        topology.waiting.extend(gone);
        self.sweep(topology);
    }

    /// Takes the mounts off the directory `point`, whose name is gone, in every namespace
    /// (`detach_mounts`).
    #[cold]
    pub(crate) fn detach_mounts(&self, point: u32) {
        let topology = &mut *self.mounts.topology.lock();
        loop {
            let Some(mount) = topology.covering(point).next() else {
                break;
            };
            if topology.namespace_of(mount) != 0 {
                self.umount_tree(topology, mount, UmountExtent::Together);
            } else {
                let changes = self.mounts.changes.change();
                self.detach(topology, mount, &changes);
            }
        }
        self.sweep(topology);
    }

    /// The propagated copies of `mount`: the mounts at its place in the receivers of that place.
    fn cognates(&self, topology: &Topology, mount: u32) -> Vec<u32> {
        let Some((parent, point)) = self.mounts.below(mount) else {
            return Vec::new();
        };
        let receivers = topology.receivers(parent).into_iter();
        receivers
            .filter_map(|receiver| self.mounts.cover_now(receiver, point))
            .map(|(cognate, _)| cognate)
            .collect()
    }

    /// All that goes with the tree below `top`: first the tree, then its propagated copies (R1).
    fn with_cognates(&self, topology: &Topology, top: u32) -> Vec<u32> {
        let mut chosen = topology.tree(top);
        let mut fates = CopyFates::default();
        for &mount in &chosen {
            fates.whole.insert(mount, true);
        }
        for mount in chosen.clone() {
            for cognate in self.cognates(topology, mount) {
                if !fates.whole.contains_key(&cognate) && fates.candidates.insert(cognate) {
                    chosen.push(cognate);
                }
            }
        }
        for cognate in fates.candidates.clone() {
            self.decide(topology, cognate, &mut fates);
        }
        chosen.retain(|mount| !fates.stay.contains(mount));
        chosen
    }

    /// Decides whether the candidates in and below `top` go: one that keeps a mount inside, other
    /// than on its root, stays. Each mount is looked at once.
    fn decide(&self, topology: &Topology, top: u32, fates: &mut CopyFates) {
        let mut pending = vec![(top, false)];
        while let Some((mount, inside_known)) = pending.pop() {
            if fates.whole.contains_key(&mount) {
                continue;
            }
            let children = topology.children(mount);
            if !inside_known {
                pending.push((mount, true));
                pending.extend(children.iter().map(|&child| (child, false)));
                continue;
            }
            let root = self.mounts.at(mount).root.get();
            let whole = |child: &u32| fates.whole.get(child) == Some(&true);
            let mut inside = children
                .iter()
                .filter(|&&child| self.mounts.at(child).point.get() != root);
            let goes = fates.candidates.contains(&mount) && inside.all(whole);
            let all = goes && children.iter().all(whole);
            fates.whole.insert(mount, all);
            if !goes {
                fates.stay.insert(mount);
            }
        }
    }

    /// Takes the tree out of its namespace and out of the table; what went.
    fn take_out_tree(&self, topology: &mut Topology, top: u32, how: UmountExtent) -> Vec<u32> {
        let gone = match how {
            UmountExtent::Everywhere => self.with_cognates(topology, top),
            UmountExtent::Here | UmountExtent::Together => topology.tree(top),
        };
        let going: HashSet<u32> = gone.iter().copied().collect();
        topology.settle(&gone, 0);
        for &mount in &gone {
            topology.set_propagation(mount, crate::mount::Propagation::Private);
            let word = self.mounts.at(mount).word();
            word.change().set(mflag::OUT);
        }
        let survivors: HashMap<u32, u32> = gone
            .iter()
            .filter_map(|&mount| self.survivor(topology, mount, &going))
            .collect();
        let inside: HashSet<u32> = gone
            .iter()
            .copied()
            .filter(|&m| {
                self.mounts
                    .below(m)
                    .is_some_and(|(p, _)| going.contains(&p))
            })
            .collect();
        let changes = self.mounts.changes.change();
        for mount in &gone {
            if how == UmountExtent::Together && inside.contains(mount) {
                continue;
            }
            let Some(point) = self.take_off(topology, *mount, &changes) else {
                continue;
            };
            match survivors.get(mount) {
                Some(&survivor) => {
                    self.detach(topology, survivor, &changes);
                    self.attach_held(topology, survivor, point, &changes);
                }
                None => self.let_point_go(point),
            }
        }
        drop(changes);
        gone
    }

    /// The mount on the root of `mount`, which goes, if it does not go itself. Before it, the
    /// lowest mount of the stack that goes: the survivor takes its place.
    fn survivor(
        &self,
        topology: &Topology,
        mount: u32,
        going: &HashSet<u32>,
    ) -> Option<(u32, u32)> {
        let over = self.on_root(topology, mount)?;
        if going.contains(&over) {
            return None;
        }
        let mut lowest = mount;
        while let Some((parent, _)) = self.mounts.below(lowest)
            && going.contains(&parent)
        {
            lowest = parent;
        }
        Some((lowest, over))
    }

    /// Detaches one mount that is not visible yet, to be swept.
    pub(super) fn take_out(&self, topology: &mut Topology, mount: u32) {
        topology.set_propagation(mount, crate::mount::Propagation::Private);
        let changes = self.mounts.changes.change();
        self.detach(topology, mount, &changes);
        drop(changes);
        topology.waiting.push(mount);
    }

    /// Frees mounts that are out and unused. Held: the topology lock.
    pub(crate) fn sweep(&self, topology: &mut Topology) {
        loop {
            // A mount inside another that waits goes after that.
            let (mut free, inside): (Vec<u32>, Vec<u32>) = core::mem::take(&mut topology.waiting)
                .into_iter()
                .partition(|&m| self.mounts.below(m).is_none());
            let mut freed = Vec::new();
            let store = &self.dcache.store;
            store.reclaim_mounts(&mut free, |index, _, data| freed.push((index, data)));
            topology.waiting.extend(free);
            topology.waiting.extend(inside);
            let went = !freed.is_empty();
            for (mount, data) in freed {
                let changes = self.mounts.changes.change();
                for child in topology.children(mount).clone() {
                    self.detach(topology, child, &changes);
                }
                drop(changes);
                self.forget_mount(topology, mount);
                drop(data);
            }
            if !went {
                break;
            }
        }
        self.mounts.waiting.set(topology.waiting.len() as u64);
    }

    /// Frees mounts that are out, if any are.
    #[cold]
    pub(crate) fn sweep_mounts(&self) {
        if self.mounts.waiting.get() != 0 {
            self.sweep(&mut self.mounts.topology.lock());
        }
    }
}
