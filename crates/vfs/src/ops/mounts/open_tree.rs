// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes trees of mounts that belong to an open file: open_tree(2), fsmount(2).
//!
//! # Kernel analogue
//! `open_detached_copy`, `dissolve_on_fput`.
//!
//! A tree lives as long as the file, unless [`Task::move_mount`] puts it somewhere. Until then it
//! is a namespace without tasks.

use super::{bind, may_mount};
use crate::file::NewFileArgs;
use crate::file_ops::{Fd, FileOps};
use crate::instance::Shared;
use crate::mount::MountFlags;
use crate::namespace::{CopyDepth, CopyPropagation};
use crate::ops::resolve;
use crate::superblock::SuperBlock;
use crate::task::{Core, Task};
use crate::walk::lflag;
use openpath_abi::fcntl::{
    AT_EMPTY_PATH, AT_NO_AUTOMOUNT, AT_RECURSIVE, AT_SYMLINK_NOFOLLOW, O_CLOEXEC, O_PATH,
};
use openpath_abi::mount::{FSMOUNT_CLOEXEC, OPEN_TREE_CLOEXEC, OPEN_TREE_CLONE};
use openpath_abi::{AtFlags, Errno, MountAttrFlags};
use openpath_sync::Pin;
use std::sync::{Arc, Weak};

/// All flags of open_tree(2).
const FLAGS: AtFlags = AtFlags::union_of(&[
    AT_EMPTY_PATH,
    AT_NO_AUTOMOUNT,
    AT_RECURSIVE,
    AT_SYMLINK_NOFOLLOW,
    OPEN_TREE_CLONE,
    OPEN_TREE_CLOEXEC,
]);

/// An open file's tree of mounts; dropping it takes the tree apart.
struct DetachedTree {
    vfs: Weak<Shared>,
    top: u32,
    namespace: u64,
}

impl FileOps for DetachedTree {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

impl Drop for DetachedTree {
    fn drop(&mut self) {
        if let Some(vfs) = self.vfs.upgrade() {
            vfs.dissolve(self.top, self.namespace);
        }
    }
}

impl Task {
    /// A descriptor of the place `path`, as with `O_PATH`. With `OPEN_TREE_CLONE` it is of a copy
    /// of the mount there, mounted nowhere; with `AT_RECURSIVE` the mounts below are copied too.
    /// Linux: open_tree(2).
    ///
    /// # Errors
    /// In this order: `EINVAL` (flags; `AT_RECURSIVE` without `OPEN_TREE_CLONE`); `EPERM`
    /// (`OPEN_TREE_CLONE` without `CAP_SYS_ADMIN`); those of the walk; `EINVAL` (the mount is
    /// unbindable, in another namespace, copied from one, or detached); `ENOSPC` (limit of mounts);
    /// `ENFILE`; `EMFILE`; `ENOMEM`.
    #[doc(alias = "OPEN_TREE_CLONE")]
    pub fn open_tree(&self, dirfd: Fd, path: &[u8], flags: AtFlags) -> Result<Fd, Errno> {
        let core = &self.core;
        let clones = flags.contains(OPEN_TREE_CLONE);
        if flags.intersects(!FLAGS) || flags.contains(AT_RECURSIVE) && !clones {
            return Err(Errno::EINVAL);
        }
        if clones {
            may_mount(core)?;
        }
        let mut how = lflag::FOLLOW;
        if flags.contains(AT_SYMLINK_NOFOLLOW) {
            how = 0;
        }
        if flags.contains(AT_EMPTY_PATH) {
            how |= lflag::EMPTY;
        }
        let base = core.base(dirfd);
        let source = resolve(core, base.at(), path, how)?;
        core.check_files_max()?;
        let cloexec = flags.contains(OPEN_TREE_CLOEXEC);
        if !clones {
            let pin = source.into_pin().ok_or(Errno::ENOENT)?;
            return install(core, pin, None, cloexec);
        }
        let depth = if !flags.contains(AT_RECURSIVE) {
            CopyDepth::One
        } else {
            CopyDepth::Bindable
        };
        core.vfs.sweep_mounts();
        let (pin, owner) = {
            let topology = &mut *core.vfs.mounts.topology.lock();
            bind::check_source(topology, &source)?;
            let made =
                core.vfs
                    .copy_tree(topology, source.path_ids(), CopyPropagation::Peer, depth)?;
            let origin = topology.origin_of(topology.namespace_of(source.path_ids().mount));
            let namespace = core.vfs.found(topology, &made, Some(origin));
            own(core, made.first().map_or(0, |&(top, _)| top), namespace)
        };
        install(core, pin?, Some(owner), cloexec)
    }

    /// A descriptor of a new mount of `sb` that is mounted nowhere, with these `MOUNT_ATTR_*`.
    /// Linux: fsmount(2).
    ///
    /// # Errors
    /// In this order: `EPERM` (without `CAP_SYS_ADMIN`); `EINVAL` (flags, attributes); `EBUSY`
    /// (another `Vfs` has the tree); `ENOSPC` (limit of mounts); `ENFILE`; `EMFILE`; `ENOMEM`.
    pub fn fsmount(
        &self,
        sb: Arc<SuperBlock>,
        flags: u32,
        attr: MountAttrFlags,
    ) -> Result<Fd, Errno> {
        let core = &self.core;
        may_mount(core)?;
        if flags & !FSMOUNT_CLOEXEC != 0 {
            return Err(Errno::EINVAL);
        }
        let flags_of_mount = MountFlags::from_attr(attr)?;
        core.check_files_max()?;
        core.vfs.sweep_mounts();
        let (pin, owner) = {
            let topology = &mut *core.vfs.mounts.topology.lock();
            let top = core.vfs.new_mount(topology, &sb, None, flags_of_mount.0)?;
            let namespace = core.vfs.found(topology, &[(top, 0)], Some(0));
            own(core, top, namespace)
        };
        install(core, pin?, Some(owner), flags & FSMOUNT_CLOEXEC != 0)
    }
}

/// A pin of the root of a new tree of mounts, and the owner that takes the tree apart. Held: the
/// topology lock.
fn own(core: &Core, top: u32, namespace: u64) -> (Result<Pin, Errno>, DetachedTree) {
    let root = core.vfs.mounts.at(top).root.get();
    let pin = core.pins.pin_now(top, root).ok_or(Errno::ENOMEM);
    let owner = DetachedTree {
        vfs: Arc::downgrade(&core.vfs),
        top,
        namespace,
    };
    (pin, owner)
}

/// A descriptor of a place. On failure, `owner` takes its tree apart.
fn install(core: &Core, pin: Pin, owner: Option<DetachedTree>, cloexec: bool) -> Result<Fd, Errno> {
    let args = NewFileArgs {
        flags: O_PATH | O_CLOEXEC.only_if(cloexec),
        created: false,
        shared: core.fds().is_shared(),
    };
    let file = core.make_file(pin, args);
    if let Some(owner) = owner {
        let store = &core.vfs.dcache.store;
        // A file just made has nothing of its own yet.
        let _none = store.set_file_payload(&file, Arc::new(Box::new(owner)));
    }
    core.add_fd(file, cloexec)
}
