// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements path calls that fail with `EXDEV` where a path would leave the directory it starts
//! from.
//!
//! # Kernel analogue
//! `RESOLVE_BENEATH`, which only openat2(2) has there: here every call on paths has it.
//!
//! # Rules
//! R1. Each path of a call stays beneath its own directory: the walk refuses `/`, a link to
//!     somewhere above and a `..` too many where it meets them, whatever the text looks like.
//! R2. Moves by other tasks meanwhile are no failure, as they are to openat2(2) (`EAGAIN`). A walk
//!     that went up checks its position, and begins again where that is not beneath.

use crate::file_ops::Fd;
use crate::task::Task;
use crate::tried::TryError;
use crate::walk::lflag;
use openpath_abi::resolve::RESOLVE_BENEATH;
use openpath_abi::{AtFlags, Errno, Mode, OFlags, OpenHow, RenameFlags, Stat, TimeSet};

/// The flags of all walks here.
const BENEATH: u32 = lflag::BENEATH | lflag::STEADFAST;

/// The calls of a task whose paths stay beneath the directories that they start from. Those that
/// lead out are `EXDEV`; else each answers as the call of the same name.
///
/// ```no_run
/// # use openpath_abi::AtFlags;
/// # fn example(task: &openpath_vfs::Task, dir: i32) -> Result<(), openpath_abi::Errno> {
/// let guest = task.beneath();
/// guest.mkdirat(dir, b"work", 0o755)?;
/// assert!(guest.fstatat(dir, b"work/../../etc", AtFlags::empty()).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Beneath<'t>(&'t Task);

impl Task {
    /// The calls whose paths stay beneath the directories that they start from.
    #[must_use]
    #[inline]
    pub fn beneath(&self) -> Beneath<'_> {
        Beneath(self)
    }
}

impl Beneath<'_> {
    /// As [`Task::openat2`] with `RESOLVE_BENEATH`, but never `EAGAIN` for moves by other tasks.
    ///
    /// # Errors
    /// Those of [`Task::openat2`].
    #[inline]
    pub fn openat(
        &self,
        dirfd: Fd,
        path: &[u8],
        flags: OFlags,
        mode: impl Into<Mode>,
    ) -> Result<Fd, Errno> {
        self.0.openat2_by(dirfd, path, &how(flags, mode), BENEATH)
    }

    /// As [`Beneath::openat`], but without a wait.
    ///
    /// # Errors
    /// Those of [`Task::try_openat2`].
    #[inline]
    pub fn try_openat(
        &self,
        dirfd: Fd,
        path: &[u8],
        flags: OFlags,
        mode: impl Into<Mode>,
    ) -> Result<Fd, TryError> {
        self.0
            .try_openat2_by(dirfd, path, &how(flags, mode), BENEATH)
    }

    /// As [`Task::fstatat`].
    ///
    /// # Errors
    /// `EXDEV`, those of [`Task::fstatat`].
    #[inline]
    pub fn fstatat(&self, dirfd: Fd, path: &[u8], at_flags: AtFlags) -> Result<Stat, Errno> {
        self.0.fstatat_by(dirfd, path, at_flags, BENEATH)
    }

    /// As [`Beneath::fstatat`], but without a wait.
    ///
    /// # Errors
    /// [`TryError::WouldBlock`]; those of [`Beneath::fstatat`].
    #[inline]
    pub fn try_fstatat(&self, dirfd: Fd, path: &[u8], at_flags: AtFlags) -> Result<Stat, TryError> {
        let lookup = BENEATH | lflag::CACHED;
        self.0
            .tried(|| self.0.fstatat_by(dirfd, path, at_flags, lookup))
    }

    /// As [`Task::readlinkat`].
    ///
    /// # Errors
    /// `EXDEV`, those of [`Task::readlinkat`].
    pub fn readlinkat(&self, dirfd: Fd, path: &[u8]) -> Result<Vec<u8>, Errno> {
        self.0.readlinkat_by(dirfd, path, BENEATH)
    }

    /// As [`Beneath::readlinkat`], but without a wait.
    ///
    /// # Errors
    /// [`TryError::WouldBlock`]; those of [`Beneath::readlinkat`].
    pub fn try_readlinkat(&self, dirfd: Fd, path: &[u8]) -> Result<Vec<u8>, TryError> {
        let lookup = BENEATH | lflag::CACHED;
        self.0.tried(|| self.0.readlinkat_by(dirfd, path, lookup))
    }

    /// As [`Task::utimensat`] of a path.
    ///
    /// # Errors
    /// `EXDEV`, those of [`Task::utimensat`].
    pub fn utimensat(
        &self,
        dirfd: Fd,
        path: &[u8],
        times: [TimeSet; 2],
        at_flags: AtFlags,
    ) -> Result<(), Errno> {
        let flags = (at_flags, BENEATH);
        self.0.utimensat_by(dirfd, Some(path), times, flags)
    }

    /// As [`Task::mkdirat`].
    ///
    /// # Errors
    /// `EXDEV`, those of [`Task::mkdirat`].
    pub fn mkdirat(&self, dirfd: Fd, path: &[u8], mode: impl Into<Mode>) -> Result<(), Errno> {
        self.0.mkdirat_by(dirfd, path, mode.into().bits(), BENEATH)
    }

    /// As [`Task::symlinkat`]; the link's body is not checked.
    ///
    /// # Errors
    /// `EXDEV`, those of [`Task::symlinkat`].
    pub fn symlinkat(&self, target: &[u8], dirfd: Fd, path: &[u8]) -> Result<(), Errno> {
        self.0.symlinkat_by(target, dirfd, path, BENEATH)
    }

    /// As [`Task::unlinkat`].
    ///
    /// # Errors
    /// `EXDEV`, those of [`Task::unlinkat`].
    pub fn unlinkat(&self, dirfd: Fd, path: &[u8], flags: AtFlags) -> Result<(), Errno> {
        self.0.unlinkat_by(dirfd, path, flags, BENEATH)
    }

    /// As [`Task::linkat`]. `EXDEV` also says that the two are in different mounts.
    ///
    /// # Errors
    /// Those of [`Task::linkat`].
    pub fn linkat(
        &self,
        dirfd: Fd,
        old: &[u8],
        new_dirfd: Fd,
        new: &[u8],
        flags: AtFlags,
    ) -> Result<(), Errno> {
        let new = (new_dirfd, new);
        self.0.linkat_by(dirfd, old, new, flags, BENEATH)
    }

    /// As [`Task::renameat2`]. `EXDEV` also says that the two are in different mounts.
    ///
    /// # Errors
    /// Those of [`Task::renameat2`].
    pub fn renameat2(
        &self,
        dirfd: Fd,
        old: &[u8],
        new_dirfd: Fd,
        new: &[u8],
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let new = (new_dirfd, new);
        self.0.renameat2_by(dirfd, old, new, flags, BENEATH)
    }
}

fn how(flags: OFlags, mode: impl Into<Mode>) -> OpenHow {
    OpenHow::new(flags, mode).resolve(RESOLVE_BENEATH)
}
