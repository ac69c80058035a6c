// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves mounts, and gives a mount the peer group of another: move_mount(2).
//!
//! # Kernel analogue
//! `do_move_mount`, `can_move_mount_beneath`, `do_set_group`.

use super::{may_mount, on_top};
use crate::file_ops::Fd;
use crate::inode::flag;
use crate::mount::Topology;
use crate::namespace::GraftSource;
use crate::ops::{PinnedPath, resolve};
use crate::path::PathIds;
use crate::task::{Core, Task};
use crate::walk::lflag;
use openpath_abi::mount::{
    MOVE_MOUNT_BENEATH, MOVE_MOUNT_F_AUTOMOUNTS, MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_F_SYMLINKS,
    MOVE_MOUNT_SET_GROUP, MOVE_MOUNT_T_AUTOMOUNTS, MOVE_MOUNT_T_EMPTY_PATH, MOVE_MOUNT_T_SYMLINKS,
};
use openpath_abi::{Errno, MoveMountFlags};

/// All flags of move_mount(2).
const FLAGS: MoveMountFlags = MoveMountFlags::union_of(&[
    MOVE_MOUNT_F_SYMLINKS,
    MOVE_MOUNT_F_AUTOMOUNTS,
    MOVE_MOUNT_F_EMPTY_PATH,
    MOVE_MOUNT_T_SYMLINKS,
    MOVE_MOUNT_T_AUTOMOUNTS,
    MOVE_MOUNT_T_EMPTY_PATH,
    MOVE_MOUNT_SET_GROUP,
    MOVE_MOUNT_BENEATH,
]);

impl Task {
    /// Takes the mount at `from`, with all mounts in it, and puts it on `to`. This is how a tree of
    /// mounts that [`Task::open_tree`] or [`Task::fsmount`] opened becomes visible. Linux:
    /// move_mount(2).
    ///
    /// With `MOVE_MOUNT_BENEATH` it goes below the mount at `to`. With `MOVE_MOUNT_SET_GROUP`
    /// nothing moves: the mount at `to` gets the peers and the master of the one at `from`.
    ///
    /// # Errors
    /// In this order:
    /// * `EPERM` (without `CAP_SYS_ADMIN`); `EINVAL` (flags); those of the walks, to `to` first;
    /// * `EINVAL` (`from` is not the root of a mount; one is a directory, the other is not);
    /// * `ENOENT` (`to` was removed, or its mount detached);
    /// * `EINVAL` (`from` is the lowest of its namespace, in a shared mount, in another namespace,
    ///   or a tree that holds `to`);
    /// * `EINVAL` (`to` is in another namespace; unbindable mounts would come into a shared one;
    ///   beneath: a place that cannot be covered from below);
    /// * `ELOOP` (`to` is in the tree that moves); `ENOSPC` (limit of mounts); `ENOMEM`.
    ///
    /// With `MOVE_MOUNT_SET_GROUP`, only `EINVAL` comes after the walks. Either one is not the root
    /// of a mount, or was taken out of its namespace, whichever that is. Or `to` is not private,
    /// shows another tree or more of it than `from`, or `from` has neither peers nor master.
    pub fn move_mount(
        &self,
        from_dirfd: Fd,
        from: &[u8],
        to_dirfd: Fd,
        to: &[u8],
        flags: MoveMountFlags,
    ) -> Result<(), Errno> {
        let core = &self.core;
        may_mount(core)?;
        let either = MOVE_MOUNT_BENEATH | MOVE_MOUNT_SET_GROUP;
        if flags.intersects(!FLAGS) || flags & either == either {
            return Err(Errno::EINVAL);
        }
        let lookup = |follow, empty: MoveMountFlags| {
            let follows = if flags.contains(follow) {
                lflag::FOLLOW
            } else {
                0
            };
            let empties = if flags.contains(empty) {
                lflag::EMPTY
            } else {
                0
            };
            follows | empties
        };
        let base = core.base(to_dirfd);
        let how = lookup(MOVE_MOUNT_T_SYMLINKS, MOVE_MOUNT_T_EMPTY_PATH);
        let target = resolve(core, base.at(), to, how)?;
        let base = core.base(from_dirfd);
        let how = lookup(MOVE_MOUNT_F_SYMLINKS, MOVE_MOUNT_F_EMPTY_PATH);
        let source = resolve(core, base.at(), from, how)?;
        if flags.contains(MOVE_MOUNT_SET_GROUP) {
            return set_group(core, &source, &target);
        }
        carry_out(core, &source, target, flags.contains(MOVE_MOUNT_BENEATH))
    }
}

/// Moves the mount at `source` to `target` (`do_move_mount`).
///
/// # Errors
/// As [`Task::move_mount`] after the walks.
pub(super) fn carry_out(
    core: &Core,
    source: &PinnedPath<'_>,
    target: PinnedPath<'_>,
    beneath: bool,
) -> Result<(), Errno> {
    if !source.is_mount_root() || source.inode()?.is_dir() != target.inode()?.is_dir() {
        return Err(Errno::EINVAL);
    }
    core.vfs.sweep_mounts();
    let old = source.path_ids().mount;
    if beneath {
        let named = target.path_ids().mount;
        return beneath_top(core, target, |topology, place, over| {
            // The first mount of a detached tree is its own parent: Linux takes it for the cover of
            // the place.
            let apart = named == place.mount && topology.is_anonymous_root(named);
            let over = if apart { named } else { over };
            let from = may_move(core, topology, source, place.mount)?;
            may_go_beneath(core, topology, old, over, place)?;
            graft(core, topology, old, place, from)
        });
    }
    on_top(core, target, |topology, target| {
        let from = may_move(core, topology, source, target.path_ids().mount)?;
        graft(core, topology, old, target.path_ids(), from)
    })
}

/// Whether the mount at `source` may be put into `parent`; its origin.
fn may_move(
    core: &Core,
    topology: &Topology,
    source: &PinnedPath<'_>,
    parent: u32,
) -> Result<GraftSource, Errno> {
    let (old, own) = (source.path_ids().mount, core.namespace_id());
    let (ours, theirs) = (topology.namespace_of(old), topology.namespace_of(parent));
    if ours == own {
        let below = core.vfs.mounts.below(old);
        let (from, _) = below.ok_or(Errno::EINVAL)?;
        if topology.group_of(from) != 0 || theirs != own {
            return Err(Errno::EINVAL);
        }
        return Ok(GraftSource::Elsewhere);
    }
    let usable = topology.may_use(own, theirs);
    if !topology.is_anonymous_root(old) || ours == theirs || !usable {
        return Err(Errno::EINVAL);
    }
    Ok(GraftSource::New)
}

fn graft(
    core: &Core,
    topology: &mut Topology,
    old: u32,
    at: PathIds,
    from: GraftSource,
) -> Result<(), Errno> {
    let unbindable = |&m: &u32| topology.nodes.get(&m).is_some_and(|n| n.unbindable);
    if topology.group_of(at.mount) != 0 && topology.tree(old).iter().any(unbindable) {
        return Err(Errno::EINVAL);
    }
    if topology.is_ancestor(&core.vfs.mounts, old, at.mount) {
        return Err(Errno::ELOOP);
    }
    core.vfs.graft(topology, old, at, from)?;
    if let Ok(node) = topology.node(old) {
        node.data.expiring.set(0);
    }
    Ok(())
}

/// Runs `run` with the place that the topmost mount at `target` covers, locked to be mounted on,
/// and that mount.
fn beneath_top<R>(
    core: &Core,
    target: PinnedPath<'_>,
    run: impl FnOnce(&mut Topology, PathIds, u32) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let (mounts, dcache) = (&core.vfs.mounts, &core.vfs.dcache);
    if !target.is_mount_root() {
        return Err(Errno::EINVAL);
    }
    loop {
        let (over, place) = {
            let topology = mounts.topology.lock();
            let over = core.vfs.topmost(&topology, target.path_ids().mount).mount;
            if topology.namespace_of(over) == 0 {
                return Err(Errno::ENOENT);
            }
            let (mount, dentry) = mounts.below(over).ok_or(Errno::EINVAL)?;
            let pin = core.pins.pin_now(mount, dentry).ok_or(Errno::ENOMEM)?;
            let sample = dcache.at(dentry).word().sample();
            (over, PinnedPath::new(core, pin, sample))
        };
        let inode = place.inode()?;
        let _names = inode.lock_names();
        let mut topology = mounts.topology.lock();
        let PathIds { mount, dentry } = place.path_ids();
        let still = mounts.below(over) == Some((mount, dentry))
            && core.vfs.topmost(&topology, target.path_ids().mount).mount == over;
        if still && (inode.flags() & flag::DEAD != 0 || place.is_removed()) {
            return Err(Errno::ENOENT);
        }
        if still {
            return run(&mut topology, place.path_ids(), over);
        }
    }
}

/// Whether the mount `old` may be put on `place` below `over`, which covers it
/// (`can_move_mount_beneath`).
fn may_go_beneath(
    core: &Core,
    topology: &Topology,
    old: u32,
    over: u32,
    place: PathIds,
) -> Result<(), Errno> {
    let vfs = &core.vfs;
    let bottom = topology.namespaces.get(&core.namespace_id());
    let covered = vfs.on_root(topology, old).is_some();
    let is_root = over == core.root.get().mount || bottom.is_some_and(|ns| ns.root == place.mount);
    if covered || is_root || topology.is_ancestor(&vfs.mounts, over, old) {
        return Err(Errno::EINVAL);
    }
    // A copy must not come on top of the mount that will cover it, nor on the tree that moves.
    let heard = topology.receivers(place.mount);
    let itself = |mount: u32| mount == place.mount && topology.group_of(mount) != 0;
    let would_cover = |mount: u32| {
        let root = vfs.mounts.at(mount).root.get();
        (itself(mount) || heard.contains(&mount)) && place.dentry == root
    };
    if would_cover(over) || topology.namespace_of(old) == core.namespace_id() && would_cover(old) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// Gives the mount at `target` the peers and the master of the one at `source` (`do_set_group`).
fn set_group(core: &Core, source: &PinnedPath<'_>, target: &PinnedPath<'_>) -> Result<(), Errno> {
    let topology = &mut *core.vfs.mounts.topology.lock();
    let (from, to) = (source.path_ids(), target.path_ids());
    // In other namespaces and detached trees too (`may_change_propagation`).
    let placed = |at: PathIds| topology.namespace_of(at.mount) != 0;
    if !placed(from) || !placed(to) || !source.is_mount_root() || !target.is_mount_root() {
        return Err(Errno::EINVAL);
    }
    let (giver, taker) = (topology.node(from.mount)?, topology.node(to.mount)?);
    let same_tree = std::sync::Arc::ptr_eq(&giver.data.sb, &taker.data.sb);
    let within = same_tree && core.vfs.dcache.is_below_now(to.dentry, from.dentry);
    let (group, master) = (giver.group, giver.master);
    let private = taker.group == 0 && taker.master == 0;
    if !within || !private || group == 0 && master == 0 {
        return Err(Errno::EINVAL);
    }
    topology.receive_from(to.mount, master);
    topology.join(to.mount, group);
    Ok(())
}
