// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a tree in memory ([`MemFs`]), and implements the calls on the whole tree: statfs(2) and
//! trimming.

use crate::make::{Naming, make_inode};
use crate::options::MemOptions;
use crate::page_map::PAGE;
use crate::space::Space;
use openpath_abi::{Errno, StatFs, mode};
use openpath_vfs::{Clock, NewInode, SuperBlock, SuperBlockOps, SuperBlockOptions, SystemClock};
use std::sync::Arc;

/// The type that statfs(2) reports for a tmpfs.
const TMPFS_MAGIC: i64 = 0x0102_1994;
/// The longest name.
const NAME_MAX: usize = openpath_abi::limits::NAME_MAX;

/// The file system type.
#[derive(Clone, Copy, Debug)]
pub struct MemFs;

impl MemFs {
    /// A new tree with an empty root directory.
    ///
    /// Linux: mount(2) of a tmpfs.
    #[must_use]
    #[expect(
        clippy::new_ret_no_self,
        reason = "what is made is a tree, as the core knows it"
    )]
    pub fn new(options: MemOptions) -> Arc<SuperBlock> {
        let space = Space::new(&options);
        let root = NewInode {
            mode: mode::S_IFDIR | mode::permissions(options.mode),
            uid: options.uid,
            gid: options.gid,
            rdev: 0,
            body: &[],
            now: options.now.unwrap_or_else(|| SystemClock.now()),
            tenant: None,
            acls: None,
        };
        // The first inode of a tree finds room: a limit is 0 (none) or at least one inode.
        let root = match make_inode(&space, &root, Naming::Named) {
            Ok(root) => root,
            Err(errno) => unreachable!("an empty tree has no room for its root: {errno}"),
        };
        let core = SuperBlockOptions::default()
            .kind("tmpfs")
            .name_max(NAME_MAX)
            .read_only(options.read_only)
            .acls(true);
        SuperBlock::new(root, Box::new(TreeOps { space }), core)
    }
}

/// The operations of the whole tree.
struct TreeOps {
    space: Arc<Space>,
}

impl SuperBlockOps for TreeOps {
    fn statfs(&self) -> Result<StatFs, Errno> {
        let (blocks, bfree) = self.space.blocks();
        let (files, ffree) = self.space.inodes();
        Ok(StatFs {
            kind: TMPFS_MAGIC,
            bsize: PAGE as i64,
            blocks,
            bfree,
            bavail: bfree,
            files,
            ffree,
            namelen: NAME_MAX as i64,
            frsize: PAGE as i64,
            ..StatFs::default()
        })
    }

    fn trim(&self) {
        self.space.release_cached_pages();
    }
}
