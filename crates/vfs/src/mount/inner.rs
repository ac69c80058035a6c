// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes internal trees of one inode: the bottom of a namespace, and the trees of anonymous files
//! and of pipes without a name.
//!
//! # Kernel analogue
//! `init_pseudo`, `kern_mount`.

use crate::inode::{Attr, Inode, InodeOps};
use crate::superblock::{SuperBlock, SuperBlockOps, SuperBlockOptions};
use openpath_abi::{Errno, StatFs, Timespec};
use std::sync::Arc;

/// Number of the inode, an arbitrary one.
const INO: u64 = 1;

/// The properties of the tree.
pub(crate) struct InternalTree {
    /// Name of the file system type.
    pub(crate) kind: &'static str,
    /// What statfs(2) calls it.
    pub(crate) magic: i64,
    /// Type and permission bits of its inode.
    pub(crate) mode: u32,
    /// Number of names of its inode.
    pub(crate) nlink: u32,
}

/// The tree's own part: what statfs(2) calls it.
struct InternalOps(i64);

impl SuperBlockOps for InternalOps {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs {
            kind: self.0,
            bsize: 4096,
            namelen: 255,
            ..StatFs::default()
        })
    }
}

impl InternalTree {
    /// A new one, made now, whose inode is served by `ops`.
    pub(crate) fn tree(&self, ops: Box<dyn InodeOps>, now: Timespec) -> Arc<SuperBlock> {
        let attr = Attr {
            mode: self.mode,
            nlink: self.nlink,
            atime: now,
            mtime: now,
            ctime: now,
            ..Attr::default()
        };
        let root = Inode::new(INO, 0, attr, now, ops);
        let options = SuperBlockOptions {
            kind: self.kind,
            ..SuperBlockOptions::default()
        };
        SuperBlock::new(root, Box::new(InternalOps(self.magic)), options)
    }
}
