// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data that the host's kernel moves in its own ring, by a handle that is held anyway.
//!
//! # Rules
//! R1. Nothing is opened here, since that may wait: without a handle the call is made, which leaves
//!     one.
//! R2. The handle is held by the kernel's ring until the operation is done, whatever the pool of
//!     handles does.

use crate::node::Node;
use crate::pool::{Handle, Use};
use openpath_sync::WriteOnce;
use openpath_uring::KernelRing;
use openpath_vfs::{Carrier, Inode, Way};
use std::sync::Arc;

/// A tree's ring of the kernel, made when it is first asked for; none if the kernel gives none.
#[derive(Default)]
pub(crate) struct Lazy(WriteOnce<Option<KernelRing>>);

impl Lazy {
    /// The ring; `places` are those it is made with.
    fn get(&self, places: u32) -> Option<&KernelRing> {
        if places == 0 {
            return None;
        }
        let made = match self.0.get() {
            Some(made) => made,
            None => self.0.set(KernelRing::new(places, "openpath-uring").ok()),
        };
        made.as_ref()
    }
}

impl Node {
    /// As `InodeOps::carrier`.
    pub(crate) fn carrier(&self, inode: &Inode, way: Way) -> Option<Box<dyn Carrier>> {
        self.must_be_file(inode).ok()?;
        let ring = self.tree.kernel_ring.get(self.tree.options.kernel_ring)?;
        ring.carrier(self.carrying(way)?)
    }

    /// The handle that is used for this (R1).
    fn carrying(&self, way: Way) -> Option<Arc<Handle>> {
        match way {
            Way::Read => self.held(Use::Read),
            Way::Write => self.held(Use::Write),
            // As `Node::bring_to_disk`.
            Way::Sync => self.held(Use::Write).or_else(|| self.held(Use::Read)),
        }
    }
}
