// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes the topmost mount off a directory: umount2(2).
//!
//! # Kernel analogue
//! `path_umount`, `can_umount`, `do_umount`, `umount_tree`.

use super::{may_mount, remount};
use crate::file::PathStart;
use crate::namespace::UmountExtent;
use crate::ops::{PinnedPath, resolve};
use crate::task::{Core, Task};
use crate::walk::lflag;
use openpath_abi::mount::{MNT_DETACH, MNT_EXPIRE, MNT_FORCE, UMOUNT_NOFOLLOW};
use openpath_abi::{Errno, UmountFlags};

impl Task {
    /// Takes the topmost mount off `target`. Linux: umount2(2).
    ///
    /// With `MNT_DETACH` it and all mounts below it leave the namespace at once and are freed after
    /// their last user. `MNT_FORCE` is accepted: no backend has requests to give up. The task's own
    /// root, not detached, only becomes read-only, tree and all.
    ///
    /// # Errors
    /// In this order:
    /// * `EINVAL` (flags); those of the walk; `EPERM` (without `CAP_SYS_ADMIN`);
    /// * `EINVAL` (`target` is not the root of a mount; its mount is detached, in another
    ///   namespace, or the lowest of this one);
    /// * `EINVAL` (`MNT_EXPIRE` with `MNT_FORCE` or `MNT_DETACH`, or of the task's own root);
    /// * `EBUSY` (in use, or with a mount in it); `EAGAIN` (the first `MNT_EXPIRE`).
    ///
    /// # Divergence
    /// `MNT_EXPIRE` does not notice uses that begin and end between its two calls: a use writes
    /// nothing that other tasks see.
    #[doc(alias = "MNT_DETACH")]
    pub fn umount(&self, target: &[u8], flags: UmountFlags) -> Result<(), Errno> {
        if flags.intersects(!(MNT_FORCE | MNT_DETACH | MNT_EXPIRE | UMOUNT_NOFOLLOW)) {
            return Err(Errno::EINVAL);
        }
        let core = &self.core;
        let follow = if !flags.contains(UMOUNT_NOFOLLOW) {
            lflag::FOLLOW
        } else {
            0
        };
        let target = resolve(core, PathStart::Cwd, target, follow | lflag::MOUNTPOINT)?;
        may_mount(core)?;
        if !target.is_mount_root() {
            return Err(Errno::EINVAL);
        }
        let is_own_root = target.path_ids().mount == core.root.get().mount;
        if flags.contains(MNT_EXPIRE) && (flags.intersects(MNT_FORCE | MNT_DETACH) || is_own_root) {
            return Err(Errno::EINVAL);
        }
        if is_own_root && !flags.contains(MNT_DETACH) {
            return remount::set_read_only(core, &target, true);
        }
        core.vfs.sweep_mounts();
        take_off(core, target, flags)
    }
}

fn take_off(core: &Core, target: PinnedPath<'_>, flags: UmountFlags) -> Result<(), Errno> {
    let vfs = &core.vfs;
    let mut topology = vfs.mounts.topology.lock();
    let mount = target.path_ids().mount;
    if !target.is_local(&topology) || vfs.mounts.below(mount).is_none() {
        return Err(Errno::EINVAL);
    }
    if flags.contains(MNT_EXPIRE) {
        let ours = 1;
        let used = vfs.dcache.store.mount_pins(mount) > ours;
        if !topology.children(mount).is_empty() || used {
            return Err(Errno::EBUSY);
        }
        if target.mount()?.expiring.set_bits(1) == 0 {
            return Err(Errno::EAGAIN);
        }
    }
    // From here on the topology lock keeps it. Its pin is released under that lock all the same,
    // since with the pin the mount is in use; work that waits for the release is swept here.
    drop(target);
    if flags.contains(MNT_DETACH) {
        vfs.umount_tree(&mut topology, mount, UmountExtent::Everywhere);
        return Ok(());
    }
    vfs.unmount_idle(&mut topology, mount)
}
