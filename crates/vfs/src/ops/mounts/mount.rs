// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounts a new tree as mount(2) of a file system does, and tells the flags of a mount.
//!
//! # Kernel analogue
//! `path_mount`, `do_add_mount`.

use super::{may_mount, on_top};
use crate::file::PathStart;
use crate::mount::MountFlags;
use crate::object::mflag;
use crate::ops::resolve;
use crate::superblock::SuperBlock;
use crate::task::Task;
use crate::walk::lflag;
use openpath_abi::Errno;
use std::sync::Arc;

impl Task {
    /// Mounts a tree on `target`. Linux: mount(2) of a file system.
    ///
    /// A superblock that is read-only was made so, or is made so by [`Task::remount_sb`].
    ///
    /// # Errors
    /// In this order:
    /// * those of the walk; `EPERM` (without `CAP_SYS_ADMIN`);
    /// * `ENOENT` (`target` was removed, or its mount detached);
    /// * `EINVAL` (`target` is in another namespace);
    /// * `EBUSY` (`target` is the root of a mount of the same tree);
    /// * `ENOTDIR` (one is a directory, the other is not);
    /// * `EBUSY` (another `Vfs` has the tree); `ENOSPC` (limit of mounts); `ENOMEM`.
    pub fn mount(
        &self,
        sb: Arc<SuperBlock>,
        target: &[u8],
        flags: MountFlags,
    ) -> Result<(), Errno> {
        let core = &self.core;
        let target = resolve(core, PathStart::Cwd, target, lflag::FOLLOW)?;
        may_mount(core)?;
        core.vfs.sweep_mounts();
        on_top(core, target, |topology, target| {
            if !target.is_local(topology) {
                return Err(Errno::EINVAL);
            }
            if target.is_mount_root() && Arc::ptr_eq(&target.mount()?.sb, &sb) {
                return Err(Errno::EBUSY);
            }
            if target.inode()?.is_dir() != sb.root().is_dir() {
                return Err(Errno::ENOTDIR);
            }
            let new = core.vfs.new_mount(topology, &sb, None, flags.0)?;
            core.vfs
                .graft_or_discard(topology, &[new], target.path_ids())
        })
    }

    /// The flags of the mount that `path` is in.
    ///
    /// # Errors
    /// Those of the walk.
    pub fn mount_flags(&self, path: &[u8]) -> Result<MountFlags, Errno> {
        let held = resolve(&self.core, PathStart::Cwd, path, lflag::FOLLOW)?;
        Ok(MountFlags(held.mount_flags().flags() & mflag::ALL))
    }
}
