// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends notifications to the kernel (`fuse_notify_code`): to drop or expire a name, to invalidate
//! or extend a file, and to give nodes back.
//!
//! # Rules
//! R1. To invalidate a name the kernel takes the lock of its directory, which a caller that waits
//!     for a reply may hold. So names are invalidated by a thread that serves no requests.

use super::Device;
use super::numbers::notice;
use rustix::io::Result;
use std::sync::Arc;

/// The most nodes in one message.
const PRUNE_BATCH: usize = 512;

/// Sends notifications.
pub(crate) struct Notifier(Arc<Device>);

impl Notifier {
    pub(crate) fn new(device: Arc<Device>) -> Self {
        Self(device)
    }

    /// Invalidates the attributes of a node, and its data or listing from `offset` on for `len`
    /// bytes. A length of 0 means to the end, a negative offset attributes alone.
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

    /// Has the kernel look a name up again; until then its dentry stays in use. A kernel before 6.2
    /// drops it.
    ///
    /// # Errors
    /// `ENOENT`: the kernel does not have it.
    pub(crate) fn expire_entry(&self, parent: u64, name: &[u8]) -> Result<()> {
        self.invalidate_entry(parent, name, notice::EXPIRE_ONLY)
    }

    /// Has the kernel drop the dentry of a name, with the mounts on it.
    ///
    /// # Errors
    /// `ENOENT`: the kernel does not have it.
    pub(crate) fn drop_entry(&self, parent: u64, name: &[u8]) -> Result<()> {
        self.invalidate_entry(parent, name, 0)
    }

    fn invalidate_entry(&self, parent: u64, name: &[u8], flags: u32) -> Result<()> {
        let mut message = Vec::with_capacity(17 + name.len());
        message.extend(parent.to_ne_bytes());
        message.extend((name.len() as u32).to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend(name);
        message.push(0);
        self.notify(notice::INVAL_ENTRY, &message)
    }

    /// Stores a byte of a file in the kernel's cache, which makes the file at least as long, also
    /// with the writeback cache.
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

    /// Asks the kernel to give back those nodes that are not in use. Linux 6.18.
    ///
    /// # Errors
    /// `EINVAL`: the kernel does not know this notification.
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
        // Not the number of a request.
        message.extend(0u64.to_ne_bytes());
        message.extend(payload);
        self.0.send(&message)
    }
}
