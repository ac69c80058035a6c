// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives each result of a lookup through the layers its inode: the known one, or a new one, so that
//! each file has one inode.

use crate::fs::Fs;
use crate::merged_lookup::MergedLookup;
use crate::node::Node;
use openpath_abi::Errno;
use openpath_vfs::Inode;
use std::sync::{Arc, Weak};

impl Fs {
    /// The inode for a lookup result: the known one, or a new one.
    ///
    /// # Errors
    /// `EIO`: nothing was found.
    pub(crate) fn adopt(self: &Arc<Self>, result: MergedLookup) -> Result<Arc<Inode>, Errno> {
        let key = result.key().ok_or(Errno::EIO)?;
        let known = self.table.lock().inodes.get(&key).and_then(Weak::upgrade);
        if let Some(inode) = &known
            && Node::of(inode).is_some_and(|node| node.matches(&result))
        {
            return Ok(Arc::clone(inode));
        }
        let inode = Node::make_inode(self, result)?;
        let Some(node) = Node::of(&inode) else {
            return Err(Errno::EIO);
        };
        // Two threads may make it at once: the first one entered wins.
        let mut table = self.table.lock();
        let other = table.inodes.get(&key).and_then(Weak::upgrade);
        if let Some(other) = other
            && !known
                .as_ref()
                .is_some_and(|known| Arc::ptr_eq(known, &other))
        {
            drop(table);
            return Ok(other);
        }
        table.inodes.insert(key, Arc::downgrade(&inode));
        for key in node.further_keys() {
            table.inodes.insert(key, Arc::downgrade(&inode));
        }
        drop(table);
        Ok(inode)
    }
}
