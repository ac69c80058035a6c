// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the kind, owner and range of a file lock, and the request that a backend gets if it
//! keeps locks itself.

use openpath_abi::Errno;
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK};
use openpath_sync::Waiter;

/// Whether a lock excludes all others, or only those that do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockKind {
    /// Beside others like it (`F_RDLCK`, `LOCK_SH`).
    Read,
    /// Alone (`F_WRLCK`, `LOCK_EX`).
    Write,
}

/// The owner of a lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockOwner {
    /// A descriptor table's, by a number that only it has (`F_SETLK`).
    Table(u64),
    /// An open file's, by a number that only it has while it lives (`F_OFD_SETLK`).
    File(u32),
    /// The same for flock(2), which knows nothing of the others.
    Flock(u32),
    /// A descriptor table behind a face ([`crate::LockFace`]): the number of the face, which only
    /// it has, and the number that the face gave the table.
    Face(u32, u64),
}

impl LockOwner {
    /// Whether it is a table, here or behind a face. A table is refused a wait for itself, and its
    /// locks show the process that set them.
    pub(crate) fn is_table(self) -> bool {
        matches!(self, Self::Table(_) | Self::Face(..))
    }
}

/// Bytes of a file, both ends included; `i64::MAX` is the end, wherever that is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Range {
    pub(crate) start: i64,
    pub(crate) end: i64,
}

impl Range {
    /// The whole file.
    pub(crate) const ALL: Self = Self {
        start: 0,
        end: i64::MAX,
    };
}

/// A lock as a backend that keeps locks itself is told of it ([`crate::InodeOps::lock`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileLock {
    /// Its owner.
    pub owner: LockOwner,
    /// `None`: no lock.
    pub kind: Option<LockKind>,
    /// The first byte.
    pub start: i64,
    /// The last byte; `i64::MAX`: the end, wherever that is.
    pub end: i64,
    /// The process that sets it, or has set it; -1: an open file.
    pub pid: i32,
}

/// The lock calls to a backend that keeps locks itself.
#[derive(Debug)]
pub enum LockCall<'a> {
    /// Replace this lock by one that blocks it; its kind becomes `None` if there is none. Asked
    /// without a kind: the first lock that its owner has of the range.
    Test(&'a mut FileLock),
    /// Set it, or end what its owner has of the range; with a sleeper, that thread may wait.
    Set(&'a FileLock, Option<&'a Waiter>),
}

impl LockKind {
    /// As `l_type` has it.
    pub(crate) fn of(kind: i16) -> Result<Option<Self>, Errno> {
        match kind {
            F_RDLCK => Ok(Some(Self::Read)),
            F_WRLCK => Ok(Some(Self::Write)),
            F_UNLCK => Ok(None),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn raw(kind: Option<Self>) -> i16 {
        match kind {
            Some(Self::Read) => F_RDLCK,
            Some(Self::Write) => F_WRLCK,
            None => F_UNLCK,
        }
    }
}
