// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines locking faults that can be injected, one at a time.

use crate::file::{RESERVED, SHARED};
use crate::shm::FIRST_SLOT;
use openpath_abi::Flock;
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK};

/// The fault in the locks of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No fault.
    None,
    /// Every lock request succeeds, and none sets a lock.
    NoLocks,
    /// A reader sets no lock, so that others write meanwhile.
    NoShared,
    /// A reserved writer sets no lock, so that there are two at once.
    NoReserved,
    /// A writer to a write-ahead log sets no lock, so that there are two at once.
    NoLogWriter,
    /// Locks stay until the file is closed.
    NoUnlock,
}

impl Fault {
    /// Whether a request reports success without being made.
    pub(crate) fn swallows(self, ask: &Flock) -> bool {
        match self {
            Self::None => false,
            Self::NoLocks => true,
            Self::NoShared => ask.kind == F_RDLCK && ask.start == SHARED,
            Self::NoReserved => ask.kind == F_WRLCK && ask.start == RESERVED,
            Self::NoLogWriter => ask.kind == F_WRLCK && ask.start == FIRST_SLOT,
            Self::NoUnlock => ask.kind == F_UNLCK,
        }
    }
}
