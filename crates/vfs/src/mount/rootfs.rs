// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the tree at the bottom of a namespace: one directory that is always empty (`rootfs`).

use super::inner::InternalTree;
use crate::inode::{Inode, InodeOps, ListedEntry, LookupResult, WaitMode};
use crate::superblock::SuperBlock;
use openpath_abi::{Errno, Timespec, mode};
use std::sync::Arc;

const ROOTFS: InternalTree = InternalTree {
    kind: "rootfs",
    // RAMFS_MAGIC
    magic: 0x8584_58f6,
    mode: mode::S_IFDIR | 0o755,
    nlink: 2,
};

struct Empty;

impl InodeOps for Empty {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }

    fn lookup(&self, _: &Inode, _: &[u8], _: WaitMode) -> Result<LookupResult, Errno> {
        Ok(LookupResult::Absent)
    }

    fn readdir(
        &self,
        _: &Inode,
        _: i64,
        _: &mut dyn FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        Ok(())
    }
}

/// A new one.
pub(crate) fn rootfs(now: Timespec) -> Arc<SuperBlock> {
    ROOTFS.tree(Box::new(Empty), now)
}
