// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records, under the topology lock, which mounts and namespaces exist, which mount covers which
//! directory, and which pins, groups and rules each mount has.
//!
//! # Kernel analogue
//! The lists of `struct mount`, `struct mountpoint`, `mnt_namespace::mounts`.
//!
//! # Rules
//! R1. The slots have each mount's place, for walks; the lists of children and covers change in the
//!     same step.
//! R2. A mount is in the namespace that its node names, or in none: being made, or taken out.

use super::group::Groups;
use super::{MountData, Mounts};
use crate::absent::AbsentRules;
use openpath_abi::Errno;
use openpath_sync::Pin;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The state of a mount besides the words that walks read.
pub(crate) struct Node {
    pub(crate) data: Arc<MountData>,
    /// Holds its root.
    pub(crate) root: Pin,
    /// Holds the directory it covers; none for one that is mounted nowhere.
    pub(crate) point: Option<Pin>,
    /// The namespace it is in; 0: none.
    pub(crate) namespace: u64,
    /// What is mounted in it.
    pub(crate) children: BTreeSet<u32>,
    /// The peer group it is in; 0: none.
    pub(crate) group: u32,
    /// The peer group it receives from; 0: none.
    pub(crate) master: u32,
    /// It cannot be bound.
    pub(crate) unbindable: bool,
    /// Rules of absent names, and what holds the directory where they begin.
    pub(crate) rules: Option<(AbsentRules, Pin)>,
}

/// The state of a namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NsNode {
    /// Its lowest mount, which nothing covers from below.
    pub(crate) root: u32,
    /// How many mounts it has.
    pub(crate) mounts: u32,
    /// It belongs to an open file, not to tasks (`is_anon_ns`).
    pub(crate) anonymous: bool,
    /// An anonymous one's: the namespace that its mounts were copied from, whose tasks may copy
    /// them again and mount in them; 0: those of any (`seq_origin`).
    pub(crate) origin: u64,
}

/// The topology. See the module head.
#[derive(Default)]
pub(crate) struct Topology {
    /// Every mount that is not free.
    pub(crate) nodes: HashMap<u32, Node>,
    /// The mounts that cover a directory, in whatever mount it is seen.
    pub(crate) covers: HashMap<u32, BTreeSet<u32>>,
    pub(crate) groups: Groups,
    pub(crate) namespaces: HashMap<u64, NsNode>,
    /// How many of them belong to tasks.
    pub(crate) of_tasks: usize,
    /// Mounts that were taken out of their namespace and were still in use.
    pub(crate) waiting: Vec<u32>,
    /// Mounts made so far.
    pub(crate) made: u64,
    /// Namespaces made so far.
    pub(crate) made_namespaces: u64,
    /// Roots that were exchanged for others; see [`super::pivot`].
    pub(crate) pivots: Vec<super::pivot::Pivot>,
}

impl Topology {
    /// The node of `mount`.
    ///
    /// # Errors
    /// `EINVAL` if it is free.
    pub(crate) fn node(&self, mount: u32) -> Result<&Node, Errno> {
        self.nodes.get(&mount).ok_or(Errno::EINVAL)
    }

    /// The namespace that `mount` is in; 0: none.
    pub(crate) fn namespace_of(&self, mount: u32) -> u64 {
        self.nodes.get(&mount).map_or(0, |n| n.namespace)
    }

    /// The peer group that `mount` is in; 0: none.
    pub(crate) fn group_of(&self, mount: u32) -> u32 {
        self.nodes.get(&mount).map_or(0, |n| n.group)
    }

    /// What is mounted in `mount`.
    pub(crate) fn children(&self, mount: u32) -> &BTreeSet<u32> {
        self.nodes
            .get(&mount)
            .map_or(&self.groups.none, |n| &n.children)
    }

    /// The mounts that cover the directory `point`, in whatever mount it is seen.
    pub(crate) fn covering(&self, point: u32) -> impl Iterator<Item = u32> {
        self.covers.get(&point).into_iter().flatten().copied()
    }

    /// Whether something in `namespace` is mounted on the directory `point`
    /// (`is_local_mountpoint`).
    pub(crate) fn is_mountpoint_in(&self, namespace: u64, point: u32) -> bool {
        let mut covering = self.covering(point);
        covering.any(|m| self.namespace_of(m) == namespace)
    }

    /// Whether `mount` is the lowest of a namespace that belongs to an open file (`anon_ns_root`).
    pub(crate) fn is_anonymous_root(&self, mount: u32) -> bool {
        let namespace = self.namespaces.get(&self.namespace_of(mount));
        namespace.is_some_and(|ns| ns.anonymous && ns.root == mount)
    }

    /// Whether tasks in the namespace `own` may copy the mounts of `namespace` and mount in them.
    /// They may if it is theirs, or belongs to an open file and was copied from theirs or from none
    /// (`may_use_mount`).
    pub(crate) fn may_use(&self, own: u64, namespace: u64) -> bool {
        let anonymous = self.namespaces.get(&namespace).filter(|ns| ns.anonymous);
        namespace == own || anonymous.is_some_and(|ns| ns.origin == 0 || ns.origin == own)
    }

    /// The origin of a copy of `namespace`, see [`NsNode::origin`].
    pub(crate) fn origin_of(&self, namespace: u64) -> u64 {
        let anonymous = self.namespaces.get(&namespace).filter(|ns| ns.anonymous);
        anonymous.map_or(namespace, |ns| ns.origin)
    }

    /// `top` and all that is mounted in it, each before what is mounted in it.
    pub(crate) fn tree(&self, top: u32) -> Vec<u32> {
        let mut tree = Vec::new();
        let mut pending = vec![top];
        while let Some(mount) = pending.pop() {
            tree.push(mount);
            pending.extend(self.children(mount).iter().rev());
        }
        tree
    }

    /// Notes that `mount` covers `point` in `parent`.
    pub(crate) fn enter(&mut self, mount: u32, parent: u32, point: u32, pin: Pin) -> Option<Pin> {
        self.covers.entry(point).or_default().insert(mount);
        if let Some(node) = self.nodes.get_mut(&parent) {
            node.children.insert(mount);
        }
        self.nodes.get_mut(&mount)?.point.replace(pin)
    }

    /// Notes that `mount` does not cover `point` in `parent` any more; whether nothing does.
    pub(crate) fn leave(&mut self, mount: u32, parent: u32, point: u32) -> (bool, Option<Pin>) {
        if let Some(node) = self.nodes.get_mut(&parent) {
            node.children.remove(&mount);
        }
        let last = match self.covers.get_mut(&point) {
            Some(covering) => {
                covering.remove(&mount);
                covering.is_empty()
            }
            None => true,
        };
        if last {
            self.covers.remove(&point);
        }
        let pin = self.nodes.get_mut(&mount).and_then(|n| n.point.take());
        (last, pin)
    }

    /// Puts `mounts` into `namespace`, out of the one they were in; 0: none.
    pub(crate) fn settle(&mut self, mounts: &[u32], namespace: u64) {
        for mount in mounts {
            let Some(node) = self.nodes.get_mut(mount) else {
                continue;
            };
            let old = core::mem::replace(&mut node.namespace, namespace);
            if let Some(ns) = self.namespaces.get_mut(&old) {
                ns.mounts -= 1;
            }
            if let Some(ns) = self.namespaces.get_mut(&namespace) {
                ns.mounts += 1;
            }
        }
    }

    /// A new namespace whose lowest mount will be `root`; its number.
    pub(crate) fn add_namespace(&mut self, root: u32, anonymous: bool, origin: u64) -> u64 {
        self.made_namespaces += 1;
        let id = self.made_namespaces;
        let mounts = 0;
        let node = NsNode {
            root,
            mounts,
            anonymous,
            origin,
        };
        self.namespaces.insert(id, node);
        self.of_tasks += usize::from(!anonymous);
        id
    }

    /// Forgets a namespace.
    pub(crate) fn remove_namespace(&mut self, id: u64) {
        if let Some(gone) = self.namespaces.remove(&id) {
            self.of_tasks -= usize::from(!gone.anonymous);
        }
    }

    /// Whether `ancestor` is `mount` or below it in the stack of mounts (`mount_is_ancestor`).
    pub(crate) fn is_ancestor(&self, mounts: &Mounts, ancestor: u32, mut mount: u32) -> bool {
        while mount != ancestor {
            match mounts.below(mount) {
                Some((parent, _)) => mount = parent,
                None => return false,
            }
        }
        true
    }
}
