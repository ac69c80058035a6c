// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports on mounts: `/proc/self/mountinfo`, statmount(2), listmount(2).
//!
//! # Kernel analogue
//! `show_mountinfo`, `do_statmount`, `do_listmount`, `get_dominating_id`.

use super::leads_to;
use crate::mount::{MountFlags, MountInfo, Topology};
use crate::object::mflag;
use crate::path::PathIds;
use crate::task::{Core, PathSnapshot, Task};
use openpath_abi::{Errno, caps};

/// In place of a mount in listmount(2): the root of the asking task.
pub const LSMT_ROOT: u64 = u64::MAX;

impl Task {
    /// The mounts of its namespace that its root leads to, oldest first. Linux: proc(5),
    /// `/proc/self/mountinfo`.
    #[must_use]
    pub fn mountinfo(&self) -> Vec<MountInfo> {
        let core = &self.core;
        core.heed_pivots();
        let topology = core.vfs.mounts.topology.lock();
        let mut all: Vec<MountInfo> = local(&topology, core.namespace_id())
            .filter(|&mount| leads_to(core, core.root.get(), root_of(core, mount)))
            .filter_map(|mount| describe(core, &topology, mount))
            // A directory that moved out of what its mount shows has no path.
            .filter(|info| info.path.is_some())
            .collect();
        all.sort_by_key(|info| info.unique_id);
        all
    }

    /// The mount with this unique number in `namespace` (0: its own). Linux: statmount(2).
    ///
    /// # Errors
    /// `ENOENT` (no such namespace, or no such mount in it), `EPERM` (the task's root does not lead
    /// there, or it is another namespace, without `CAP_SYS_ADMIN`).
    pub fn statmount(&self, id: u64, namespace: u64) -> Result<MountInfo, Errno> {
        let core = &self.core;
        core.heed_pivots();
        let topology = core.vfs.mounts.topology.lock();
        let (namespace, root) = place_of(core, &topology, namespace)?;
        let mount = find(&topology, namespace, id)?;
        may_see(core, root, root_of(core, mount))?;
        describe(core, &topology, mount).ok_or(Errno::ENOENT)
    }

    /// The unique numbers of at most `max` mounts below the mount `id` of `namespace` (0: its own),
    /// greater than `last`, oldest first; [`LSMT_ROOT`] for all that its root leads to. Linux:
    /// listmount(2).
    ///
    /// # Errors
    /// As [`Task::statmount`].
    pub fn listmount(
        &self,
        id: u64,
        namespace: u64,
        last: u64,
        max: usize,
    ) -> Result<Vec<u64>, Errno> {
        let core = &self.core;
        core.heed_pivots();
        let topology = core.vfs.mounts.topology.lock();
        let (namespace, root) = place_of(core, &topology, namespace)?;
        let from = if id == LSMT_ROOT {
            root
        } else {
            root_of(core, find(&topology, namespace, id)?)
        };
        may_see(core, root, from)?;
        let mut ids: Vec<u64> = local(&topology, namespace)
            .filter(|&mount| leads_to(core, from, root_of(core, mount)))
            .filter_map(|mount| topology.nodes.get(&mount).map(|node| node.data.id))
            .filter(|&other| other != id && other > last)
            .collect();
        ids.sort_unstable();
        ids.truncate(max);
        Ok(ids)
    }
}

/// The mounts of a namespace.
fn local(topology: &Topology, namespace: u64) -> impl Iterator<Item = u32> {
    let all = topology.nodes.iter();
    all.filter(move |(_, node)| node.namespace == namespace)
        .map(|(&mount, _)| mount)
}

fn find(topology: &Topology, namespace: u64, id: u64) -> Result<u32, Errno> {
    let mut mounts = local(topology, namespace);
    let found = mounts.find(|m| topology.nodes.get(m).is_some_and(|node| node.data.id == id));
    found.ok_or(Errno::ENOENT)
}

/// The namespace, and the asking task's root in it.
fn place_of(core: &Core, topology: &Topology, namespace: u64) -> Result<(u64, PathIds), Errno> {
    let own = core.namespace_id();
    if namespace == 0 || namespace == own {
        return Ok((own, core.root.get()));
    }
    let root = core.vfs.root_of(topology, namespace);
    let root = root.ok_or(Errno::ENOENT)?;
    if core.cred().capable(caps::CAP_SYS_ADMIN) {
        Ok((namespace, root))
    } else {
        Err(Errno::EPERM)
    }
}

fn may_see(core: &Core, root: PathIds, place: PathIds) -> Result<(), Errno> {
    if leads_to(core, root, place) || core.cred().capable(caps::CAP_SYS_ADMIN) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

fn root_of(core: &Core, mount: u32) -> PathIds {
    let dentry = core.vfs.mounts.at(mount).root.get();
    PathIds { mount, dentry }
}

/// The information on a mount. Held: the topology lock.
fn describe(core: &Core, topology: &Topology, mount: u32) -> Option<MountInfo> {
    let node = topology.nodes.get(&mount)?;
    let parent = core
        .vfs
        .mounts
        .below(mount)
        .map_or(mount, |(parent, _)| parent);
    let place = PathSnapshot::of(core, root_of(core, mount));
    let some = |group: u32| (group != 0).then_some(group);
    let dominating = dominating(core, topology, node.master);
    Some(MountInfo {
        id: mount,
        unique_id: node.data.id,
        parent,
        unique_parent: topology.nodes.get(&parent)?.data.id,
        namespace: node.namespace,
        dev: node.data.dev,
        root: path_in_tree(core, core.vfs.mounts.at(mount).root.get()),
        path: place.reachable.then_some(place.path),
        flags: MountFlags(core.vfs.mounts.at(mount).word().sample().flags() & mflag::ALL),
        shared: some(node.group),
        master: some(node.master),
        propagate_from: dominating,
        unbindable: node.unbindable,
        kind: node.data.sb.options().kind,
        read_only_tree: node.data.sb.is_read_only(),
    })
}

/// The nearest group, from `master` on upward, with a mount that the task can see.
fn dominating(core: &Core, topology: &Topology, mut master: u32) -> Option<u32> {
    let own = core.namespace_id();
    while master != 0 {
        let members = topology.groups.members(master);
        let visible = |&m: &u32| {
            topology.namespace_of(m) == own && leads_to(core, core.root.get(), root_of(core, m))
        };
        if members.iter().any(visible) {
            return Some(master);
        }
        // All peers receive from the same group.
        let first = members.first()?;
        master = topology.nodes.get(first)?.master;
    }
    None
}

/// The path of a directory within its tree.
fn path_in_tree(core: &Core, dentry: u32) -> Vec<u8> {
    use crate::object::dflag;
    let dcache = &core.vfs.dcache;
    loop {
        let removed = |d: u32| {
            let now = dcache.at(d).word().sample();
            now.has(dflag::UNHASHED) && !now.has(dflag::ROOT)
        };
        let moves = core.vfs.renames.sample_steady();
        let (mut names, mut at) = (Vec::new(), Some(dentry));
        while let Some(here) = at
            && !dcache.at(here).word().sample().has(dflag::ROOT)
        {
            let name = dcache.name_of(here);
            at = name.as_ref().map(|&(_, parent)| parent);
            names.extend(name.map(|(name, _)| name));
        }
        if at.is_none() || !core.vfs.renames.is_unchanged(moves) {
            openpath_sync::relax();
            continue;
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        if removed(dentry) {
            path.extend_from_slice(b"//deleted");
        }
        return path;
    }
}
