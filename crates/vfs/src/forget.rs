// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the calls by which a backend invalidates names and attributes when its tree changed
//! without the core: methods of [`SuperBlock`].
//!
//! # Kernel analogue
//! `d_invalidate`, `fuse_reverse_inval_entry`, `fuse_reverse_inval_inode`.
//!
//! # Rules
//! R1. Any thread may call them, holding no lock of the core's and none that a backend method
//!     takes. They wait for no call under way, and call no backend.
//! R2. An answer from before the call is not used after it returned; a lookup under way meanwhile
//!     enters a marked entry. See `dcache::forget`.
//! R3. Open files, working directories and mounts keep their places. If a name turns out to have
//!     another meaning, the mounts on it, or below, go.
//! R4. The call keeps the `Vfs` while it runs. If that was dropped meanwhile it ends here, and
//!     perhaps the superblock with it. So a backend that waits at its end for its own threads must
//!     not wait for the calling one.

use crate::inode::Inode;
use crate::instance::Shared;
use crate::superblock::SuperBlock;
use std::any::Any;
use std::sync::Arc;

impl SuperBlock {
    /// Runs `forget` with the `Vfs` of the tree, and the tree's number there.
    fn with_vfs(&self, forget: impl FnOnce(&Shared, u32)) {
        let binding = self.binding.lock().clone();
        if let Some(binding) = binding
            && let Some(owner) = binding.owner.upgrade()
            && let Some(vfs) = (&*owner as &dyn Any).downcast_ref()
        {
            forget(vfs, binding.number);
        }
    }

    /// The meaning of `name` in `dir` may have changed, or whether it exists: it is looked up at
    /// its next use. Linux: `fuse_reverse_inval_entry`.
    pub fn forget_name(&self, dir: &Arc<Inode>, name: &[u8]) {
        self.with_vfs(|vfs, number| {
            vfs.dcache.count_forgotten(number);
            for entry in dir.entries() {
                vfs.dcache.forget_one(entry, name);
            }
        });
        self.tell_listeners(|listener| listener.name(dir, name));
    }

    /// As [`SuperBlock::forget_name`], for every name of `dir`.
    pub fn forget_names_of(&self, dir: &Arc<Inode>) {
        self.with_vfs(|vfs, number| {
            vfs.dcache.count_forgotten(number);
            for entry in dir.entries() {
                vfs.dcache.forget_children_of(entry);
            }
        });
        self.tell_listeners(|listener| listener.names_of(dir));
    }

    /// As [`SuperBlock::forget_name`], for every name of the tree. It takes a look at every cached
    /// name of the `Vfs`.
    pub fn forget_all(&self) {
        self.with_vfs(|vfs, number| {
            vfs.dcache.count_forgotten(number);
            vfs.dcache.forget_all(number);
        });
        self.tell_listeners(|listener| listener.all());
    }

    /// Mode or owner of `inode` changed, and [`Inode::update`] has them already: walks through it
    /// check the search permission again. For other files than directories there is
    /// [`SuperBlock::forget_attributes`].
    pub fn forget_permission(&self, inode: &Arc<Inode>) {
        self.with_vfs(|vfs, _| {
            for entry in inode.entries() {
                let _changed = vfs.dcache.begin_dir_change(entry);
                vfs.dcache.note_search(entry, inode);
            }
        });
        self.forget_attributes(inode);
    }

    /// Other attributes of `inode`, which [`Inode::update`] has already, or its data changed. Only
    /// listeners above the tree ([`crate::InvalidationListener`]) need this; the core does not.
    pub fn forget_attributes(&self, inode: &Arc<Inode>) {
        self.tell_listeners(|listener| listener.attributes(inode));
    }
}
