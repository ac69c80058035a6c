// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a backend tells the core when its tree changed without it: methods of [`SuperBlock`].
//!
//! # Kernel analogue
//! `d_invalidate`, `fuse_reverse_inval_entry`, `fuse_reverse_inval_inode`.
//!
//! # Rules
//! R1. Any thread may call them, holding no lock of the core's and none that a backend method
//!     takes. They wait for no call that is going on, and call no backend.
//! R2. What was looked up before the call began is not believed after it returned; a lookup that is
//!     going on meanwhile enters what is asked for again. See `dcache::forget`.
//! R3. Open files, working directories and what is mounted stay with what they are at. If a name
//!     turns out to mean something else, what is mounted on it, or below, goes.
//! R4. The call holds the `Vfs` while it runs. If that was dropped meanwhile it ends here, and the
//!     superblock maybe with it: a backend whose end waits for its own threads must not have one of
//!     them wait for itself.

use crate::inode::Inode;
use crate::instance::Shared;
use crate::superblock::SuperBlock;
use std::any::Any;
use std::sync::Arc;

impl SuperBlock {
    /// Runs `forget` with the `Vfs` that uses the tree, and the tree's number there.
    fn at_home(&self, forget: impl FnOnce(&Shared, u32)) {
        let seat = self.seat.lock().clone();
        if let Some(seat) = seat
            && let Some(home) = seat.home.upgrade()
            && let Some(vfs) = (&*home as &dyn Any).downcast_ref()
        {
            forget(vfs, seat.number);
        }
    }

    /// What `name` in `dir` means may have changed, or whether it exists: it is looked up at its
    /// next use. Linux: `fuse_reverse_inval_entry`.
    pub fn forget_name(&self, dir: &Arc<Inode>, name: &[u8]) {
        self.at_home(|vfs, number| {
            vfs.dcache.count_forgotten(number);
            for entry in dir.entries() {
                vfs.dcache.forget_one(entry, name);
            }
        });
        self.tell_above(|above| above.name(dir, name));
    }

    /// As [`SuperBlock::forget_name`], for every name of `dir`.
    pub fn forget_names_of(&self, dir: &Arc<Inode>) {
        self.at_home(|vfs, number| {
            vfs.dcache.count_forgotten(number);
            for entry in dir.entries() {
                vfs.dcache.forget_kids_of(entry);
            }
        });
        self.tell_above(|above| above.names_of(dir));
    }

    /// As [`SuperBlock::forget_name`], for every name of the tree. It takes a look at every cached
    /// name of the `Vfs`.
    pub fn forget_all(&self) {
        self.at_home(|vfs, number| {
            vfs.dcache.count_forgotten(number);
            vfs.dcache.forget_all(number);
        });
        self.tell_above(|above| above.all());
    }

    /// Mode or owner of `inode` changed, which [`Inode::update`] was told already: walks through it
    /// ask again who may search it. For what is no directory there is
    /// [`SuperBlock::forget_attributes`].
    pub fn forget_permission(&self, inode: &Arc<Inode>) {
        self.at_home(|vfs, _| {
            for entry in inode.entries() {
                let _changed = vfs.dcache.begin_dir_change(entry);
                vfs.dcache.note_search(entry, inode);
            }
        });
        self.forget_attributes(inode);
    }

    /// Other attributes of `inode` changed, which [`Inode::update`] was told already, or its data:
    /// a word for who is above ([`crate::InvalidationListener`]), for the core needs none.
    pub fn forget_attributes(&self, inode: &Arc<Inode>) {
        self.tell_above(|above| above.attributes(inode));
    }
}
