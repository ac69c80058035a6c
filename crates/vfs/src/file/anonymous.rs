// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that no path leads to: what they do is all their own.
//!
//! # Kernel analogue
//! `anon_inode_getfd`: one inode of one mount that is nowhere attached serves them all.

use super::{Fd, FileOps, Filp, Making};
use crate::inode::{Attr, Inode, InodeOps, SetAttr};
use crate::instance::Shared;
use crate::mount::mflag;
use crate::superblock::{SuperBlock, SuperBlockOps, SuperBlockOptions};
use crate::task::Core;
use openpath_abi::fcntl::O_CLOEXEC;
use openpath_abi::{Errno, StatFs};
use std::sync::Arc;

/// Number of the inode, as good as any other.
const INO: u64 = 1;
/// What statfs(2) calls the tree (`ANON_INODE_FS_MAGIC`).
const MAGIC: i64 = 0x0904_1934;

struct Nowhere;

impl InodeOps for Nowhere {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }

    /// It is everybody's, and nobody may change it (`anon_inode_setattr`).
    fn setattr(&self, _: &Inode, _: &SetAttr) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}

impl SuperBlockOps for Nowhere {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs {
            kind: MAGIC,
            bsize: 4096,
            namelen: 255,
            ..StatFs::default()
        })
    }
}

impl Shared {
    /// The mount of anonymous files.
    ///
    /// # Errors
    /// `ENOSPC` (no more mounts), `ENOMEM`.
    fn anonymous_mount(&self) -> Result<u32, Errno> {
        if let Some(&mount) = self.anonymous.get() {
            return Ok(mount);
        }
        let mut topology = self.mounts.topology.lock();
        if let Some(&mount) = self.anonymous.get() {
            return Ok(mount);
        }
        let now = self.clock.now();
        let attr = Attr {
            mode: 0o600,
            nlink: 1,
            atime: now,
            mtime: now,
            ctime: now,
            ..Attr::default()
        };
        let inode = Inode::new(INO, 0, attr, now, Box::new(Nowhere));
        let options = SuperBlockOptions {
            kind: "anon_inodefs",
            ..SuperBlockOptions::default()
        };
        let sb = SuperBlock::new(inode, Box::new(Nowhere), options);
        let mount = self.new_mount(&mut topology, &sb, None, mflag::REL_ATIME)?;
        Ok(*self.anonymous.set(mount))
    }
}

impl Core {
    /// A descriptor for a file whose calls are all `ops`'. `flags` are those of open(2), access
    /// mode and `O_CLOEXEC` among them.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`, `ENOSPC` (no more mounts).
    pub(crate) fn install_anonymous(&self, ops: Box<dyn FileOps>, flags: u32) -> Result<Fd, Errno> {
        let reserved = self.reserve_fd(flags & O_CLOEXEC != 0)?;
        self.check_files_max()?;
        let mount = self.vfs.anonymous_mount()?;
        let root = self.vfs.mounts.at(mount).root.get();
        let pin = self.pins.pin_now(mount, root).ok_or(Errno::ENOMEM)?;
        let making = Making {
            flags,
            created: false,
            shared: self.fds().is_shared(),
        };
        let file = Filp::hold(self, self.make_file(pin, making));
        let store = &self.vfs.dcache.store;
        // A file just made has nothing of its own yet.
        let _none = store.set_file_payload(file.file(), Arc::new(ops));
        reserved.install(file)
    }
}
