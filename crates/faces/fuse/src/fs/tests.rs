// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a file is created, or that the first error is returned, although the descriptor that
//! the server opened for itself fails to close.

use super::FuseFs;
use crate::nodes::ROOT;
use crate::options::Options;
use crate::worker::ActingAs;
use openpath_abi::fcntl::O_RDWR;
use openpath_abi::{Errno, OFlags, StatFs, Timespec, mode};
use openpath_vfs::{
    Attr, Cred, FileOps, Inode, InodeOps, LookupResult, NewInode, SuperBlock, SuperBlockOps,
    SuperBlockOptions, Vfs, WaitMode, flag,
};
use std::any::Any;
use std::sync::Arc;

/// A directory in which files are made, or a file whose openings fail to close.
struct Node;

struct Opening;

impl FileOps for Opening {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn flush(&self) -> Result<(), Errno> {
        Err(Errno::ENOSPC)
    }
}

impl InodeOps for Node {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn lookup(&self, _: &Inode, _: &[u8], _: WaitMode) -> Result<LookupResult, Errno> {
        Ok(LookupResult::Absent)
    }
    fn create(&self, _: &Inode, _: &[u8], new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        Ok(inode(2, new.mode))
    }
    fn open(&self, _: &Inode, _: OFlags, _: WaitMode) -> Result<Option<Box<dyn FileOps>>, Errno> {
        Ok(Some(Box::new(Opening)))
    }
}

struct Tree;

impl SuperBlockOps for Tree {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs::default())
    }
}

fn inode(ino: u64, mode: u32) -> Arc<Inode> {
    let attr = Attr {
        mode,
        nlink: 1,
        ..Attr::default()
    };
    let inode = Inode::new(ino, 0, attr, Timespec::default(), Box::new(Node));
    inode.set_flags(flag::OPEN_HOOK);
    inode
}

/// Creates a file in a mount of so many nodes at most; the number of nodes then.
fn create(nodes_max: usize) -> (Result<u64, Errno>, usize) {
    let root = inode(1, mode::S_IFDIR | 0o755);
    let sb = SuperBlock::new(root, Box::new(Tree), SuperBlockOptions::default());
    let vfs = Vfs::builder().build(sb).expect("a Vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    let options = Options::default().nodes_max(nodes_max);
    let (fs, mut workers) = FuseFs::new(&task, &options).expect("a mount");
    let actor = ActingAs::Owner(0, 0);
    let made = fs.create(&mut workers[0], actor, (ROOT, b"f"), 0o600, O_RDWR);
    (made.map(|(entry, _)| entry.number), fs.nodes.len())
}

#[test]
fn file_is_created_though_the_descriptor_of_the_server_fails_to_close() {
    assert_eq!(create(10), (Ok(2), 2));
}

#[test]
fn failed_close_does_not_hide_why_a_file_has_no_node() {
    assert_eq!(create(1), (Err(Errno::ENFILE), 1));
}
