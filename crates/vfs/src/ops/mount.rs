// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trees are mounted: mount(2) of a new tree and of a part of one that is there.
//!
//! # Kernel analogue
//! `path_mount`, `do_lock_mount`, `do_add_mount`, `do_loopback`, `copy_tree`.
//!
//! # Locks
//! The names of what is mounted on, so that it is not removed meanwhile; then the mounts' topology.

use super::{Held, resolve};
use crate::dcache::dflag;
use crate::inode::flag;
use crate::instance::Shared;
use crate::mount::{MountData, MountFlags, Topology, mflag};
use crate::superblock::SuperBlock;
use crate::task::{At, Core, Task};
use crate::walk::{Spot, lflag};
use openpath_abi::limits::PATH_MAX;
use openpath_abi::{Errno, caps};
use std::sync::Arc;

impl Task {
    /// Mounts a tree on `target`. Linux: mount(2) of a file system.
    ///
    /// A superblock that is read-only was made so, or is made so by [`Task::remount_sb`].
    ///
    /// # Errors
    /// In this order: those of the walk; `EPERM` (without `CAP_SYS_ADMIN`); `ENOENT` (`target` was
    /// removed, or its mount detached); `EBUSY` (`target` is the root of a mount of the same tree);
    /// `ENOTDIR` (one is a directory, the other is not); `EBUSY` (another `Vfs` has the tree);
    /// `ENOSPC` (limit of mounts); `ENOMEM`.
    pub fn mount(
        &self,
        sb: Arc<SuperBlock>,
        target: &[u8],
        flags: MountFlags,
    ) -> Result<(), Errno> {
        let core = &self.core;
        let target = resolve(core, At::Cwd, target, lflag::FOLLOW)?;
        may_mount(core)?;
        core.vfs.sweep_mounts();
        on_top(core, target, |topology, target| {
            if target.is_mount_root() && Arc::ptr_eq(&target.mount()?.sb, &sb) {
                return Err(Errno::EBUSY);
            }
            if target.inode()?.is_dir() != sb.root().is_dir() {
                return Err(Errno::ENOTDIR);
            }
            let new = core.vfs.new_mount(topology, &sb, None, flags.0)?;
            core.vfs.attach_or_free(topology, &[new], target.spot())
        })
    }

    /// Mounts on `target` what is at `source`, without what is mounted below it; the new mount has
    /// the flags of the one it is taken from. Linux: mount(2) with `MS_BIND`.
    ///
    /// # Errors
    /// In this order: `EINVAL` (`source` of 4096 bytes or more); those of the walk to `target`;
    /// `EPERM` (without `CAP_SYS_ADMIN`); `EINVAL` (empty `source`); those of the walk to `source`;
    /// `ENOENT` (`target` was removed, or its mount detached); `EINVAL` (the mount of `source` is
    /// detached); `ENOENT` (`source` was removed); `ENOTDIR` (one is a directory, the other is
    /// not); `ENOSPC` (limit of mounts); `ENOMEM`.
    #[doc(alias = "MS_BIND")]
    pub fn bind(&self, source: &[u8], target: &[u8]) -> Result<(), Errno> {
        bind(&self.core, source, target, Depth::One)
    }

    /// As [`Task::bind`], with all that is mounted below `source`. Linux: mount(2) with `MS_BIND`
    /// and `MS_REC`.
    ///
    /// # Errors
    /// As [`Task::bind`].
    #[doc(alias = "MS_REC")]
    pub fn bind_tree(&self, source: &[u8], target: &[u8]) -> Result<(), Errno> {
        bind(&self.core, source, target, Depth::All)
    }

    /// The flags of the mount that `path` is in.
    ///
    /// # Errors
    /// Those of the walk.
    pub fn mount_flags(&self, path: &[u8]) -> Result<MountFlags, Errno> {
        let held = resolve(&self.core, At::Cwd, path, lflag::FOLLOW)?;
        Ok(MountFlags(held.mount_flags().flags() & mflag::ALL))
    }
}

/// How much a bind takes along.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    One,
    All,
}

/// Whether the task may change mounts (`may_mount`).
///
/// # Errors
/// `EPERM`.
pub(super) fn may_mount(core: &Core) -> Result<(), Errno> {
    if core.cred().capable(caps::CAP_SYS_ADMIN) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

impl Held<'_> {
    /// Whether it is the root of the mount it was reached through (`path_mounted`).
    pub(super) fn is_mount_root(&self) -> bool {
        let Spot { mount, dentry } = self.spot();
        self.core.vfs.mounts.at(mount).root.get() == dentry
    }

    /// Whether its mount is in the namespace (`check_mnt`). Held: the topology lock.
    pub(super) fn is_attached(&self) -> bool {
        let mount = self.spot().mount;
        mount == self.core.namespace().root || self.core.vfs.mounts.below(mount).is_some()
    }

    /// Whether its name went while it was in use.
    fn is_removed(&self) -> bool {
        let now = self.core.vfs.dcache.at(self.spot().dentry).word().sample();
        now.has(dflag::UNHASHED) && !now.has(dflag::ROOT)
    }
}

/// Runs `mount` with `target`, or the root of what was mounted on it since it was looked up, locked
/// to be mounted on (`do_lock_mount`).
///
/// # Errors
/// `ENOENT` (removed, or its mount detached), those of `mount`.
fn on_top<'t, R>(
    core: &'t Core,
    mut target: Held<'t>,
    mount: impl FnOnce(&mut Topology, &Held<'_>) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let mounts = &core.vfs.mounts;
    loop {
        let over = {
            let inode = target.inode()?;
            let _names = inode.lock_names();
            let mut topology = mounts.topology.lock();
            let Spot { mount: at, dentry } = target.spot();
            let Some((over, root)) = mounts.cover_now(at, dentry) else {
                let gone = inode.flags() & flag::DEAD != 0 || target.is_removed();
                if gone || !target.is_attached() {
                    return Err(Errno::ENOENT);
                }
                return mount(&mut topology, &target);
            };
            core.pins.pin_now(over, root).ok_or(Errno::ENOMEM)?
        };
        let sample = core.vfs.dcache.at(over.dentry()).word().sample();
        target = Held::new(core, over, sample);
    }
}

fn bind(core: &Core, source: &[u8], target: &[u8], depth: Depth) -> Result<(), Errno> {
    // mount(2) copies the source as a string of its own, before it looks at any path.
    if source.len() >= PATH_MAX {
        return Err(Errno::EINVAL);
    }
    let target = resolve(core, At::Cwd, target, lflag::FOLLOW)?;
    may_mount(core)?;
    if source.is_empty() {
        return Err(Errno::EINVAL);
    }
    let source = resolve(core, At::Cwd, source, lflag::FOLLOW)?;
    core.vfs.sweep_mounts();
    on_top(core, target, |topology, target| {
        if !source.is_attached() {
            return Err(Errno::EINVAL);
        }
        if source.is_removed() {
            return Err(Errno::ENOENT);
        }
        if source.inode()?.is_dir() != target.inode()?.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        let new = copy(core, topology, source.spot(), depth)?;
        core.vfs.attach_or_free(topology, &new, target.spot())
    })
}

/// A mount of what is at `from`, attached nowhere, and with [`Depth::All`] copies of all mounts
/// below it in their places (`copy_tree`): the first is the top. Held: the topology lock.
fn copy(core: &Core, topology: &mut Topology, from: Spot, depth: Depth) -> Result<Vec<u32>, Errno> {
    let vfs = &core.vfs;
    let mut made = vec![copy_one(core, topology, from)?];
    // What is to be copied is listed before anything is attached, the copies not among it.
    let mut pending = vec![(from, 0)];
    while depth == Depth::All
        && let Some((from, into)) = pending.pop()
    {
        for child in topology
            .children
            .get(&from.mount)
            .cloned()
            .unwrap_or_default()
        {
            let Some((_, point)) = vfs.mounts.below(child) else {
                continue;
            };
            if !vfs.dcache.is_below_now(point, from.dentry) {
                continue;
            }
            let root = vfs.mounts.at(child).root.get();
            let from = Spot {
                mount: child,
                dentry: root,
            };
            let place = Spot {
                mount: made[into],
                dentry: point,
            };
            let copied = copy_one(core, topology, from).and_then(|new| {
                made.push(new);
                vfs.attach(topology, new, place)
            });
            if let Err(errno) = copied {
                vfs.free_all(topology, &made);
                return Err(errno);
            }
            pending.push((from, made.len() - 1));
        }
    }
    Ok(made)
}

fn copy_one(core: &Core, topology: &mut Topology, from: Spot) -> Result<u32, Errno> {
    let data = core.mount_data(from.mount).ok_or(Errno::EINVAL)?;
    let flags = core.vfs.mounts.at(from.mount).word().sample().flags();
    core.vfs
        .new_mount(topology, &data.sb, Some(from.dentry), flags)
}

impl Core {
    /// What the mount at `index` is. Held: the topology lock, so that it stays.
    pub(super) fn mount_data(&self, index: u32) -> Option<Arc<MountData>> {
        let pin = self.pins.pin_now(index, 0)?;
        let data = self.vfs.dcache.store.share_mount_payload(&pin);
        self.pins.release(pin);
        data
    }
}

impl Shared {
    /// Frees detached mounts that nobody uses any more.
    pub(crate) fn sweep_mounts(&self) {
        self.sweep_detached(&mut self.mounts.topology.lock());
    }

    /// Puts the first of `mounts`, to which the others are attached, on the directory `at`; without
    /// success all are freed. Held: the topology lock, the names of what is at `at`.
    ///
    /// # Errors
    /// As [`Shared::attach`].
    fn attach_or_free(
        &self,
        topology: &mut Topology,
        mounts: &[u32],
        at: Spot,
    ) -> Result<(), Errno> {
        let top = *mounts.first().ok_or(Errno::EINVAL)?;
        let attached = self.attach(topology, top, at);
        if attached.is_err() {
            self.free_all(topology, mounts);
        }
        attached
    }

    /// Frees mounts that were made just now, each after those attached to it.
    fn free_all(&self, topology: &mut Topology, mounts: &[u32]) {
        for &mount in mounts.iter().rev() {
            if !self.free_mount(topology, mount) {
                topology.detached.push(mount);
            }
        }
    }
}
