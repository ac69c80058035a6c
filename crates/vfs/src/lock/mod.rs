// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks of files: of descriptor tables and of open files by ranges (fcntl(2)), and of open files
//! as a whole (flock(2)).
//!
//! # Kernel analogue
//! `fs/locks.c`: `struct file_lock_context`, `posix_lock_inode`, `flock_lock_inode`,
//! `locks_remove_posix`, `locks_remove_file`.
//!
//! # States
//! An inode has no context -> has one, from the first lock on, for as long as it lives. A request
//! is granted, refused, or waits in line; who waits is granted or refused by who frees something,
//! or leaves when it is interrupted. Who waits is a thread that sleeps, or a [`LockWait`] that is
//! asked, and has a claim from the grant until it hears of it. What is granted ends by an unlock,
//! or with its owner: the first close of any descriptor of the file in that table, or the last of
//! the open file; of owners behind a face, when the face says so, or ends.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | an inode's [`LOCK_CONTEXT`](crate::flag::LOCK_CONTEXT) | once, after its context | any time |
//! | notes of a table, of an open file | once, before a lock | any time |
//! | context of an inode | once | any time |
//! | locks and who waits for them | the context's lock | the same |
//! | who waits for whom | the graph's lock | the same |
//! | the answer to who waits | its own lock, over the context's | its own lock |
//!
//! # Locks
//! A context -> the graph; a context -> an answer. No two contexts together, and none over a call
//! of a backend, or of who is told of an answer.
//!
//! # Rules
//! R1. Who sets a lock first notes so in its table, or in the open file, and in the inode's flags;
//!     and then looks, by the table's lock, whether its descriptor is still there. Who closes reads
//!     what the table notes after the descriptor is out of it, and if that is something the
//!     inode's flags; and what the file notes after its last reference is gone. So either the
//!     closer sees that there may be locks, or the setter that the descriptor is closed.
//! R2. Only a lock that is held keeps another from being had; who waits does not. So a request that
//!     nobody is in the way of is granted though others wait, as in Linux.
//! R3. Who frees something grants it, in the order of the requests, to those whom nothing else is
//!     in the way of, and wakes them alone. What a grant lowers is freed. A claim keeps others from
//!     what a lock would, leaves its owner's locks as they are, and ends with them.
//! R4. What a table's locks would make wait for each other in a circle is refused (`EDEADLK`), if
//!     the circle is found by following [`Profile::deadlock_hops`](crate::Profile::deadlock_hops)
//!     owners, each by its last wait for a table's lock, if that is among its last 64. The locks
//!     of open files are no owner to whom anything is refused so; owners behind a face are tables.
//!
//! # Guarantees
//! G1. Who closes a file in a table that never had locks, whose open file never had any, reads one
//!     word of each, and nothing of the inode; else one load of its flags, if it never had any. Who
//!     opens, reads or writes looks at nothing.
//! G2. Setting, freeing and testing take O(log n) for n ranges of the file, and O(1) more for each
//!     range that is changed, and for each claim of the owner's own on some of the range.
//! G3. Locks are counted for the tenant ([`TenantLimits::locks_max`](crate::TenantLimits)); one who
//!     waits is one thread, or is counted as a lock.
//!
//! # Limits
//! * Locks do not keep anybody from reading or writing.

mod args;
mod calls;
mod claims;
mod close;
mod context;
mod face;
mod flock;
mod graph;
mod later;
mod many;
mod queue;
mod ranges;
mod report;
mod spans;
#[cfg(test)]
mod tests;
mod tree;
mod wait;

pub(crate) use context::{LockContext, Locks};
pub use face::LockFace;
pub use later::LockWait;
pub use report::LockInfo;

use openpath_sync::Sleeper;

/// Whether a lock excludes all others, or only those that do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockKind {
    /// Beside others like it (`F_RDLCK`, `LOCK_SH`).
    Read,
    /// Alone (`F_WRLCK`, `LOCK_EX`).
    Write,
}

/// Whose a lock is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LockOwner {
    /// A descriptor table's, by a number that only it has (`F_SETLK`).
    Table(u64),
    /// An open file's, by a number that only it has while it lives (`F_OFD_SETLK`).
    File(u32),
    /// The same for flock(2), which knows nothing of the others.
    Flock(u32),
    /// What is a descriptor table to a face ([`LockFace`]): the face, by a number that only it has,
    /// and what that calls it.
    Face(u32, u64),
}

impl LockOwner {
    /// Whether it is a table, here or behind a face: one that is refused what it would wait for in
    /// a circle, and whose locks show who set them.
    fn is_table(self) -> bool {
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
    /// Whose it is.
    pub owner: LockOwner,
    /// `None`: no lock.
    pub kind: Option<LockKind>,
    /// The first byte.
    pub start: i64,
    /// The last byte; `i64::MAX`: the end, wherever that is.
    pub end: i64,
    /// Who sets it, or has set it; -1: an open file.
    pub pid: i32,
}

/// What a backend that keeps locks itself is to do.
#[derive(Debug)]
pub enum LockCall<'a> {
    /// Say what is in the way of this lock, in its place; nothing: its kind is `None`. Asked
    /// without a kind: the first lock that its owner has of the range.
    Test(&'a mut FileLock),
    /// Set it, or end what its owner has of the range; `wait` is who waits, if anybody.
    Set(&'a FileLock, Option<&'a Sleeper>),
}
