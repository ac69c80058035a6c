// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tree at the bottom of a namespace: one directory that is always empty (`rootfs`).

use crate::inode::{Attr, Found, Inode, InodeOps, Listed, Patience};
use crate::superblock::{SuperBlock, SuperBlockOps, SuperBlockOptions};
use openpath_abi::{Errno, StatFs, Timespec, mode};
use std::sync::Arc;

/// What statfs(2) calls the tree (`RAMFS_MAGIC`).
const MAGIC: i64 = 0x8584_58f6;
/// Number of the directory.
const INO: u64 = 1;

struct Empty;

impl InodeOps for Empty {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }

    fn lookup(&self, _: &Inode, _: &[u8], _: Patience) -> Result<Found, Errno> {
        Ok(Found::Absent)
    }

    fn readdir(
        &self,
        _: &Inode,
        _: i64,
        _: &mut dyn FnMut(Listed<'_>) -> bool,
    ) -> Result<(), Errno> {
        Ok(())
    }
}

impl SuperBlockOps for Empty {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs {
            kind: MAGIC,
            bsize: 4096,
            namelen: 255,
            ..StatFs::default()
        })
    }
}

/// A new one.
pub(crate) fn rootfs(now: Timespec) -> Arc<SuperBlock> {
    let attr = Attr {
        mode: mode::S_IFDIR | 0o755,
        nlink: 2,
        atime: now,
        mtime: now,
        ctime: now,
        ..Attr::default()
    };
    let root = Inode::new(INO, 0, attr, now, Box::new(Empty));
    let options = SuperBlockOptions {
        kind: "rootfs",
        ..SuperBlockOptions::default()
    };
    SuperBlock::new(root, Box::new(Empty), options)
}
