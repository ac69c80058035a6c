// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a backend without complete directories: a directory of numbered files that is asked
//! for each name.

use std::any::Any;
use std::sync::Arc;

use openpath_abi::{Errno, StatFs, Timespec, mode};
use openpath_vfs::{
    Attr, Inode, InodeOps, LookupResult, SuperBlock, SuperBlockOps, SuperBlockOptions, WaitMode,
};

/// How many files there are.
pub(super) const FILES: usize = 1000;

struct Numbers(Vec<Arc<Inode>>);

impl InodeOps for Numbers {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn lookup(
        &self,
        _dir: &Inode,
        name: &[u8],
        _wait_mode: WaitMode,
    ) -> Result<LookupResult, Errno> {
        let text = std::str::from_utf8(name).unwrap_or_default();
        let file = text.parse::<usize>().ok().and_then(|n| self.0.get(n));
        Ok(file.map_or(LookupResult::Absent, |file| {
            LookupResult::Inode(Arc::clone(file))
        }))
    }
}

struct File;

impl InodeOps for File {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct Tree;

impl SuperBlockOps for Tree {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs::default())
    }
}

fn inode(number: usize, kind: u32, ops: Box<dyn InodeOps>) -> Arc<Inode> {
    let attr = Attr {
        mode: kind | 0o755,
        nlink: 1,
        ..Attr::default()
    };
    Inode::new(number as u64, 0, attr, Timespec::default(), ops)
}

/// Makes the tree: files `0` to `999` in its root.
pub(super) fn tree() -> Arc<SuperBlock> {
    let file = |n: usize| inode(n + 2, mode::S_IFREG, Box::new(File));
    let files = (0..FILES).map(file).collect();
    let root = inode(1, mode::S_IFDIR, Box::new(Numbers(files)));
    SuperBlock::new(root, Box::new(Tree), SuperBlockOptions::default())
}
