// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exchanges the root of a namespace: pivot_root(2).
//!
//! # Kernel analogue
//! `path_pivot_root`.

use super::{leads_to, may_mount, on_top};
use crate::file::PathStart;
use crate::mount::Topology;
use crate::object::mflag;
use crate::ops::{PinnedPath, resolve};
use crate::path::PathIds;
use crate::task::{Core, Task};
use crate::walk::lflag;
use openpath_abi::Errno;

impl Task {
    /// Makes the mount at `new_root` the root and puts the old one on `put_old`, for all tasks at
    /// the old root. Linux: pivot_root(2).
    ///
    /// # Errors
    /// In this order:
    /// * `EPERM` (without `CAP_SYS_ADMIN`); those of the walks;
    /// * `ENOENT` (`put_old` was removed);
    /// * `EINVAL` (one of the mounts concerned is shared, or in another namespace);
    /// * `ENOENT` (`new_root` was removed);
    /// * `EBUSY` (`new_root` or `put_old` is in the root's mount);
    /// * `EINVAL` (the root or `new_root` is not the root of a mount, or is the lowest of the
    ///   namespace);
    /// * `EINVAL` (`put_old` is not below `new_root`, or `new_root` not below the root); `ENOMEM`.
    pub fn pivot_root(&self, new_root: &[u8], put_old: &[u8]) -> Result<(), Errno> {
        let core = &self.core;
        may_mount(core)?;
        let how = lflag::FOLLOW | lflag::DIRECTORY;
        let new = resolve(core, PathStart::Cwd, new_root, how)?;
        let old = resolve(core, PathStart::Cwd, put_old, how)?;
        on_top(core, old, |topology, old| {
            exchange(core, topology, &new, old)
        })?;
        core.heed_pivots();
        Ok(())
    }
}

fn exchange(
    core: &Core,
    topology: &mut Topology,
    new: &PinnedPath<'_>,
    put_old: &PinnedPath<'_>,
) -> Result<(), Errno> {
    let mounts = &core.vfs.mounts;
    let (root, new_at, old_at) = (core.root.get(), new.path_ids(), put_old.path_ids());
    let above = mounts.below(root.mount);
    let from = mounts.below(new_at.mount);
    let shared = |mount: u32| topology.group_of(mount) != 0;
    let parent = |below: Option<(u32, u32)>, own: u32| below.map_or(own, |(parent, _)| parent);
    if shared(old_at.mount)
        || shared(parent(from, new_at.mount))
        || shared(parent(above, root.mount))
        || topology.namespace_of(root.mount) != core.namespace_id()
        || !new.is_local(topology)
    {
        return Err(Errno::EINVAL);
    }
    if new.is_removed() {
        return Err(Errno::ENOENT);
    }
    if new_at.mount == root.mount || old_at.mount == root.mount {
        return Err(Errno::EBUSY);
    }
    let is_root_of = |path_ids: PathIds| mounts.at(path_ids.mount).root.get() == path_ids.dentry;
    let (Some((above, point)), Some(_)) = (above, from) else {
        return Err(Errno::EINVAL);
    };
    if !is_root_of(root)
        || !is_root_of(new_at)
        || !leads_to(core, new_at, old_at)
        || !leads_to(core, root, new_at)
    {
        return Err(Errno::EINVAL);
    }
    let place = PathIds {
        mount: above,
        dentry: point,
    };
    core.vfs
        .exchange(topology, (root.mount, place), (new_at.mount, old_at))?;
    for mount in [root.mount, new_at.mount] {
        topology.node(mount)?.data.expiring.set(0);
    }
    mounts.at(root.mount).word().change().set(mflag::PIVOTED);
    let number = topology.note_pivot(root, new_at, mounts.pivots.get());
    mounts.pivots.set(number);
    Ok(())
}
