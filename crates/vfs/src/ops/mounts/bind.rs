// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes bind mounts and moves mounts, as mount(2) with `MS_BIND` and `MS_MOVE` does.
//!
//! # Kernel analogue
//! `do_loopback`, `do_move_mount_old`.

use super::{may_mount, move_mount, on_top};
use crate::file::PathStart;
use crate::instance::Shared;
use crate::mount::Topology;
use crate::namespace::{CopyDepth, CopyPropagation, GraftSource};
use crate::ops::{PinnedPath, resolve};
use crate::path::PathIds;
use crate::task::{Core, Task};
use crate::walk::lflag;
use openpath_abi::Errno;
use openpath_abi::limits::PATH_MAX;

impl Task {
    /// Mounts on `target` the place `source`, without the mounts below it. The new mount has the
    /// flags and the peers of the one it is taken from. Linux: mount(2) with `MS_BIND`.
    ///
    /// # Errors
    /// In this order:
    /// * `EINVAL` (`source` of 4096 bytes or more);
    /// * those of the walk to `target`; `EPERM` (without `CAP_SYS_ADMIN`);
    /// * `EINVAL` (empty `source`); those of the walk to `source`;
    /// * `ENOENT` (`target` was removed, or its mount detached);
    /// * `EINVAL` (the mount of `source` is unbindable; one of the two is in another namespace or
    ///   detached);
    /// * `ENOTDIR` (one is a directory, the other is not);
    /// * `ENOENT` (`source` was removed); `ENOSPC` (limit of mounts); `ENOMEM`.
    #[doc(alias = "MS_BIND")]
    pub fn bind(&self, source: &[u8], target: &[u8]) -> Result<(), Errno> {
        bind(&self.core, source, target, CopyDepth::One)
    }

    /// As [`Task::bind`], with all mounts below `source`. Linux: mount(2) with `MS_BIND` and
    /// `MS_REC`.
    ///
    /// # Errors
    /// As [`Task::bind`].
    #[doc(alias = "MS_REC")]
    pub fn bind_tree(&self, source: &[u8], target: &[u8]) -> Result<(), Errno> {
        bind(&self.core, source, target, CopyDepth::Bindable)
    }

    /// Moves the mount at `source`, with all mounts in it, to `target`. Linux: mount(2) with
    /// `MS_MOVE`.
    ///
    /// # Errors
    /// In this order: `EINVAL` (`source` of 4096 bytes or more); those of the walk to `target`;
    /// `EPERM` (without `CAP_SYS_ADMIN`); `EINVAL` (empty `source`); those of the walk to `source`;
    /// then as [`Task::move_mount`].
    #[doc(alias = "MS_MOVE")]
    pub fn move_mount_to(&self, source: &[u8], target: &[u8]) -> Result<(), Errno> {
        let core = &self.core;
        let (source, target) = both(core, source, target)?;
        move_mount::carry_out(core, &source, target, false)
    }
}

/// The places of a call of mount(2) with two paths.
fn both<'t>(
    core: &'t Core,
    source: &[u8],
    target: &[u8],
) -> Result<(PinnedPath<'t>, PinnedPath<'t>), Errno> {
    // mount(2) copies the source as a string of its own, before it looks at any path.
    if source.len() >= PATH_MAX {
        return Err(Errno::EINVAL);
    }
    let target = resolve(core, PathStart::Cwd, target, lflag::FOLLOW)?;
    may_mount(core)?;
    if source.is_empty() {
        return Err(Errno::EINVAL);
    }
    let source = resolve(core, PathStart::Cwd, source, lflag::FOLLOW)?;
    Ok((source, target))
}

fn bind(core: &Core, source: &[u8], target: &[u8], depth: CopyDepth) -> Result<(), Errno> {
    let (source, target) = both(core, source, target)?;
    core.vfs.sweep_mounts();
    on_top(core, target, |topology, target| {
        if !target.is_local(topology) {
            return Err(Errno::EINVAL);
        }
        check_source(topology, &source)?;
        if source.inode()?.is_dir() != target.inode()?.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        if source.is_removed() {
            return Err(Errno::ENOENT);
        }
        let made = core
            .vfs
            .copy_tree(topology, source.path_ids(), CopyPropagation::Peer, depth)?;
        let made: Vec<u32> = made.into_iter().map(|(new, _)| new).collect();
        core.vfs
            .graft_or_discard(topology, &made, target.path_ids())
    })
}

/// Whether the mount of `source` can be copied (`may_copy_tree`).
///
/// # Errors
/// `EINVAL` (unbindable, in another namespace, detached).
pub(super) fn check_source(topology: &Topology, source: &PinnedPath<'_>) -> Result<(), Errno> {
    if topology.node(source.path_ids().mount)?.unbindable || !source.is_usable(topology) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

impl Shared {
    /// Grafts mounts that were made just now; frees all of them on failure. Held: the topology
    /// lock, the names of the file at `at`.
    ///
    /// # Errors
    /// As [`Shared::graft`].
    pub(super) fn graft_or_discard(
        &self,
        topology: &mut Topology,
        made: &[u32],
        at: PathIds,
    ) -> Result<(), Errno> {
        let top = *made.first().ok_or(Errno::EINVAL)?;
        let grafted = self.graft(topology, top, at, GraftSource::New);
        if grafted.is_err() {
            self.discard(topology, made);
        }
        grafted
    }
}
