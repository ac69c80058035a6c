// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets the propagation types of mounts: mount(2) with `MS_SHARED` and its like.
//!
//! # Kernel analogue
//! `do_change_type`.

use super::may_mount;
use crate::file::PathStart;
use crate::mount::Propagation;
use crate::ops::resolve;
use crate::task::Task;
use crate::walk::lflag;
use openpath_abi::Errno;
use openpath_abi::mount::{MS_REC, MS_SILENT};

impl Task {
    /// Makes the mount at `target`, and with `MS_REC` all mounts in it, one of `MS_SHARED`,
    /// `MS_SLAVE`, `MS_PRIVATE` and `MS_UNBINDABLE`. Linux: mount(2).
    ///
    /// # Errors
    /// In this order: those of the walk; `EPERM` (without `CAP_SYS_ADMIN`); `EINVAL` (`target` is
    /// not the root of a mount; `flags` have not exactly one of the four, or others; the mount was
    /// taken out of its namespace).
    #[doc(alias = "MS_SHARED")]
    pub fn set_propagation(&self, target: &[u8], flags: u64) -> Result<(), Errno> {
        let core = &self.core;
        let target = resolve(core, PathStart::Cwd, target, lflag::FOLLOW)?;
        may_mount(core)?;
        let how = Propagation::from_ms(flags & !(MS_REC | MS_SILENT));
        let how = how
            .filter(|_| target.is_mount_root())
            .ok_or(Errno::EINVAL)?;
        let topology = &mut *core.vfs.mounts.topology.lock();
        let top = target.path_ids().mount;
        // In other namespaces too (`may_change_propagation`).
        if topology.namespace_of(top) == 0 {
            return Err(Errno::EINVAL);
        }
        let mounts = if flags & MS_REC == 0 {
            vec![top]
        } else {
            topology.tree(top)
        };
        for mount in mounts {
            topology.set_propagation(mount, how);
        }
        Ok(())
    }
}
