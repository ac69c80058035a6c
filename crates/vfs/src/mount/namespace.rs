// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which mounts exist and what each holds on to; the namespace they belong to.

use super::Anchors;
use std::collections::HashMap;

/// A set of mounts with a root: what `/` means to tasks in it.
#[derive(Debug)]
pub struct MountNamespace {
    pub(crate) id: u64,
    pub(crate) root: u32,
}

impl MountNamespace {
    /// A number that no other namespace of the `Vfs` has.
    pub fn id(&self) -> u64 {
        self.id
    }
}

/// The books of the mount table, under the topology lock.
#[derive(Default)]
pub(crate) struct Topology {
    /// Every mount that is not free, with its anchors.
    pub(crate) anchors: HashMap<u32, Anchors>,
    /// Attached mounts by the mount they are mounted in.
    pub(crate) children: HashMap<u32, Vec<u32>>,
    /// How many mounts cover a directory, in whatever mount.
    pub(crate) covered: HashMap<u32, u32>,
    /// Detached mounts that were still pinned.
    pub(crate) detached: Vec<u32>,
    /// Mounts made so far.
    pub(crate) made: u64,
}

impl Topology {
    /// Notes that one more mount covers `point`.
    pub(crate) fn cover(&mut self, point: u32) {
        *self.covered.entry(point).or_default() += 1;
    }

    /// Notes that one mount less covers `point`; whether it was the last.
    pub(crate) fn uncover(&mut self, point: u32) -> bool {
        match self.covered.get_mut(&point) {
            Some(n) if *n > 1 => {
                *n -= 1;
                false
            }
            _ => {
                self.covered.remove(&point);
                true
            }
        }
    }

    /// Whether anything is mounted in `mount`.
    pub(crate) fn has_children(&self, mount: u32) -> bool {
        self.children.get(&mount).is_some_and(|c| !c.is_empty())
    }
}
