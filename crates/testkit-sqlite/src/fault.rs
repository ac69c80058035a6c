// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the mistakes in the locking of an SQLite connection that tests plant one at a time: each
//! leaves out some lock calls.

use crate::lock_bytes::{FIRST_SLOT, RESERVED, SHARED};
use openpath_abi::Flock;
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK};

/// The fault of a connection's locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No fault.
    None,
    /// Every lock is granted, and none is set.
    NoLocks,
    /// A reader sets no lock, so others write meanwhile.
    NoShared,
    /// A writer sets no reserved lock, so two write at once.
    NoReserved,
    /// A writer of the write-ahead log sets no lock, so two write at once.
    NoLogWriter,
    /// Locks stay until the file is closed.
    NoUnlock,
}

impl Fault {
    /// Whether a request is reported as granted without being made.
    pub(crate) fn skips(self, ask: &Flock) -> bool {
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
