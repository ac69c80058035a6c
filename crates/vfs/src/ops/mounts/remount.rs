// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the flags of a mount, or makes a whole tree read-only or writable: mount(2) with
//! `MS_REMOUNT`.
//!
//! # Kernel analogue
//! `do_reconfigure_mnt`, `do_remount`, `reconfigure_super`.

use super::may_mount;
use crate::file::PathStart;
use crate::mount::{MountFlags, Topology};
use crate::object::{MountData, mflag};
use crate::ops::{PinnedPath, resolve};
use crate::superblock::SuperBlock;
use crate::task::{Core, Task};
use crate::walk::lflag;
use openpath_abi::Errno;
use std::sync::Arc;

impl Task {
    /// Gives the mount at `target` these flags in place of those it has. Linux: mount(2) with
    /// `MS_REMOUNT` and `MS_BIND`.
    ///
    /// # Errors
    /// In this order: those of the walk; `EPERM` (without `CAP_SYS_ADMIN`); `EINVAL` (`target` is
    /// not the root of a mount, or its mount is detached); `EBUSY` (read-only, during a write or
    /// with a file open for writing).
    pub fn remount_bind(&self, target: &[u8], flags: MountFlags) -> Result<(), Errno> {
        let core = &self.core;
        let target = resolve(core, PathStart::Cwd, target, lflag::FOLLOW)?;
        may_mount(core)?;
        let topology = core.vfs.mounts.topology.lock();
        check_root(&topology, &target)?;
        let index = target.path_ids().mount;
        let mount = Arc::clone(&topology.node(index)?.data);
        let was_writable = !target.mount_flags().has(mflag::READ_ONLY) && !mount.sb.is_read_only();
        let turned = if was_writable && flags.contains(MountFlags::READ_ONLY) {
            vec![(index, mount)]
        } else {
            Vec::new()
        };
        let no_writers = MountData::keep_writers_out(&core.vfs.dcache.store, &turned);
        let _no_writers = no_writers.ok_or(Errno::EBUSY)?;
        let word = core.vfs.mounts.at(index).word();
        word.change().clear(mflag::ALL).set(flags.0 & mflag::ALL);
        Ok(())
    }

    /// Makes the whole tree at `target` read-only or writable; flags of mounts stay as they are.
    /// Linux: mount(2) with `MS_REMOUNT`, as far as it concerns the superblock.
    ///
    /// # Errors
    /// In this order:
    /// * those of the walk; `EPERM` (without `CAP_SYS_ADMIN`);
    /// * `EINVAL` (`target` is not the root of a mount, or its mount is detached);
    /// * `EBUSY` (read-only, during a write or with a file open for writing through any mount of
    ///   the tree, or with a file without a name in use).
    pub fn remount_sb(&self, target: &[u8], read_only: bool) -> Result<(), Errno> {
        let core = &self.core;
        let target = resolve(core, PathStart::Cwd, target, lflag::FOLLOW)?;
        may_mount(core)?;
        set_read_only(core, &target, read_only)
    }
}

/// # Errors
/// `EINVAL` (not the root of a mount, or its mount is detached).
fn check_root(topology: &Topology, target: &PinnedPath<'_>) -> Result<(), Errno> {
    if target.is_local(topology) && target.is_mount_root() {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// As [`Task::remount_sb`], for a permitted caller.
///
/// # Errors
/// `EINVAL`, `EBUSY`.
pub(super) fn set_read_only(
    core: &Core,
    target: &PinnedPath<'_>,
    read_only: bool,
) -> Result<(), Errno> {
    // An unlinked file that is still found after this is in use.
    core.vfs.dcache.collect();
    let topology = core.vfs.mounts.topology.lock();
    check_root(&topology, target)?;
    let sb = &target.mount()?.sb;
    if !read_only || sb.is_read_only() {
        sb.set_read_only(read_only);
        return Ok(());
    }
    let mounts = mounts_of(&topology, sb);
    let no_writers = MountData::keep_writers_out(&core.vfs.dcache.store, &mounts);
    let _no_writers = no_writers.ok_or(Errno::EBUSY)?;
    if nameless_in_use(core, sb) {
        return Err(Errno::EBUSY);
    }
    sb.set_read_only(true);
    Ok(())
}

/// All mounts of a tree, with their numbers.
fn mounts_of(topology: &Topology, sb: &Arc<SuperBlock>) -> Vec<(u32, Arc<MountData>)> {
    let all = topology.nodes.iter();
    all.filter(|(_, node)| Arc::ptr_eq(&node.data.sb, sb))
        .map(|(&mount, node)| (mount, Arc::clone(&node.data)))
        .collect()
}

/// Whether a file of the tree is in use without a name (`s_remove_count`).
fn nameless_in_use(core: &Core, sb: &SuperBlock) -> bool {
    let Some(number) = sb.binding.lock().as_ref().map(|binding| binding.number) else {
        return false;
    };
    let dcache = &core.vfs.dcache;
    dcache.pending_free_of(number).into_iter().any(|entry| {
        let Some(pin) = core.pins.pin_now(0, entry) else {
            return false;
        };
        let nameless = dcache.store.dentry_payload(&pin).map(|i| i.nlink() == 0);
        core.pins.release(pin);
        nameless == Some(true)
    })
}
