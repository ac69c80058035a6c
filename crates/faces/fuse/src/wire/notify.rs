// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel is told without asking (`fuse_notify_code`).
//!
//! # Rules
//! R1. The kernel takes the lock of a directory to forget a name in it, which whoever waits for an
//!     answer of ours may hold: names are told by a thread that answers nobody.

use super::Device;
use super::numbers::notice;
use rustix::io::Result;
use std::sync::Arc;

/// How many nodes a message names at most.
const PRUNE_BATCH: usize = 512;

/// What tells it.
pub(crate) struct Notifier(Arc<Device>);

impl Notifier {
    pub(crate) fn new(device: Arc<Device>) -> Self {
        Self(device)
    }

    /// Attributes of a node are asked for again, and its data or listing from `offset` on, for
    /// `len` bytes; 0: to the end; an offset below 0: attributes alone.
    ///
    /// # Errors
    /// `ENOENT`: the kernel does not have it.
    pub(crate) fn invalidate_inode(&self, node: u64, offset: i64, len: i64) -> Result<()> {
        let mut message = Vec::with_capacity(40);
        message.extend(node.to_ne_bytes());
        message.extend(offset.to_ne_bytes());
        message.extend(len.to_ne_bytes());
        self.notify(notice::INVAL_INODE, &message)
    }

    /// A name is asked for again; what it means stays in use meanwhile. A kernel before 6.2 throws
    /// it away.
    ///
    /// # Errors
    /// `ENOENT`: the kernel does not have it.
    pub(crate) fn expire_entry(&self, parent: u64, name: &[u8]) -> Result<()> {
        let mut message = Vec::with_capacity(17 + name.len());
        message.extend(parent.to_ne_bytes());
        message.extend((name.len() as u32).to_ne_bytes());
        message.extend(notice::EXPIRE_ONLY.to_ne_bytes());
        message.extend(name);
        message.push(0);
        self.notify(notice::INVAL_ENTRY, &message)
    }

    /// A byte of a file, which is at least as long then: what the kernel believes also of a file
    /// that it writes back itself.
    ///
    /// # Errors
    /// `ENOENT`: the kernel does not have it.
    pub(crate) fn store(&self, node: u64, offset: u64, byte: u8) -> Result<()> {
        let mut message = Vec::with_capacity(25);
        message.extend(node.to_ne_bytes());
        message.extend(offset.to_ne_bytes());
        message.extend(1u32.to_ne_bytes());
        message.extend(0u32.to_ne_bytes());
        message.push(byte);
        self.notify(notice::STORE, &message)
    }

    /// Nodes are to be given back, if nobody uses them. Linux 6.18.
    ///
    /// # Errors
    /// `EINVAL`: the kernel does not know how.
    pub(crate) fn prune(&self, nodes: &[u64]) -> Result<()> {
        for batch in nodes.chunks(PRUNE_BATCH) {
            let mut message = Vec::with_capacity(16 + 8 * batch.len());
            message.extend((batch.len() as u64).to_ne_bytes());
            message.extend(0u64.to_ne_bytes());
            for node in batch {
                message.extend(node.to_ne_bytes());
            }
            self.notify(notice::PRUNE, &message)?;
        }
        Ok(())
    }

    fn notify(&self, code: u32, payload: &[u8]) -> Result<()> {
        let len = super::reply::SIZE + payload.len();
        let mut message = Vec::with_capacity(len);
        message.extend((len as u32).to_ne_bytes());
        message.extend(code.to_ne_bytes());
        // No request's number.
        message.extend(0u64.to_ne_bytes());
        message.extend(payload);
        self.0.send(&message)
    }
}
