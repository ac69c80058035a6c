// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements opens that fail instead of waiting: `Task::try_open`, `Task::try_openat` and
//! `Task::try_openat2`.
//!
//! # Rules
//! R1. A file that must be made or truncated is not tried: that takes its directory's lock.
//! R2. A file is opened as with `O_NONBLOCK`, and is without it afterwards unless the caller asked
//!     for it. A FIFO alone is not: it would open for reading without a writer, for which the call
//!     must wait. Its open is given up instead ([`Reason::Peer`]).

use super::{do_open, how};
use crate::file_ops::Fd;
use crate::reason::Reason;
use crate::task::Task;
use crate::tried::TryError;
use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_TMPFILE_ONLY, O_TRUNC};
use openpath_abi::{Errno, Mode, OFlags, OpenHow};

/// Flags of opens that wait for a lock at least (R1).
const CHANGING: OFlags = O_CREAT.union(O_TRUNC).union(O_TMPFILE_ONLY);

impl Task {
    /// As [`Task::open`], but without a wait.
    ///
    /// # Errors
    /// As [`Task::try_openat`].
    #[inline(always)]
    pub fn try_open(
        &self,
        path: &[u8],
        flags: OFlags,
        mode: impl Into<Mode>,
    ) -> Result<Fd, TryError> {
        self.try_openat_with(AT_FDCWD, path, flags, mode.into())
    }

    /// As [`Task::openat`], but without a wait.
    ///
    /// # Errors
    /// [`TryError::WouldBlock`], at once for a file that must be made or truncated; those of
    /// [`Task::openat`].
    #[inline(always)]
    pub fn try_openat(
        &self,
        dirfd: Fd,
        path: &[u8],
        flags: OFlags,
        mode: impl Into<Mode>,
    ) -> Result<Fd, TryError> {
        self.try_openat_with(dirfd, path, flags, mode.into())
    }

    /// [`Task::try_openat`] without its type parameter.
    #[inline]
    fn try_openat_with(
        &self,
        dirfd: Fd,
        path: &[u8],
        flags: OFlags,
        mode: Mode,
    ) -> Result<Fd, TryError> {
        self.tried(|| {
            let op = match how::plain(flags) {
                Some(op) => op,
                None => {
                    let profile = self.core.vfs.config.profile;
                    how::build(&how::lenient(flags, mode.bits(), profile), profile)?
                }
            };
            self.try_op(dirfd, path, op)
        })
    }

    /// As [`Task::openat2`], but without a wait, with or without `RESOLVE_CACHED`.
    ///
    /// # Errors
    /// [`TryError::WouldBlock`], at once for a file that must be made or truncated; those of
    /// [`Task::openat2`].
    #[inline]
    pub fn try_openat2(&self, dirfd: Fd, path: &[u8], how: &OpenHow) -> Result<Fd, TryError> {
        self.try_openat2_by(dirfd, path, how, 0)
    }

    /// As [`Task::try_openat2`], with further walk flags in `lookup`.
    #[inline(always)]
    pub(crate) fn try_openat2_by(
        &self,
        dirfd: Fd,
        path: &[u8],
        how: &OpenHow,
        lookup: u32,
    ) -> Result<Fd, TryError> {
        self.tried(|| {
            let profile = self.core.vfs.config.profile;
            let mut op = how::build(&how::strict(how), profile).map_err(|errno| match errno {
                // The one cause: a change with `RESOLVE_CACHED`.
                Errno::EAGAIN => self.core.give_up(Reason::Change),
                errno => errno,
            })?;
            op.lookup |= lookup;
            self.try_op(dirfd, path, op)
        })
    }

    #[inline(always)]
    fn try_op(&self, dirfd: Fd, path: &[u8], op: how::OpenOp) -> Result<Fd, Errno> {
        if op.flags.intersects(CHANGING) {
            return Err(self.core.give_up(Reason::Change));
        }
        do_open(&self.core, dirfd, path, &op.tried())
    }
}
