// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the calls on extended attributes: setxattr(2), getxattr(2), listxattr(2),
//! removexattr(2), and their `l` and `f` forms.
//!
//! `rules` has the permissions for each name space; `values` knows the values that the kernel
//! itself reads.
//!
//! # Limits
//! * Values and lists come whole: a caller with a buffer compares its size (`ERANGE`, `E2BIG`).

mod acl;
mod at;
mod rules;
mod values;

use super::resolve;
use crate::file::PathStart;
use crate::file_ops::Fd;
use crate::target::Target;
use crate::task::Task;
use crate::walk::lflag;
use openpath_abi::fcntl::AT_FDCWD;
use openpath_abi::xattr::{XATTR_CREATE, XATTR_NAME_MAX, XATTR_REPLACE, XATTR_SIZE_MAX};
use openpath_abi::{Errno, XattrFlags};

/// # Errors
/// `ERANGE`: a name is of 1 to 255 bytes.
fn check_name(name: &[u8]) -> Result<(), Errno> {
    if name.is_empty() || name.len() > XATTR_NAME_MAX {
        Err(Errno::ERANGE)
    } else {
        Ok(())
    }
}

/// Checks the arguments of setxattr(2).
///
/// # Errors
/// `EINVAL` (flags), `ERANGE` (name), `E2BIG` (value).
fn check_set(name: &[u8], value: &[u8], flags: XattrFlags) -> Result<(), Errno> {
    if flags.intersects(!(XATTR_CREATE | XATTR_REPLACE)) {
        return Err(Errno::EINVAL);
    }
    check_name(name)?;
    if value.len() > XATTR_SIZE_MAX {
        return Err(Errno::E2BIG);
    }
    Ok(())
}

impl Task {
    /// Sets the attribute `name` of `path`; `flags` as `XATTR_CREATE`, `XATTR_REPLACE`. Linux:
    /// setxattr(2).
    ///
    /// # Errors
    /// In this order:
    /// * `EINVAL` (flags), `ERANGE` (name), `E2BIG` (value);
    /// * `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk, `EROFS`, `EINVAL` (no file
    ///   capabilities);
    /// * `EPERM` (capabilities without `CAP_SETFCAP`; immutable or append-only; `trusted.` and
    ///   `security.` without `CAP_SYS_ADMIN`);
    /// * `EPERM` (`user.` of a special file or link, or in another user's sticky directory),
    ///   `EACCES`;
    /// * what the backend meets (`EOPNOTSUPP`, `EEXIST`, `ENODATA`, `ENOSPC`).
    pub fn setxattr(
        &self,
        path: &[u8],
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<(), Errno> {
        self.set(path, lflag::FOLLOW, (name, value, flags))
    }

    /// As [`Task::setxattr`], but a link in the last place is not followed. Linux: lsetxattr(2).
    ///
    /// # Errors
    /// As [`Task::setxattr`].
    pub fn lsetxattr(
        &self,
        path: &[u8],
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<(), Errno> {
        self.set(path, 0, (name, value, flags))
    }

    fn set(&self, path: &[u8], lookup: u32, what: (&[u8], &[u8], XattrFlags)) -> Result<(), Errno> {
        let (name, value, flags) = what;
        check_set(name, value, flags)?;
        let held = resolve(&self.core, PathStart::Cwd, path, lookup)?;
        held.target()?.setxattr(name, value, flags)
    }

    /// The value of the attribute `name` of `path`. Linux: getxattr(2).
    ///
    /// # Errors
    /// `ERANGE` (name), `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk, `ENODATA`
    /// (`trusted.` without `CAP_SYS_ADMIN`; `user.` of a special file or link), `EACCES`, what the
    /// backend meets (`EOPNOTSUPP`, `ENODATA`), `EINVAL` (broken file capabilities).
    pub fn getxattr(&self, path: &[u8], name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.get(path, lflag::FOLLOW, name)
    }

    /// As [`Task::getxattr`], but a link in the last place is not followed. Linux: lgetxattr(2).
    ///
    /// # Errors
    /// As [`Task::getxattr`].
    pub fn lgetxattr(&self, path: &[u8], name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.get(path, 0, name)
    }

    fn get(&self, path: &[u8], lookup: u32, name: &[u8]) -> Result<Vec<u8>, Errno> {
        check_name(name)?;
        let held = resolve(&self.core, PathStart::Cwd, path, lookup)?;
        held.target()?.getxattr(name)
    }

    /// The names of all attributes of `path`, each with a NUL; `trusted.` ones for `CAP_SYS_ADMIN`
    /// only. Linux: listxattr(2).
    ///
    /// # Errors
    /// `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk, what the backend meets.
    pub fn listxattr(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let held = resolve(&self.core, PathStart::Cwd, path, lflag::FOLLOW)?;
        held.target()?.listxattr()
    }

    /// As [`Task::listxattr`], but a link in the last place is not followed. Linux: llistxattr(2).
    ///
    /// # Errors
    /// As [`Task::listxattr`].
    pub fn llistxattr(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let held = resolve(&self.core, PathStart::Cwd, path, 0)?;
        held.target()?.listxattr()
    }

    /// Removes the attribute `name` of `path`. Linux: removexattr(2).
    ///
    /// # Errors
    /// `ERANGE` (name), `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk, `EROFS`, `EPERM`
    /// and `EACCES` as [`Task::setxattr`], what the backend meets (`EOPNOTSUPP`, `ENODATA`).
    pub fn removexattr(&self, path: &[u8], name: &[u8]) -> Result<(), Errno> {
        self.remove(path, lflag::FOLLOW, name)
    }

    /// As [`Task::removexattr`], but a link in the last place is not followed. Linux:
    /// lremovexattr(2).
    ///
    /// # Errors
    /// As [`Task::removexattr`].
    pub fn lremovexattr(&self, path: &[u8], name: &[u8]) -> Result<(), Errno> {
        self.remove(path, 0, name)
    }

    fn remove(&self, path: &[u8], lookup: u32, name: &[u8]) -> Result<(), Errno> {
        check_name(name)?;
        let held = resolve(&self.core, PathStart::Cwd, path, lookup)?;
        held.target()?.removexattr(name)
    }
}

impl Task {
    /// Runs `work` on the open file at `fd`. As in Linux since 6.13, setting and getting take
    /// `AT_FDCWD` for the working directory; listing and removing do not.
    fn with_fd<T>(
        &self,
        fd: Fd,
        work: impl FnOnce(&Target<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if fd == AT_FDCWD {
            return work(&resolve(&self.core, PathStart::Cwd, b"", lflag::EMPTY)?.target()?);
        }
        work(&self.core.fdget_full(fd)?.target()?)
    }

    /// Sets the attribute `name` of the file at `fd`, in whatever mode it is open. Linux:
    /// fsetxattr(2).
    ///
    /// # Errors
    /// `EINVAL` (flags), `ERANGE` (name), `E2BIG` (value), `EBADF` (not open, `O_PATH`), then as
    /// [`Task::setxattr`] from `EROFS` on.
    pub fn fsetxattr(
        &self,
        fd: Fd,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<(), Errno> {
        check_set(name, value, flags)?;
        self.with_fd(fd, |target| target.setxattr(name, value, flags))
    }

    /// The value of the attribute `name` of the file at `fd`. Linux: fgetxattr(2).
    ///
    /// # Errors
    /// `ERANGE` (name), `EBADF` (not open, `O_PATH`), then as [`Task::getxattr`].
    pub fn fgetxattr(&self, fd: Fd, name: &[u8]) -> Result<Vec<u8>, Errno> {
        check_name(name)?;
        self.with_fd(fd, |target| target.getxattr(name))
    }

    /// The names of all attributes of the file at `fd`, as [`Task::listxattr`]. Linux:
    /// flistxattr(2).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), what the backend meets.
    pub fn flistxattr(&self, fd: Fd) -> Result<Vec<u8>, Errno> {
        self.core.fdget_full(fd)?.target()?.listxattr()
    }

    /// Removes the attribute `name` of the file at `fd`. Linux: fremovexattr(2).
    ///
    /// # Errors
    /// `ERANGE` (name), `EBADF` (not open, `O_PATH`), then as [`Task::removexattr`] from `EROFS`
    /// on.
    pub fn fremovexattr(&self, fd: Fd, name: &[u8]) -> Result<(), Errno> {
        check_name(name)?;
        self.core.fdget_full(fd)?.target()?.removexattr(name)
    }
}
