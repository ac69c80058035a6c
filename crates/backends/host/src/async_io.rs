// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts reads, writes and syncs of data in the kernel's `io_uring`, by a handle of the host that
//! the inode already has.
//!
//! # Rules
//! R1. Nothing is opened here, because that may wait. Without a handle the ordinary call is made,
//!     which leaves a handle.
//! R2. The kernel's ring holds the handle until the operation is done, whatever the pool of handles
//!     does.

use crate::node::Node;
use crate::pool::{Handle, HandleKind};
use openpath_vfs::{AsyncIo, Inode, IoKind};
use std::sync::Arc;

impl Node {
    /// As `InodeOps::async_io`.
    pub(crate) fn async_io(&self, inode: &Inode, kind: IoKind) -> Option<Box<dyn AsyncIo>> {
        self.check_regular(inode).ok()?;
        let ring = self.tree.kernel_ring.get(self.tree.options.kernel_ring)?;
        ring.reserve(self.io_handle(kind)?)
    }

    /// The handle that is used for this (R1).
    fn io_handle(&self, kind: IoKind) -> Option<Arc<Handle>> {
        match kind {
            IoKind::Read => self.held_handle(HandleKind::Read),
            IoKind::Write => self.held_handle(HandleKind::Write),
            // As `Node::fsync_file`.
            IoKind::Sync => self
                .held_handle(HandleKind::Write)
                .or_else(|| self.held_handle(HandleKind::Read)),
            // A thread makes the calls of other kinds.
            _ => None,
        }
    }
}
