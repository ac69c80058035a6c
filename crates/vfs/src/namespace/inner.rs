// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the internal mounts, attached nowhere, for anonymous files and for pipes without a name.
//!
//! # Kernel analogue
//! `kern_mount`.

use crate::instance::Shared;
use crate::object::mflag;
use crate::superblock::SuperBlock;
use openpath_abi::{Errno, Timespec};
use openpath_sync::WriteOnce;
use std::sync::Arc;

impl Shared {
    /// The mount at `place`, which is attached nowhere; made the first time, of `tree`.
    ///
    /// # Errors
    /// `ENOSPC` (no more mounts), `ENOMEM`.
    pub(crate) fn inner_mount(
        &self,
        place: &WriteOnce<u32>,
        tree: impl FnOnce(Timespec) -> Arc<SuperBlock>,
    ) -> Result<u32, Errno> {
        if let Some(&mount) = place.get() {
            return Ok(mount);
        }
        let mut topology = self.mounts.topology.lock();
        if let Some(&mount) = place.get() {
            return Ok(mount);
        }
        let sb = tree(self.clock.now());
        let mount = self.new_mount(&mut topology, &sb, None, mflag::REL_ATIME)?;
        Ok(*place.set(mount))
    }
}
