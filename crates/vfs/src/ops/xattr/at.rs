// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the calls on extended attributes by a descriptor and a path: setxattrat(2),
//! getxattrat(2), listxattrat(2), removexattrat(2), of Linux 6.13.
//!
//! With an empty path and `AT_EMPTY_PATH` they act on the file at the descriptor, even one open
//! with `O_PATH`, which the older calls by a descriptor refuse.

use super::{check_name, check_set};
use crate::file_ops::Fd;
use crate::ops::{PinnedPath, at_lookup, resolve};
use crate::task::Task;
use openpath_abi::fcntl::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW};
use openpath_abi::{AtFlags, Errno, XattrFlags};

/// # Errors
/// `EINVAL`: no other flag is known.
fn check_at(at_flags: AtFlags) -> Result<(), Errno> {
    if !at_flags.intersects(!(AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW)) {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

impl Task {
    /// Runs `work` on the file at a path.
    fn with_path<T>(
        &self,
        (dirfd, path, at_flags): (Fd, &[u8], AtFlags),
        work: impl FnOnce(&PinnedPath<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let base = self.core.base(dirfd);
        work(&resolve(&self.core, base.at(), path, at_lookup(at_flags))?)
    }

    /// Sets the attribute `name` of `path`, relative to `dirfd`. Linux: setxattrat(2).
    ///
    /// # Errors
    /// `EINVAL` (`AT_*` flags), then as [`Task::setxattr`].
    pub fn setxattrat(
        &self,
        dirfd: Fd,
        path: &[u8],
        at_flags: AtFlags,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<(), Errno> {
        check_at(at_flags)?;
        check_set(name, value, flags)?;
        self.with_path((dirfd, path, at_flags), |held| {
            held.target()?.setxattr(name, value, flags)
        })
    }

    /// The value of the attribute `name` of `path`, relative to `dirfd`. Linux: getxattrat(2).
    ///
    /// # Errors
    /// `EINVAL` (`AT_*` flags), then as [`Task::getxattr`].
    pub fn getxattrat(
        &self,
        dirfd: Fd,
        path: &[u8],
        at_flags: AtFlags,
        name: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        check_at(at_flags)?;
        check_name(name)?;
        self.with_path((dirfd, path, at_flags), |held| {
            held.target()?.getxattr(name)
        })
    }

    /// The names of all attributes of `path`, relative to `dirfd`, as [`Task::listxattr`] has them.
    /// Linux: listxattrat(2).
    ///
    /// # Errors
    /// `EINVAL` (`AT_*` flags), then as [`Task::listxattr`].
    pub fn listxattrat(&self, dirfd: Fd, path: &[u8], at_flags: AtFlags) -> Result<Vec<u8>, Errno> {
        check_at(at_flags)?;
        self.with_path((dirfd, path, at_flags), |held| held.target()?.listxattr())
    }

    /// Removes the attribute `name` of `path`, relative to `dirfd`. Linux: removexattrat(2).
    ///
    /// # Errors
    /// `EINVAL` (`AT_*` flags), then as [`Task::removexattr`].
    pub fn removexattrat(
        &self,
        dirfd: Fd,
        path: &[u8],
        at_flags: AtFlags,
        name: &[u8],
    ) -> Result<(), Errno> {
        check_at(at_flags)?;
        check_name(name)?;
        self.with_path((dirfd, path, at_flags), |held| {
            held.target()?.removexattr(name)
        })
    }
}
