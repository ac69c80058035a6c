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
use openpath_vfs::{Carrier, Inode, Way};
use std::sync::Arc;

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
