// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the calls on mounts and mount namespaces, one file for each family: they make, move,
//! change, remove and list mounts.
//!
//! # Kernel analogue
//! `fs/namespace.c`.
//!
//! # Locks
//! The names of the covered directory, so that it is not removed meanwhile; then the mounts'
//! topology.
//!
//! # Rules
//! R1. Mounts are freed only with the topology lock. So a mount with a known number stays the same
//!     from when the lock is taken, with a pin on it, until the lock is released.
//! R2. A place is let go only after the topology lock: that may be the end of a mount.

mod absent;
mod bind;
mod info;
mod mount;
mod move_mount;
mod namespace;
mod open_tree;
mod pivot_root;
mod propagation;
mod remount;
mod setattr;
mod umount;

pub use info::LSMT_ROOT;
pub use setattr::MountAttr;

use super::PinnedPath;
use crate::inode::flag;
use crate::mount::Topology;
use crate::object::dflag;
use crate::path::PathIds;
use crate::task::Core;
use openpath_abi::{Errno, caps};

/// Whether the task may change mounts (`may_mount`).
///
/// # Errors
/// `EPERM`.
fn may_mount(core: &Core) -> Result<(), Errno> {
    if core.cred().capable(caps::CAP_SYS_ADMIN) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

impl PinnedPath<'_> {
    /// Whether it is the root of the mount it was reached through (`path_mounted`).
    fn is_mount_root(&self) -> bool {
        let PathIds { mount, dentry } = self.path_ids();
        self.core.vfs.mounts.at(mount).root.get() == dentry
    }

    /// Whether its mount is in the task's namespace (`check_mnt`).
    fn is_local(&self, topology: &Topology) -> bool {
        topology.namespace_of(self.path_ids().mount) == self.core.namespace_id()
    }

    /// Whether its mount is in the task's namespace, or in a tree that belongs to an open file and
    /// was not copied from another one (`may_copy_tree`).
    fn is_usable(&self, topology: &Topology) -> bool {
        let namespace = topology.namespace_of(self.path_ids().mount);
        topology.may_use(self.core.namespace_id(), namespace)
    }

    /// Whether its name went while it was in use (`d_unlinked`).
    fn is_removed(&self) -> bool {
        let now = self
            .core
            .vfs
            .dcache
            .at(self.path_ids().dentry)
            .word()
            .sample();
        now.has(dflag::UNHASHED) && !now.has(dflag::ROOT)
    }
}

/// Runs `mount` with `target` locked to be mounted on, or with the root of a mount that came on it
/// since the lookup (`do_lock_mount`).
///
/// # Errors
/// `ENOENT` (removed, or its mount detached), those of `mount`.
fn on_top<'t, R>(
    core: &'t Core,
    mut target: PinnedPath<'t>,
    mount: impl FnOnce(&mut Topology, &PinnedPath<'_>) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let mounts = &core.vfs.mounts;
    loop {
        let over = {
            let inode = target.inode()?;
            let _names = inode.lock_names();
            let mut topology = mounts.topology.lock();
            let PathIds { mount: at, dentry } = target.path_ids();
            let Some((over, root)) = mounts.cover_now(at, dentry) else {
                let gone = inode.flags() & flag::DEAD != 0 || target.is_removed();
                if gone || topology.namespace_of(at) == 0 {
                    return Err(Errno::ENOENT);
                }
                return mount(&mut topology, &target);
            };
            core.pins.pin_now(over, root).ok_or(Errno::ENOMEM)?
        };
        let sample = core.vfs.dcache.at(over.dentry()).word().sample();
        target = PinnedPath::new(core, over, sample);
    }
}

/// Whether `to` can be reached by going down from `from` (`is_path_reachable`).
fn leads_to(core: &Core, from: PathIds, to: PathIds) -> bool {
    let mounts = &core.vfs.mounts;
    let mut at = to;
    while at.mount != from.mount {
        match mounts.below(at.mount) {
            Some((mount, dentry)) => at = PathIds { mount, dentry },
            None => return false,
        }
    }
    core.vfs.dcache.is_below_now(at.dentry, from.dentry)
}
