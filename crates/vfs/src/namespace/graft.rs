// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts a tree of mounts on a directory, and copies of the tree on all mounts that receive
//! propagation from that directory's mount.
//!
//! # Kernel analogue
//! `attach_recursive_mnt`, `propagate_mnt`, `invent_group_ids`, `count_mounts`.
//!
//! # Rules
//! R1. Every step that can fail comes first: limits, groups, copies, pins of the places. Then all
//!     of it becomes visible during one change.

use super::attach::Mountpoint;
use super::make::{CopyDepth, CopyPropagation};
use crate::instance::Shared;
use crate::mount::Topology;
use crate::path::PathIds;
use openpath_abi::Errno;
use std::collections::{HashMap, HashSet};

/// Where a tree of mounts comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GraftSource {
    /// It was made for this.
    New,
    /// It is mounted elsewhere in the same namespace.
    Elsewhere,
}

/// A copy of the tree that is mounted, complete but not visible yet.
struct MountCopy {
    mounts: Vec<u32>,
    at: PathIds,
    point: Mountpoint,
    /// The mount that is there already, and its new place on top of the copy.
    lifted: Option<(u32, Mountpoint)>,
}

/// The prepared steps; undone if they cannot be used.
#[derive(Default)]
struct PreparedGraft {
    /// Mounts that were made shared for this.
    shared: Vec<u32>,
    copies: Vec<MountCopy>,
    /// How many mounts each namespace gets.
    growth: HashMap<u64, u32>,
    /// The top of the tree, if it leaves the place where it was.
    leaves: Option<u32>,
}

impl Shared {
    /// Puts the tree of mounts below `top` on the directory `at`, below what is mounted there
    /// already if there is anything. Held: the topology lock, the names of what is at `at`.
    ///
    /// # Errors
    /// `ENOENT` (what the topmost mount on `top` shows was removed); `ENOSPC` (a namespace would
    /// have too many mounts); `ENOENT` (the place went away); `ENOMEM`; everything is as it was.
    pub(crate) fn graft(
        &self,
        topology: &mut Topology,
        top: u32,
        at: PathIds,
        from: GraftSource,
    ) -> Result<(), Errno> {
        // A mount that is there already might have to go on it.
        let over = self.topmost(topology, top);
        self.let_point_go(self.hold_point(over)?);
        let tree = topology.tree(top);
        let mut prepared = PreparedGraft {
            leaves: (from == GraftSource::Elsewhere).then_some(top),
            ..PreparedGraft::default()
        };
        let ready = self.prepare(topology, &tree, at, from, &mut prepared);
        let places = ready.and_then(|()| self.hold_places(topology, top, at, prepared.leaves));
        let (point, lifted) = match places {
            Ok(places) => places,
            Err(errno) => {
                self.give_up(topology, prepared);
                return Err(errno);
            }
        };
        let own = MountCopy {
            mounts: tree,
            at,
            point,
            lifted,
        };
        let changes = self.mounts.changes.change();
        self.detach(topology, top, &changes);
        // The namespace that it was the first of belonged to an open file, and is empty now.
        let old = topology.namespace_of(top);
        if topology.is_anonymous_root(top) {
            topology.remove_namespace(old);
        }
        for copy in core::iter::once(own).chain(prepared.copies) {
            let namespace = topology.namespace_of(copy.at.mount);
            topology.settle(&copy.mounts, namespace);
            if let Some((lifted, _)) = copy.lifted {
                self.detach(topology, lifted, &changes);
            }
            if let Some(&top) = copy.mounts.first() {
                self.attach_held(topology, top, copy.point, &changes);
            }
            if let Some((lifted, point)) = copy.lifted {
                self.attach_held(topology, lifted, point, &changes);
            }
        }
        Ok(())
    }

    /// Makes copies for all receivers of `at`, and counts.
    fn prepare(
        &self,
        topology: &mut Topology,
        tree: &[u32],
        at: PathIds,
        from: GraftSource,
        prepared: &mut PreparedGraft,
    ) -> Result<(), Errno> {
        let Some(&top) = tree.first() else {
            return Err(Errno::EINVAL);
        };
        if from == GraftSource::New {
            self.count(topology, at.mount, tree.len(), prepared)?;
        }
        if topology.group_of(at.mount) == 0 {
            return Ok(());
        }
        for &mount in tree {
            if topology.group_of(mount) == 0 {
                topology.share(mount);
                prepared.shared.push(mount);
            }
        }
        self.copy_to_receivers(topology, top, tree.len(), at, prepared)
    }

    /// Notes that the namespace of `mount` gets `more` mounts.
    fn count(
        &self,
        topology: &Topology,
        mount: u32,
        more: usize,
        prepared: &mut PreparedGraft,
    ) -> Result<(), Errno> {
        let namespace = topology.namespace_of(mount);
        let now = topology.namespaces.get(&namespace).map_or(0, |n| n.mounts);
        let pending = prepared.growth.entry(namespace).or_default();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        *pending = pending.saturating_add(more);
        if now.saturating_add(*pending) > self.config.sysctl.mount_max {
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }

    /// Copies the tree for each mount that receives from `at`. Peers of `at`'s mount get peers; a
    /// group of slaves gets its own peers, which receive from those.
    fn copy_to_receivers(
        &self,
        topology: &mut Topology,
        top: u32,
        len: usize,
        at: PathIds,
        prepared: &mut PreparedGraft,
    ) -> Result<(), Errno> {
        let first = topology.group_of(at.mount);
        let mut seen = HashSet::from([first]);
        // A group, and the tree whose groups it receives from or, once one was made, is a peer of.
        let mut pending = vec![(first, top, true)];
        let mut next = 0;
        while let Some(&(group, mut source, mut peers)) = pending.get(next) {
            next += 1;
            for member in topology.groups.members(group).clone() {
                let kin = if peers {
                    CopyPropagation::Peer
                } else {
                    CopyPropagation::Slave { shared: true }
                };
                let heard = member != at.mount
                    && self.copy_for(topology, source, kin, len, (member, at), prepared)?;
                if let Some(copy) = prepared.copies.last().filter(|_| heard)
                    && let Some(&made) = copy.mounts.first()
                {
                    (source, peers) = (made, true);
                }
            }
            for slave in topology.groups.slaves(group).clone() {
                // A copy made for this receives nothing of it.
                if topology.namespace_of(slave) == 0 {
                    continue;
                }
                // A mount that moves receives its own new place as what it was, not as what it
                // becomes.
                let moves = prepared.shared.contains(&slave);
                match topology.group_of(slave) {
                    group if group == 0 || moves => {
                        let kin = CopyPropagation::Slave { shared: false };
                        self.copy_for(topology, source, kin, len, (slave, at), prepared)?;
                    }
                    inner if seen.insert(inner) => pending.push((inner, source, false)),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Copies the tree below `source` for `receiver`, if the place shows there; whether it does.
    fn copy_for(
        &self,
        topology: &mut Topology,
        source: u32,
        kin: CopyPropagation,
        len: usize,
        (receiver, at): (u32, PathIds),
        prepared: &mut PreparedGraft,
    ) -> Result<bool, Errno> {
        let namespace = topology.namespace_of(receiver);
        let theirs = topology.namespaces.get(&namespace);
        let root = self.mounts.at(receiver).root.get();
        // A mount that is in no namespace of tasks receives nothing.
        if theirs.is_none_or(|ns| ns.anonymous) || !self.dcache.is_below_now(at.dentry, root) {
            return Ok(false);
        }
        self.count(topology, receiver, len, prepared)?;
        let from = PathIds {
            mount: source,
            dentry: self.mounts.at(source).root.get(),
        };
        let made = self.copy_tree(topology, from, kin, CopyDepth::All)?;
        let mounts: Vec<u32> = made.into_iter().map(|(new, _)| new).collect();
        let at = PathIds {
            mount: receiver,
            dentry: at.dentry,
        };
        let top = mounts.first().copied().unwrap_or_default();
        match self.hold_places(topology, top, at, prepared.leaves) {
            Ok((point, lifted)) => prepared.copies.push(MountCopy {
                mounts,
                at,
                point,
                lifted,
            }),
            Err(errno) => {
                self.discard(topology, &mounts);
                return Err(errno);
            }
        }
        Ok(true)
    }

    /// A pin of `at`. If a mount is there already and stays, also that mount with a pin of its new
    /// place, the root of the topmost mount on `top`.
    fn hold_places(
        &self,
        topology: &Topology,
        top: u32,
        at: PathIds,
        leaves: Option<u32>,
    ) -> Result<(Mountpoint, Option<(u32, Mountpoint)>), Errno> {
        let point = self.hold_point(at)?;
        let cover = self.mounts.cover_now(at.mount, at.dentry);
        let Some((lifted, _)) = cover.filter(|&(mount, _)| Some(mount) != leaves) else {
            return Ok((point, None));
        };
        match self.hold_point(self.topmost(topology, top)) {
            Ok(over) => Ok((point, Some((lifted, over)))),
            Err(errno) => {
                self.let_point_go(point);
                Err(errno)
            }
        }
    }

    /// The root of the topmost mount in the stack on `mount`'s root (`topmost_overmount`).
    pub(crate) fn topmost(&self, topology: &Topology, mut mount: u32) -> PathIds {
        while let Some(over) = self.on_root(topology, mount) {
            mount = over;
        }
        PathIds {
            mount,
            dentry: self.mounts.at(mount).root.get(),
        }
    }

    /// What is mounted on the root of `mount`.
    pub(crate) fn on_root(&self, topology: &Topology, mount: u32) -> Option<u32> {
        let root = self.mounts.at(mount).root.get();
        let mut children = topology.children(mount).iter().copied();
        children.find(|&child| self.mounts.at(child).point.get() == root)
    }

    /// Undoes the prepared steps.
    fn give_up(&self, topology: &mut Topology, prepared: PreparedGraft) {
        for copy in prepared.copies {
            self.let_point_go(copy.point);
            if let Some((_, point)) = copy.lifted {
                self.let_point_go(point);
            }
            self.discard(topology, &copy.mounts);
        }
        for mount in prepared.shared {
            topology.leave_group(mount);
        }
    }
}
