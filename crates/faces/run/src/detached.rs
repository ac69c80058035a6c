// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tree in memory that the kernel's overlays put their changes in.

use rustix::fd::OwnedFd;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

/// Bytes for each inode that it may have.
const BYTES_PER_INODE: u64 = 1024;

/// A tmpfs of so many bytes that is attached nowhere.
pub(crate) fn tmpfs(size: u64) -> rustix::io::Result<OwnedFd> {
    let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let inodes = (size / BYTES_PER_INODE).max(16).to_string();
    for (key, value) in [
        ("size", &*size.to_string()),
        ("nr_inodes", &inodes),
        ("mode", "0700"),
    ] {
        rustix::mount::fsconfig_set_string(&context, key, value)?;
    }
    rustix::mount::fsconfig_create(&context)?;
    rustix::mount::fsmount(
        &context,
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::empty(),
    )
}
