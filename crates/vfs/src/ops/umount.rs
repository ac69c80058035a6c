// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounts go: umount2(2).
//!
//! # Kernel analogue
//! `path_umount`, `can_umount`, `do_umount`, `umount_tree`.
//!
//! # Rules
//! R1. Nobody frees a mount without the topology lock, so a mount known by its number stays what it
//!     is from when the lock is taken, with a pin on it, until the lock is let go.

use super::mount::may_mount;
use super::{Held, remount, resolve};
use crate::instance::Shared;
use crate::mount::Topology;
use crate::task::{At, Core, Task};
use crate::walk::lflag;
use openpath_abi::Errno;
use openpath_abi::mount::{MNT_DETACH, MNT_EXPIRE, MNT_FORCE, UMOUNT_NOFOLLOW};

impl Task {
    /// Takes the topmost mount off `target`. Linux: umount2(2).
    ///
    /// With `MNT_DETACH` it and all mounts below it leave the namespace at once and are freed when
    /// nobody uses them any more. `MNT_FORCE` is accepted: no backend has requests to give up. The
    /// task's own root, not detached, only becomes read-only, tree and all.
    ///
    /// # Errors
    /// In this order: `EINVAL` (flags); those of the walk; `EPERM` (without `CAP_SYS_ADMIN`);
    /// `EINVAL` (`target` is not the root of a mount; its mount is detached, or the namespace's
    /// first; `MNT_EXPIRE` with `MNT_FORCE` or `MNT_DETACH`, or of the task's own root); `EBUSY`
    /// (in use, or something is mounted in it); `EAGAIN` (the first `MNT_EXPIRE`).
    ///
    /// # Divergence
    /// `MNT_EXPIRE` does not notice uses that begin and end between its two calls: a use writes
    /// nothing that others see.
    #[doc(alias = "MNT_DETACH")]
    pub fn umount(&self, target: &[u8], flags: u32) -> Result<(), Errno> {
        if flags & !(MNT_FORCE | MNT_DETACH | MNT_EXPIRE | UMOUNT_NOFOLLOW) != 0 {
            return Err(Errno::EINVAL);
        }
        let core = &self.core;
        let follow = if flags & UMOUNT_NOFOLLOW == 0 {
            lflag::FOLLOW
        } else {
            0
        };
        let target = resolve(core, At::Cwd, target, follow | lflag::MOUNTPOINT)?;
        may_mount(core)?;
        if !target.is_mount_root() {
            return Err(Errno::EINVAL);
        }
        let is_own_root = target.spot().mount == core.root.get().mount;
        if flags & MNT_EXPIRE != 0 && (flags & (MNT_FORCE | MNT_DETACH) != 0 || is_own_root) {
            return Err(Errno::EINVAL);
        }
        if is_own_root && flags & MNT_DETACH == 0 {
            return remount::set_read_only(core, &target, true);
        }
        core.vfs.sweep_mounts();
        take_off(core, target, flags)
    }
}

fn take_off(core: &Core, target: Held<'_>, flags: u32) -> Result<(), Errno> {
    let vfs = &core.vfs;
    let mut topology = vfs.mounts.topology.lock();
    let mount = target.spot().mount;
    if vfs.mounts.below(mount).is_none() {
        return Err(Errno::EINVAL);
    }
    if flags & MNT_EXPIRE != 0 {
        let ours = 1;
        if topology.has_children(mount) || vfs.dcache.store.mount_pins(mount) > ours {
            return Err(Errno::EBUSY);
        }
        if target.mount()?.expiring.set_bits(1) == 0 {
            return Err(Errno::EAGAIN);
        }
    }
    // R1: from here on it is the topology lock that keeps it.
    drop(target);
    if flags & MNT_DETACH != 0 {
        vfs.detach_tree(&mut topology, mount);
        return Ok(());
    }
    if topology.has_children(mount) || !vfs.free_mount(&mut topology, mount) {
        return Err(Errno::EBUSY);
    }
    Ok(())
}

impl Shared {
    /// Takes a mount and all mounts below it out of the namespace, each by itself. Held: the
    /// topology lock.
    fn detach_tree(&self, topology: &mut Topology, top: u32) {
        let mut tree = vec![top];
        let mut next = 0;
        while let Some(mount) = tree.get(next) {
            tree.extend(topology.children.get(mount).cloned().unwrap_or_default());
            next += 1;
        }
        // The top first: who walks from outside finds all of the tree or nothing.
        for &mount in &tree {
            self.detach(topology, mount);
        }
        topology.detached.append(&mut tree);
        self.sweep_detached(topology);
    }
}
