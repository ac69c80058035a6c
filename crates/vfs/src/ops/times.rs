// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets file times: utimensat(2), futimens(3).
//!
//! # Kernel analogue
//! `do_utimes`, `vfs_utimes`, `may_setattr`.

use super::at_lookup;
use super::attr::ANONYMOUS;
use super::resolve;
use crate::file::PathStart;
use crate::file_ops::Fd;
use crate::inode::{SetAttr, flag};
use crate::perm::{self, MAY_WRITE};
use crate::target::{FIXED, Target};
use crate::task::Task;
use openpath_abi::fcntl::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW};
use openpath_abi::time::NSEC_PER_SEC;
use openpath_abi::{AtFlags, Errno, TimeSet, Timespec};

/// Whether there is nothing to do; then path and descriptor are not checked either.
fn is_nothing(times: &[TimeSet; 2]) -> bool {
    *times == [TimeSet::Omit, TimeSet::Omit]
}

impl Task {
    /// Sets the times of access and of data change of `path`, relative to `dirfd`; without a path,
    /// of the open file `dirfd`. Linux: utimensat(2).
    ///
    /// # Errors
    /// None if both are [`TimeSet::Omit`].
    ///
    /// With a path: `EINVAL` (flags), `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk.
    /// Without one: `EFAULT` (no file either), `EINVAL` (flags), `EBADF` (not open, `O_PATH`).
    ///
    /// Then `EINVAL` (nanoseconds), `EROFS`, `EPERM` (immutable; append-only, unless both are now;
    /// not the owner, unless both are now), `EACCES` (neither owner nor writer), what the backend
    /// meets.
    pub fn utimensat(
        &self,
        dirfd: Fd,
        path: Option<&[u8]>,
        times: [TimeSet; 2],
        at_flags: AtFlags,
    ) -> Result<(), Errno> {
        self.utimensat_by(dirfd, path, times, (at_flags, 0))
    }

    /// As [`Task::utimensat`], walking with these flags besides.
    pub(super) fn utimensat_by(
        &self,
        dirfd: Fd,
        path: Option<&[u8]>,
        times: [TimeSet; 2],
        (at_flags, lookup): (AtFlags, u32),
    ) -> Result<(), Errno> {
        let base = self.core.base(dirfd);
        let at = base.at();
        if is_nothing(&times) {
            return Ok(());
        }
        let Some(path) = path else {
            return match at {
                PathStart::Cwd => Err(Errno::EFAULT),
                _ if !at_flags.is_empty() => Err(Errno::EINVAL),
                PathStart::Bad => Err(Errno::EBADF),
                PathStart::File(file) if file.is_path() => Err(Errno::EBADF),
                PathStart::File(file) => file.target()?.utimens(&times),
            };
        };
        if at_flags.intersects(!(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) {
            return Err(Errno::EINVAL);
        }
        let held = resolve(&self.core, at, path, at_lookup(at_flags) | lookup)?;
        held.target()?.utimens(&times)
    }
}

impl Task {
    /// Sets the times of access and of data change of the file at `fd`. Linux: futimens(3).
    ///
    /// # Errors
    /// None if both are [`TimeSet::Omit`]. `EBADF` (not open, `O_PATH`), then as
    /// [`Task::utimensat`].
    pub fn futimens(&self, fd: Fd, times: [TimeSet; 2]) -> Result<(), Errno> {
        if is_nothing(&times) {
            return Ok(());
        }
        let file = self.core.fdget_full(fd)?;
        let target = file.target()?;
        target.confirm()?;
        target.utimens(&times)
    }
}

impl Target<'_> {
    fn utimens(&self, times: &[TimeSet; 2]) -> Result<(), Errno> {
        let invalid = |t: &TimeSet| matches!(t, TimeSet::At(at) if at.nsec >= NSEC_PER_SEC);
        if times.iter().any(invalid) {
            return Err(Errno::EINVAL);
        }
        let _writing = self.begin_write()?;
        self.core.past_delegations(|| self.utimens_locked(times))
    }

    fn utimens_locked(&self, times: &[TimeSet; 2]) -> Result<(), Errno> {
        let _held = self.inode.lock_names();
        let touches = *times == [TimeSet::Now, TimeSet::Now];
        self.may_set_times(touches)?;
        self.core.try_break(self.inode)?;
        if !touches && !self.core.cred().owner_or_capable(self.inode.ids().0) {
            return Err(Errno::EPERM);
        }
        let now = self.core.vfs.clock.now();
        let [atime, mtime] = times.map(|t| value(t, now));
        self.setattr(&SetAttr {
            atime,
            mtime,
            ctime: Some(now),
            ..SetAttr::default()
        })
    }

    /// Whether times may be set, apart from the check of the owner. `touches`: both times become
    /// now, which a task may do that may write.
    ///
    /// # Errors
    /// As [`Task::utimensat`].
    fn may_set_times(&self, touches: bool) -> Result<(), Errno> {
        let fixed = if touches { flag::IMMUTABLE } else { FIXED };
        if self.inode.flags() & fixed != 0 {
            return Err(Errno::EPERM);
        }
        if !touches && self.inode.kind() == ANONYMOUS {
            return Err(Errno::EOPNOTSUPP);
        }
        let cred = self.core.cred();
        if !touches || cred.owner_or_capable(self.inode.ids().0) {
            return Ok(());
        }
        perm::inode_permission(&cred, &self.mount.sb, self.inode, MAY_WRITE)
    }
}

fn value(set: TimeSet, now: Timespec) -> Option<Timespec> {
    match set {
        TimeSet::Omit => None,
        TimeSet::Now => Some(now),
        TimeSet::At(at) => Some(at),
    }
}
