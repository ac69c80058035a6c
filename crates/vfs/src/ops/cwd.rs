// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gets and sets the root and working directory of a task (getcwd(2), chdir(2), fchdir(2),
//! chroot(2)), and names the present path of an open file.
//!
//! # Kernel analogue
//! `set_fs_pwd`, `set_fs_root`.

use super::{PinnedPath, resolve};
use crate::file::PathStart;
use crate::file_ops::Fd;
use crate::path::PathIds;
use crate::perm::{self, MAY_EXEC};
use crate::task::{Core, PathSnapshot, Task};
use crate::walk::lflag;
use openpath_abi::limits::PATH_MAX;
use openpath_abi::{Errno, caps};
use openpath_sync::Pin;

/// What getcwd(2) puts before a place that the root does not lead to.
const UNREACHABLE: &[u8] = b"(unreachable)";
/// What follows the path of a place that has no name any more.
const DELETED: &[u8] = b" (deleted)";

impl Task {
    /// The path of the working directory; one that the root does not lead to begins with
    /// `(unreachable)`. Linux: getcwd(2).
    ///
    /// # Errors
    /// `ENOENT` (it was removed), `ENAMETOOLONG` (more than `PATH_MAX` with its NUL).
    pub fn getcwd(&self) -> Result<Vec<u8>, Errno> {
        self.core.heed_pivots();
        let place = PathSnapshot::of(&self.core, self.core.cwd.get());
        if place.deleted {
            return Err(Errno::ENOENT);
        }
        let mut path = place.path;
        if !place.reachable {
            path.splice(..0, UNREACHABLE.iter().copied());
        }
        fits(path)
    }

    /// Makes `path` the working directory. Linux: chdir(2).
    ///
    /// # Errors
    /// `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk, `ENOTDIR`, `EACCES` (it may not be
    /// searched).
    pub fn chdir(&self, path: &[u8]) -> Result<(), Errno> {
        let pin = self.searchable_dir(path)?.into_pin();
        self.core.set_cwd(pin.ok_or(Errno::ENOENT)?);
        Ok(())
    }

    /// Makes the open directory at `fd` the working directory; `O_PATH` is enough. Linux:
    /// fchdir(2).
    ///
    /// # Errors
    /// `EBADF`, `ENOTDIR`, `EACCES` (it may not be searched), `ENOMEM` when there are no pins left.
    pub fn fchdir(&self, fd: Fd) -> Result<(), Errno> {
        let file = self.core.fdget(fd)?;
        let target = file.target()?;
        if !target.inode.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        let cred = self.core.cred();
        perm::inode_permission(&cred, &target.mount.sb, target.inode, MAY_EXEC)?;
        self.core.set_cwd(pin(&self.core, target.path_ids)?);
        Ok(())
    }

    /// Makes `path` the root, for this task; the working directory stays. Linux: chroot(2).
    ///
    /// # Errors
    /// As [`Task::chdir`], then `EPERM` (no `CAP_SYS_CHROOT`).
    pub fn chroot(&self, path: &[u8]) -> Result<(), Errno> {
        let held = self.searchable_dir(path)?;
        if !self.core.cred().capable(caps::CAP_SYS_CHROOT) {
            return Err(Errno::EPERM);
        }
        self.core.set_root(held.into_pin().ok_or(Errno::ENOENT)?);
        Ok(())
    }

    fn searchable_dir(&self, path: &[u8]) -> Result<PinnedPath<'_>, Errno> {
        let lookup = lflag::FOLLOW | lflag::DIRECTORY;
        let held = resolve(&self.core, PathStart::Cwd, path, lookup)?;
        let target = held.target()?;
        perm::inode_permission(&self.core.cred(), &target.mount.sb, target.inode, MAY_EXEC)?;
        Ok(held)
    }
}

impl Task {
    /// The present path of the file at `fd`, from this task's root; ` (deleted)` follows if that
    /// name is gone. `/proc/self/fd` shows it (`d_path`).
    ///
    /// # Errors
    /// `EBADF`, `ENAMETOOLONG`.
    #[doc(alias = "d_path")]
    pub fn path_name(&self, fd: Fd) -> Result<Vec<u8>, Errno> {
        let file = self.core.fdget(fd)?;
        let place = PathSnapshot::of(&self.core, file.path_ids());
        let mut path = place.path;
        if place.deleted {
            path.extend_from_slice(DELETED);
        }
        fits(path)
    }
}

fn fits(path: Vec<u8>) -> Result<Vec<u8>, Errno> {
    if path.len() < PATH_MAX {
        Ok(path)
    } else {
        Err(Errno::ENAMETOOLONG)
    }
}

fn pin(core: &Core, path_ids: PathIds) -> Result<Pin, Errno> {
    core.pins
        .pin_now(path_ids.mount, path_ids.dentry)
        .ok_or(Errno::ENOMEM)
}
