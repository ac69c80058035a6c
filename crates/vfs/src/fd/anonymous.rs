// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes anonymous files: open files without a path, whose calls are all served by the `FileOps`
//! that the file was made with.
//!
//! # Kernel analogue
//! `anon_inode_getfd`. One inode, on one mount that is attached nowhere, serves them all.

use crate::file::{Filp, NewFileArgs};
use crate::file_ops::{Fd, FileOps};
use crate::inode::{Inode, InodeOps, SetAttr};
use crate::mount::InternalTree;
use crate::task::Core;
use openpath_abi::fcntl::O_CLOEXEC;
use openpath_abi::{Errno, OFlags};
use std::sync::Arc;

const ANONYMOUS: InternalTree = InternalTree {
    kind: "anon_inodefs",
    // ANON_INODE_FS_MAGIC
    magic: 0x0904_1934,
    mode: 0o600,
    nlink: 1,
};

struct NoOps;

impl InodeOps for NoOps {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }

    /// All anonymous files share it, and no caller may change it (`anon_inode_setattr`).
    fn setattr(&self, _: &Inode, _: &SetAttr) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}

impl Core {
    /// A descriptor for a file whose calls are all served by `ops`. `flags` are those of open(2),
    /// access mode and `O_CLOEXEC` among them.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`, `ENOSPC` (no more mounts).
    pub(crate) fn install_anonymous(
        &self,
        ops: Box<dyn FileOps>,
        flags: OFlags,
    ) -> Result<Fd, Errno> {
        let reserved = self.reserve_fd(flags.contains(O_CLOEXEC))?;
        self.check_files_max()?;
        let tree = |now| ANONYMOUS.tree(Box::new(NoOps), now);
        let mount = self.vfs.inner_mount(&self.vfs.anonymous, tree)?;
        let root = self.vfs.mounts.at(mount).root.get();
        let pin = self.pins.pin_now(mount, root).ok_or(Errno::ENOMEM)?;
        let args = NewFileArgs {
            flags,
            created: false,
            shared: self.fds().is_shared(),
        };
        let file = Filp::hold(self, self.make_file(pin, args));
        let store = &self.vfs.dcache.store;
        // A file just made has nothing of its own yet.
        let _none = store.set_file_payload(file.file(), Arc::new(ops));
        reserved.install(file)
    }
}
