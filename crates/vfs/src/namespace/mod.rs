// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements mount namespaces: sets of mounts with a root, each of which lives as long as a task
//! or handle holds it. The submodules make, attach, propagate and detach mounts; `mount` has the
//! mounts themselves.
//!
//! # Kernel analogue
//! `struct mnt_namespace`, `copy_mnt_ns`, `put_mnt_ns`, `mntns_install`.
//!
//! # States
//! Held by tasks and handles -> ended by the last of them: its mounts go, those in use after their
//! last user. The first namespace lives as long as its `Vfs`.
//!
//! The lowest mount of a namespace is an empty directory that no task sees (as the kernel's
//! `rootfs`), so that what is mounted on it, `/`, can be exchanged like any other mount.

mod absent;
mod attach;
mod graft;
mod inner;
mod make;
mod umount;

pub(crate) use graft::GraftSource;
pub(crate) use make::{CopyDepth, CopyPropagation};
pub(crate) use umount::UmountExtent;

use crate::instance::Shared;
use crate::mount::Topology;
use crate::object::mflag;
use crate::path::PathIds;
use crate::superblock::SuperBlock;
use openpath_abi::Errno;
use std::sync::Arc;

/// A set of mounts with a root: the meaning of `/` for its tasks. A handle keeps it.
///
/// Linux: a descriptor of `/proc/PID/ns/mnt`.
#[derive(Clone)]
pub struct Namespace(Arc<NamespaceRef>);

impl core::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Namespace").field(&self.id()).finish()
    }
}

/// The state that all handles of one namespace share.
struct NamespaceRef {
    vfs: Arc<Shared>,
    id: u64,
}

impl Drop for NamespaceRef {
    fn drop(&mut self) {
        if self.id != self.vfs.initial {
            self.vfs.end_namespace(self.id);
        }
    }
}

impl Namespace {
    pub(crate) fn hold(vfs: &Arc<Shared>, id: u64) -> Self {
        let vfs = Arc::clone(vfs);
        Self(Arc::new(NamespaceRef { vfs, id }))
    }

    /// A number that no other namespace of the `Vfs` has.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Whether it is one of `vfs`.
    pub(crate) fn is_of(&self, vfs: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.0.vfs, vfs)
    }
}

impl Shared {
    /// The first namespace, with `root` mounted at `/`: its number.
    ///
    /// # Errors
    /// As [`Shared::new_mount`].
    pub(crate) fn first_namespace(
        &self,
        lowest: &Arc<SuperBlock>,
        root: &Arc<SuperBlock>,
    ) -> Result<u64, Errno> {
        let topology = &mut *self.mounts.topology.lock();
        let bottom = self.new_mount(topology, lowest, None, mflag::REL_ATIME)?;
        let id = topology.add_namespace(bottom, false, 0);
        let top = self.new_mount(topology, root, None, mflag::REL_ATIME)?;
        let at = PathIds {
            mount: bottom,
            dentry: self.mounts.at(bottom).root.get(),
        };
        self.attach(topology, top, at)?;
        topology.settle(&[bottom, top], id);
        Ok(id)
    }

    /// A namespace with copies of all mounts of `old`: its number, and the copies with their
    /// originals. Held: the topology lock.
    ///
    /// # Errors
    /// `ENOSPC` (limit of namespaces or mounts), `ENOMEM`; nothing is left behind.
    pub(crate) fn copy_namespace(
        &self,
        topology: &mut Topology,
        old: u64,
    ) -> Result<(u64, Vec<(u32, u32)>), Errno> {
        if topology.of_tasks >= self.config.limits.namespaces_max as usize {
            return Err(Errno::ENOSPC);
        }
        let bottom = topology.namespaces.get(&old).ok_or(Errno::EINVAL)?.root;
        let from = PathIds {
            mount: bottom,
            dentry: self.mounts.at(bottom).root.get(),
        };
        let copies = self.copy_tree(topology, from, CopyPropagation::Peer, CopyDepth::All)?;
        let id = self.found(topology, &copies, None);
        Ok((id, copies))
    }

    /// A namespace of mounts that were made for it, the first the lowest; its number. An anonymous
    /// one comes with its origin. Held: the topology lock.
    pub(crate) fn found(
        &self,
        topology: &mut Topology,
        made: &[(u32, u32)],
        anonymous: Option<u64>,
    ) -> u64 {
        let bottom = made.first().map_or(0, |&(new, _)| new);
        let id = topology.add_namespace(bottom, anonymous.is_some(), anonymous.unwrap_or(0));
        let mounts: Vec<u32> = made.iter().map(|&(new, _)| new).collect();
        topology.settle(&mounts, id);
        id
    }

    /// The root of a namespace: that of the topmost mount on its lowest one. Held: the topology
    /// lock.
    pub(crate) fn root_of(&self, topology: &Topology, namespace: u64) -> Option<PathIds> {
        let bottom = topology.namespaces.get(&namespace)?.root;
        Some(self.topmost(topology, bottom))
    }

    /// Takes all mounts out of a namespace that has no holders any more.
    fn end_namespace(&self, id: u64) {
        let topology = &mut *self.mounts.topology.lock();
        if let Some(ns) = topology.namespaces.get(&id).copied() {
            self.umount_tree(topology, ns.root, UmountExtent::Here);
            topology.remove_namespace(id);
        }
    }

    /// Takes apart a tree of mounts that belonged to an open file, unless it was mounted somewhere
    /// (`dissolve_on_fput`).
    pub(crate) fn dissolve(&self, top: u32, namespace: u64) {
        let topology = &mut *self.mounts.topology.lock();
        let ours = topology.namespaces.get(&namespace);
        if ours.is_some_and(|ns| ns.root == top) {
            self.umount_tree(topology, top, UmountExtent::Together);
            topology.remove_namespace(namespace);
        }
    }
}
