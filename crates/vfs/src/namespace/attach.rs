// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attaches mounts to directories, detaches them, and exchanges two mounts.
//!
//! # Kernel analogue
//! `attach_mnt`, `umount_mnt`, `mnt_change_mountpoint`.
//!
//! # Rules
//! R1. Steps that belong together happen during one change of `Mounts::changes`: a walk finds all
//!     of them or none.

use crate::instance::Shared;
use crate::mount::Topology;
use crate::object::dflag;
use crate::path::PathIds;
use openpath_abi::Errno;
use openpath_sync::{Change, Pin};

/// A directory that is pinned to be mounted on.
pub(super) struct Mountpoint {
    at: PathIds,
    pin: Pin,
}

impl Shared {
    /// Holds the directory `at`, to be mounted on.
    ///
    /// # Errors
    /// `ENOENT` if the place went away; `ENOMEM`.
    pub(super) fn hold_point(&self, at: PathIds) -> Result<Mountpoint, Errno> {
        let now = self.dcache.at(at.dentry).word().sample();
        if now.has(dflag::UNHASHED) && !now.has(dflag::ROOT) {
            return Err(Errno::ENOENT);
        }
        let pin = self.mount_pins.lock().pin_now(0, at.dentry);
        let pin = pin.ok_or(Errno::ENOMEM)?;
        Ok(Mountpoint { at, pin })
    }

    /// Lets go of a directory that nothing was mounted on.
    pub(super) fn let_point_go(&self, point: Mountpoint) {
        self.dcache.store.release(point.pin);
    }

    /// Puts `mount`, which is mounted nowhere, on the directory `at`. Held: the topology lock.
    ///
    /// # Errors
    /// As [`Shared::hold_point`].
    pub(crate) fn attach(
        &self,
        topology: &mut Topology,
        mount: u32,
        at: PathIds,
    ) -> Result<(), Errno> {
        let point = self.hold_point(at)?;
        let changes = self.mounts.changes.change();
        self.attach_held(topology, mount, point, &changes);
        Ok(())
    }

    /// Puts `mount`, which is mounted nowhere, where it is to be. Held: the topology lock.
    pub(super) fn attach_held(
        &self,
        topology: &mut Topology,
        mount: u32,
        point: Mountpoint,
        _during: &Change<'_>,
    ) {
        let Mountpoint { at, pin } = point;
        let unused = topology.enter(mount, at.mount, at.dentry, pin);
        debug_assert!(unused.is_none(), "it was mounted nowhere");
        // The names found below this directory change, for paths as for steps.
        let _moved = self.dcache.begin_dir_change(at.dentry);
        self.dcache.set_flags(at.dentry, dflag::MOUNTED, 0);
        self.mounts.insert(mount, at);
    }

    /// Takes `mount` off what it covers, pinned or not. Held: the topology lock.
    pub(super) fn detach(&self, topology: &mut Topology, mount: u32, during: &Change<'_>) {
        if let Some(point) = self.take_off(topology, mount, during) {
            self.let_point_go(point);
        }
    }

    /// As [`Shared::detach`]; the covered directory stays pinned.
    pub(super) fn take_off(
        &self,
        topology: &mut Topology,
        mount: u32,
        _during: &Change<'_>,
    ) -> Option<Mountpoint> {
        // Not `below`, which waits for the change that this is.
        let m = self.mounts.at(mount);
        let (parent, point) = (m.parent.get(), m.point.get());
        if parent == 0 {
            return None;
        }
        let (last, pin) = topology.leave(mount, parent, point);
        let _moved = self.dcache.begin_dir_change(point);
        self.mounts.remove(mount);
        if last {
            self.dcache.set_flags(point, 0, dflag::MOUNTED);
        }
        let at = PathIds {
            mount: parent,
            dentry: point,
        };
        pin.map(|pin| Mountpoint { at, pin })
    }
}

impl Shared {
    /// Puts the second mount where the first is, and the first on the place given with the second:
    /// `place` is where the first is. Held: the topology lock.
    ///
    /// # Errors
    /// `ENOENT` (a place went away), `ENOMEM`; everything is as it was.
    pub(crate) fn exchange(
        &self,
        topology: &mut Topology,
        (old, place): (u32, PathIds),
        (new, put_old): (u32, PathIds),
    ) -> Result<(), Errno> {
        let place = self.hold_point(place)?;
        let put_old = match self.hold_point(put_old) {
            Ok(point) => point,
            Err(errno) => {
                self.let_point_go(place);
                return Err(errno);
            }
        };
        let changes = self.mounts.changes.change();
        self.detach(topology, new, &changes);
        self.detach(topology, old, &changes);
        self.attach_held(topology, new, place, &changes);
        self.attach_held(topology, old, put_old, &changes);
        Ok(())
    }
}
