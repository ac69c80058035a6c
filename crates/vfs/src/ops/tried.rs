// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements stat, access and readlink calls that fail instead of waiting: `Task::try_statx`,
//! `Task::try_fstatat`, `Task::try_faccessat2`, `Task::try_readlinkat`.

use crate::file_ops::Fd;
use crate::task::Task;
use crate::tried::TryError;
use crate::walk::lflag;
use openpath_abi::{AtFlags, Stat, Statx, StatxMask};

impl Task {
    /// As [`Task::statx`], but without a wait.
    ///
    /// # Errors
    /// [`TryError::WouldBlock`]; those of [`Task::statx`].
    pub fn try_statx(
        &self,
        dirfd: Fd,
        path: &[u8],
        at_flags: AtFlags,
        mask: StatxMask,
    ) -> Result<Statx, TryError> {
        self.tried(|| self.statx_by(dirfd, path, (at_flags, mask), lflag::CACHED))
    }

    /// As [`Task::fstatat`], but without a wait.
    ///
    /// # Errors
    /// [`TryError::WouldBlock`]; those of [`Task::fstatat`].
    pub fn try_fstatat(&self, dirfd: Fd, path: &[u8], at_flags: AtFlags) -> Result<Stat, TryError> {
        self.tried(|| self.fstatat_by(dirfd, path, at_flags, lflag::CACHED))
    }

    /// As [`Task::faccessat2`], but without a wait.
    ///
    /// # Errors
    /// [`TryError::WouldBlock`]; those of [`Task::faccessat2`].
    pub fn try_faccessat2(
        &self,
        dirfd: Fd,
        path: &[u8],
        want: u32,
        at_flags: AtFlags,
    ) -> Result<(), TryError> {
        self.tried(|| self.faccessat2_by(dirfd, path, (want, at_flags), lflag::CACHED))
    }

    /// As [`Task::readlinkat`], but without a wait.
    ///
    /// # Errors
    /// [`TryError::WouldBlock`], also where the access time of the link is due; those of
    /// [`Task::readlinkat`].
    pub fn try_readlinkat(&self, dirfd: Fd, path: &[u8]) -> Result<Vec<u8>, TryError> {
        self.tried(|| self.readlinkat_by(dirfd, path, lflag::CACHED))
    }
}
