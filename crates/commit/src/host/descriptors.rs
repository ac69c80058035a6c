// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes further descriptors for an open directory, and a path that leads to an open file.

use rustix::fd::{AsFd, AsRawFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Result;

/// A further descriptor that stands for an open directory.
pub(crate) fn reopen_path(dir: impl AsFd) -> Result<OwnedFd> {
    reopen(dir, OFlags::PATH)
}

/// A descriptor by which an open directory is listed and synced.
pub(crate) fn reopen_readable(dir: impl AsFd) -> Result<OwnedFd> {
    reopen(dir, OFlags::RDONLY)
}

fn reopen(dir: impl AsFd, how: OFlags) -> Result<OwnedFd> {
    let flags = how | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(dir, ".", flags, Mode::empty())
}

/// A path that leads to this file and no other, for calls that take no descriptor of a place.
pub(crate) fn path_by_number(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}
