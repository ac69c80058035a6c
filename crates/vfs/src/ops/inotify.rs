// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the inotify calls: inotify_init1(2), inotify_add_watch(2), inotify_rm_watch(2).

use super::resolve;
use crate::file::{Filp, PathStart};
use crate::file_ops::Fd;
use crate::notify::{Instance, NotifyGroup};
use crate::perm::{self, MAY_READ};
use crate::task::Task;
use crate::walk::lflag;
use openpath_abi::inotify::{
    IN_ALL_EVENTS, IN_CLOEXEC, IN_DONT_FOLLOW, IN_EXCL_UNLINK, IN_IGNORED, IN_ISDIR, IN_MASK_ADD,
    IN_MASK_CREATE, IN_NONBLOCK, IN_ONESHOT, IN_ONLYDIR, IN_Q_OVERFLOW, IN_UNMOUNT,
};
use openpath_abi::{Errno, OFlags};
use std::sync::Arc;

/// Bits that a mask may have (`ALL_INOTIFY_BITS`).
const VALID: u32 = IN_ALL_EVENTS
    | IN_UNMOUNT
    | IN_Q_OVERFLOW
    | IN_IGNORED
    | IN_ONLYDIR
    | IN_DONT_FOLLOW
    | IN_EXCL_UNLINK
    | IN_MASK_CREATE
    | IN_MASK_ADD
    | IN_ISDIR
    | IN_ONESHOT;

/// The group of an open file.
///
/// # Errors
/// `EINVAL`: it is no inotify instance.
fn group_of<'a>(file: &'a Filp<'_>) -> Result<&'a Arc<NotifyGroup>, Errno> {
    let own = file.own_ops().map(|ops| ops.as_any());
    let instance = own.and_then(|ops| ops.downcast_ref::<Instance>());
    instance.map(Instance::group).ok_or(Errno::EINVAL)
}

impl Task {
    /// A new instance, whose descriptor reads the events of its watches. Linux: inotify_init1(2).
    ///
    /// # Errors
    /// `EINVAL` (flags), `EMFILE` (as many instances as the user may have, or descriptors),
    /// `ENFILE`.
    #[doc(alias = "IN_NONBLOCK")]
    pub fn inotify_init1(&self, flags: u32) -> Result<Fd, Errno> {
        if flags & !(IN_CLOEXEC | IN_NONBLOCK) != 0 {
            return Err(Errno::EINVAL);
        }
        let core = &self.core;
        let uid = core.cred().euid;
        let group = NotifyGroup::new(&core.vfs, &core.vfs.config.limits, uid)?;
        core.install_anonymous(
            Box::new(Instance::new(group)),
            OFlags::from_bits_retain(flags),
        )
    }

    /// Watches the file at `path` for the events in `mask`, or changes an existing watch; its
    /// number. Linux: inotify_add_watch(2).
    ///
    /// # Errors
    /// In this order:
    /// * `EINVAL` (an unknown bit, no bit), `EBADF` (`fd`);
    /// * `EINVAL` (`IN_MASK_ADD` with `IN_MASK_CREATE`, `fd` is no instance);
    /// * `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk;
    /// * `ENOTDIR` (`IN_ONLYDIR`), `EACCES` (it may not be read), `EEXIST` (`IN_MASK_CREATE`);
    /// * `ENOSPC` (as many watches as the user may have).
    #[doc(alias = "IN_MASK_ADD")]
    pub fn inotify_add_watch(&self, fd: Fd, path: &[u8], mask: u32) -> Result<i32, Errno> {
        if mask & !VALID != 0 || mask == 0 {
            return Err(Errno::EINVAL);
        }
        let core = &self.core;
        let file = core.fdget_full(fd)?;
        if mask & IN_MASK_ADD != 0 && mask & IN_MASK_CREATE != 0 {
            return Err(Errno::EINVAL);
        }
        let group = group_of(&file)?;
        let mut lookup = 0;
        if mask & IN_DONT_FOLLOW == 0 {
            lookup |= lflag::FOLLOW;
        }
        if mask & IN_ONLYDIR != 0 {
            lookup |= lflag::DIRECTORY;
        }
        let held = resolve(core, PathStart::Cwd, path, lookup)?;
        let sb = &held.mount()?.sb;
        perm::inode_permission(&core.cred(), sb, held.inode()?, MAY_READ)?;
        // A name that the file lost before must not count as its end later.
        core.vfs.dcache.collect();
        let limit = core.vfs.config.limits.max_user_watches;
        group.watch((&core.vfs.notify, limit), held.share_inode()?, sb, mask)
    }

    /// Ends a watch; its last event is `IN_IGNORED`. Linux: inotify_rm_watch(2).
    ///
    /// # Errors
    /// `EBADF` (`fd`), `EINVAL` (`fd` is no instance, no such watch).
    pub fn inotify_rm_watch(&self, fd: Fd, wd: i32) -> Result<(), Errno> {
        let file = self.core.fdget_full(fd)?;
        group_of(&file)?.unwatch(wd)
    }
}
