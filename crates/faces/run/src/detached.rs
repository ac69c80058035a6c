// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes mounts that are attached nowhere (a copy of a mount, or a tmpfs) and attaches them, by
//! descriptors alone: no path is looked up again.

use rustix::fd::{AsFd, OwnedFd};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags};

/// A copy of the mount that this file is in, with the file as its root.
pub(crate) fn copy(at: impl AsFd) -> rustix::io::Result<OwnedFd> {
    open_tree(at, OpenTreeFlags::empty())
}

/// The same with all mounts below it.
pub(crate) fn copy_all(at: impl AsFd) -> rustix::io::Result<OwnedFd> {
    open_tree(at, OpenTreeFlags::AT_RECURSIVE)
}

fn open_tree(at: impl AsFd, more: OpenTreeFlags) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    rustix::mount::open_tree(at, "", flags | more)
}

/// A tmpfs of so many bytes and inodes, for its owner alone.
pub(crate) fn tmpfs(
    (bytes, inodes): (u64, u64),
    attributes: MountAttrFlags,
) -> rustix::io::Result<OwnedFd> {
    let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let (bytes, inodes) = (bytes.to_string(), inodes.to_string());
    for (key, value) in [("size", &*bytes), ("nr_inodes", &inodes), ("mode", "0700")] {
        rustix::mount::fsconfig_set_string(&context, key, value)?;
    }
    rustix::mount::fsconfig_create(&context)?;
    rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Attaches a mount on top of an open file.
pub(crate) fn attach(mount: impl AsFd, at: impl AsFd) -> rustix::io::Result<()> {
    let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(mount, "", at, "", both)
}
