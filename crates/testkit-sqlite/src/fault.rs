// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of locking that can be broken on purpose, one at a time.

use crate::file::{RESERVED, SHARED};
use crate::shm::FIRST_SLOT;
use openpath_abi::Flock;
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK};

/// What is wrong with the locks of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// Every lock is granted, and none is set.
    NoLocks,
    /// Who reads sets no lock, so that others write meanwhile.
    NoShared,
    /// Who is about to write sets no lock, so that two are at once.
    NoReserved,
    /// Who writes to a log sets no lock, so that two are at once.
    NoLogWriter,
    /// What was locked stays so until the file is closed.
    NoUnlock,
}

impl Fault {
    /// Whether a request is said to be granted without being made.
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
