// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines tries: calls that fail instead of waiting. A try gives the answer of the call itself, or
//! says that the call would have to wait.
//!
//! # Kernel analogue
//! The first attempt of `io_uring`, before it hands a call to a worker: `RESOLVE_CACHED`, and
//! `O_NONBLOCK` for the opening alone. There both kinds of `EAGAIN` are one.
//!
//! # Rules
//! R1. A try ends with [`TryError::WouldBlock`] only where the core itself gave up and gave the
//!     reason ([`Task::last_reason`]); an `EAGAIN` of the opened file is an errno like others.

use crate::task::Task;
use openpath_abi::Errno;

/// Why a try gave no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryError {
    /// The call would have to wait, or may: make it where a wait does no harm.
    WouldBlock,
    /// The call's own errno.
    Errno(Errno),
}

impl std::fmt::Display for TryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::WouldBlock => f.write_str("the call would have to wait"),
            Self::Errno(errno) => write!(f, "{errno:?}"),
        }
    }
}

impl std::error::Error for TryError {}

impl Task {
    /// Runs a call that must not wait.
    ///
    /// # Errors
    /// [`TryError::WouldBlock`] if the core gave up (R1); those of the call.
    #[inline(always)]
    pub(crate) fn tried<R>(&self, call: impl FnOnce() -> Result<R, Errno>) -> Result<R, TryError> {
        self.core.gave_up.set(None);
        call().map_err(|errno| {
            if errno == Errno::EAGAIN && self.core.gave_up.get().is_some() {
                TryError::WouldBlock
            } else {
                TryError::Errno(errno)
            }
        })
    }
}
