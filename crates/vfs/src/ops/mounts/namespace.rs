// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives a task a mount namespace of its own, or has it enter another: unshare(2), setns(2).
//!
//! # Kernel analogue
//! `copy_mnt_ns`, `mntns_install`.

use super::may_mount;
use crate::namespace::Namespace;
use crate::path::PathIds;
use crate::task::{Core, Task};
use openpath_abi::{Errno, caps};
use openpath_sync::Pin;

impl Task {
    /// The namespace it is in.
    #[must_use]
    pub fn namespace(&self) -> Namespace {
        self.core.namespace()
    }

    /// Gives the task a copy of its namespace: other tasks see its later mounts only where mounts
    /// are shared. Root and working directory are the same places in the copy. Linux: unshare(2)
    /// with `CLONE_NEWNS`.
    ///
    /// ```no_run
    /// # use openpath_abi::Errno;
    /// # use openpath_vfs::{MountFlags, SuperBlock, Task};
    /// # use std::sync::Arc;
    /// # fn guest(host: &Task, image: Arc<SuperBlock>) -> Result<(), Errno> {
    /// let guest = host.fork()?;
    /// guest.unshare_mounts()?;
    /// guest.mount(image, b"/mnt", MountFlags::default())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `EPERM` (without `CAP_SYS_ADMIN`); `ENOSPC` (limit of namespaces or mounts); `ENOMEM`.
    #[doc(alias = "CLONE_NEWNS")]
    pub fn unshare_mounts(&self) -> Result<(), Errno> {
        let core = &self.core;
        may_mount(core)?;
        core.heed_pivots();
        core.vfs.sweep_mounts();
        let (id, root, cwd) = {
            let topology = &mut *core.vfs.mounts.topology.lock();
            let (id, copies) = core.vfs.copy_namespace(topology, core.namespace_id())?;
            let copy_of = |path_ids: PathIds| {
                let copied = copies.iter().find(|&&(_, old)| old == path_ids.mount);
                copied.map(|&(mount, _)| pin(core, PathIds { mount, ..path_ids }))
            };
            (id, copy_of(core.root.get()), copy_of(core.cwd.get()))
        };
        // Dropped without use, it ends the copies.
        let namespace = Namespace::hold(&core.vfs, id);
        let (root, cwd) = (root.transpose(), cwd.transpose());
        let (root, cwd) = match (root, cwd) {
            (Ok(root), Ok(cwd)) => (root, cwd),
            (root, cwd) => {
                for pin in [root, cwd].into_iter().flatten().flatten() {
                    core.pins.release(pin);
                }
                return Err(Errno::ENOMEM);
            }
        };
        if let Some(root) = root {
            core.set_root(root);
        }
        if let Some(cwd) = cwd {
            core.set_cwd(cwd);
        }
        core.set_namespace(namespace);
        Ok(())
    }

    /// Enters a namespace: root and working directory become its root. Linux: setns(2).
    ///
    /// # Errors
    /// `EINVAL` (a namespace of another `Vfs`); `EPERM` (without `CAP_SYS_ADMIN` and
    /// `CAP_SYS_CHROOT`); `ENOMEM`.
    #[doc(alias = "setns")]
    pub fn set_namespace(&self, namespace: &Namespace) -> Result<(), Errno> {
        let core = &self.core;
        if !namespace.is_of(&core.vfs) {
            return Err(Errno::EINVAL);
        }
        may_mount(core)?;
        if !core.cred().capable(caps::CAP_SYS_CHROOT) {
            return Err(Errno::EPERM);
        }
        core.heed_pivots();
        let pins = {
            let topology = core.vfs.mounts.topology.lock();
            let root = core.vfs.root_of(&topology, namespace.id());
            let root = root.ok_or(Errno::EINVAL)?;
            (pin(core, root), pin(core, root))
        };
        match pins {
            (Ok(root), Ok(cwd)) => {
                core.set_root(root);
                core.set_cwd(cwd);
                core.set_namespace(namespace.clone());
                Ok(())
            }
            (Ok(pin), Err(errno)) | (Err(errno), Ok(pin)) => {
                core.pins.release(pin);
                Err(errno)
            }
            (Err(errno), Err(_)) => Err(errno),
        }
    }
}

fn pin(core: &Core, path_ids: PathIds) -> Result<Pin, Errno> {
    core.pins
        .pin_now(path_ids.mount, path_ids.dentry)
        .ok_or(Errno::ENOMEM)
}
