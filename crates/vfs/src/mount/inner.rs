// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trees of one inode that the core has for itself: the bottom of a namespace, and what holds files
//! that no path leads to.
//!
//! # Kernel analogue
//! `init_pseudo`, `kern_mount`.

use super::mflag;
use crate::inode::{Attr, Inode, InodeOps};
use crate::instance::Shared;
use crate::superblock::{SuperBlock, SuperBlockOps, SuperBlockOptions};
use openpath_abi::{Errno, StatFs, Timespec};
use openpath_sync::WriteOnce;
use std::sync::Arc;

/// Number of the inode, as good as any other.
const INO: u64 = 1;

/// What the tree is and has.
pub(crate) struct Inner {
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
struct Magic(i64);

impl SuperBlockOps for Magic {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs {
            kind: self.0,
            bsize: 4096,
            namelen: 255,
            ..StatFs::default()
        })
    }
}

impl Inner {
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
        SuperBlock::new(root, Box::new(Magic(self.magic)), options)
    }
}

impl Shared {
    /// The mount at `place`, which is nowhere attached; made the first time, of `tree`.
    ///
    /// # Errors
    /// `ENOSPC` (no more mounts), `ENOMEM`.
    pub(crate) fn inner_mount(
        &self,
        place: &WriteOnce<u32>,
        tree: impl FnOnce(Timespec) -> Arc<SuperBlock>,
    ) -> Result<u32, Errno> {
        if let Some(&mount) = place.get() {
            return Ok(mount);
        }
        let mut topology = self.mounts.topology.lock();
        if let Some(&mount) = place.get() {
            return Ok(mount);
        }
        let sb = tree(self.clock.now());
        let mount = self.new_mount(&mut topology, &sb, None, mflag::REL_ATIME)?;
        Ok(*place.set(mount))
    }
}
