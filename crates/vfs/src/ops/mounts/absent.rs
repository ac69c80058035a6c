// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets and removes a mount's rules of absent names, which hide names. The host calls this; no
//! guest can.

use crate::absent::AbsentRules;
use crate::file::PathStart;
use crate::ops::resolve;
use crate::task::Task;
use crate::walk::lflag;
use openpath_abi::Errno;

impl Task {
    /// Gives the mount at `target` these rules in place of those it has; `None` removes them.
    /// Divergence: L22.
    ///
    /// It is for the host: it checks no capabilities, and no call of Linux leads here.
    ///
    /// # Errors
    /// In this order: those of the walk; `EINVAL` (`target` is not the root of a mount, or its
    /// mount is detached); `ENOMEM` when there are no pins left.
    pub fn set_absent(&self, target: &[u8], rules: Option<AbsentRules>) -> Result<(), Errno> {
        let core = &self.core;
        let target = resolve(core, PathStart::Cwd, target, lflag::FOLLOW)?;
        let mut topology = core.vfs.mounts.topology.lock();
        if !target.is_usable(&topology) || !target.is_mount_root() {
            return Err(Errno::EINVAL);
        }
        core.vfs
            .set_absent_rules(&mut topology, target.path_ids().mount, rules)
    }
}
