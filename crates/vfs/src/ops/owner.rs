// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the commands of fcntl(2) on the owner and signal of an open file, such as `F_SETOWN`
//! and `F_SETSIG`. The host reads them and sends the signals.
//!
//! # Kernel analogue
//! `struct fown_struct`, `f_setown`, `f_getown_ex`.

use crate::file::Filp;
use crate::file_ops::{Fd, OwnerEx};
use crate::task::Task;
use openpath_abi::Errno;
use openpath_abi::fcntl::{F_OWNER_PGRP, F_OWNER_PID};

/// The highest signal (`_NSIG`).
const SIGNAL_MAX: u64 = 64;
/// Where the signal begins in its word.
const SIGNAL_SHIFT: u32 = 8;

impl Filp<'_> {
    fn owner_kind(&self) -> u32 {
        self.body().signal.get() & 0xff
    }

    pub(crate) fn set_owner(&self, owner: OwnerEx) {
        let body = self.body();
        let signal = body.signal.get() >> SIGNAL_SHIFT;
        body.signal.set(signal << SIGNAL_SHIFT | owner.kind);
        body.owner.set(owner.pid.cast_unsigned());
    }

    /// `F_GETOWN`: a process, or a process group as a negative number.
    pub(super) fn getown(&self) -> i32 {
        let pid = self.body().owner.get().cast_signed();
        if self.owner_kind() == F_OWNER_PGRP {
            -pid
        } else {
            pid
        }
    }

    /// `F_SETOWN`.
    ///
    /// # Errors
    /// `EINVAL`: a number whose negative is none.
    pub(super) fn setown(&self, who: i32) -> Result<(), Errno> {
        let owner = if who < 0 {
            OwnerEx {
                kind: F_OWNER_PGRP,
                pid: who.checked_neg().ok_or(Errno::EINVAL)?,
            }
        } else {
            OwnerEx {
                kind: F_OWNER_PID,
                pid: who,
            }
        };
        self.set_owner(owner);
        Ok(())
    }

    /// `F_GETSIG`.
    pub(super) fn getsig(&self) -> u32 {
        self.body().signal.get() >> SIGNAL_SHIFT
    }

    /// `F_SETSIG`.
    ///
    /// # Errors
    /// `EINVAL`: no such signal.
    pub(super) fn setsig(&self, signal: u64) -> Result<(), Errno> {
        if signal > SIGNAL_MAX {
            return Err(Errno::EINVAL);
        }
        let kind = self.owner_kind();
        self.body()
            .signal
            .set((signal as u32) << SIGNAL_SHIFT | kind);
        Ok(())
    }
}

impl Task {
    /// The owner to signal for the file at `fd`. Linux: fcntl(2) `F_GETOWN_EX`.
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`).
    pub fn getown_ex(&self, fd: Fd) -> Result<OwnerEx, Errno> {
        let file = self.core.fdget_full(fd)?;
        Ok(OwnerEx {
            kind: file.owner_kind(),
            pid: file.body().owner.get().cast_signed(),
        })
    }

    /// Sets the owner to signal for the file at `fd`. Linux: fcntl(2) `F_SETOWN_EX`.
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (kind).
    pub fn setown_ex(&self, fd: Fd, owner: OwnerEx) -> Result<(), Errno> {
        let file = self.core.fdget_full(fd)?;
        if owner.kind > F_OWNER_PGRP {
            return Err(Errno::EINVAL);
        }
        file.set_owner(owner);
        Ok(())
    }
}
