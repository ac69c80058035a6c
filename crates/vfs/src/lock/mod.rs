// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks of files: of descriptor tables and of open files by ranges (fcntl(2)), and of open files
//! as a whole (flock(2)).
//!
//! These are the locks of one file and who waits for them; no task is known here. `file_locks`
//! finds them by the inode and ends them at a close; the calls are in `ops::locks`.
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

mod claims;
mod context;
mod fee;
mod graph;
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
pub(crate) use fee::Fee;
pub(crate) use queue::Place;
pub(crate) use ranges::{Ask, Held};
pub use report::LockInfo;
pub(crate) use wait::Wish;
