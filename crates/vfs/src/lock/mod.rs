// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements file locks: range locks of descriptor tables and open files (fcntl(2)), and locks on
//! the whole file of an open file (flock(2)).
//!
//! This module has the locks of one file and their waiters; it knows no task. `file_locks` finds
//! them by the inode and ends them at a close; `ops::locks` has the calls.
//!
//! # Kernel analogue
//! `fs/locks.c`: `struct file_lock_context`, `posix_lock_inode`, `flock_lock_inode`,
//! `locks_remove_posix`, `locks_remove_file`.
//!
//! # States
//! An inode gets a context with its first lock, and keeps it for life.
//!
//! A request is granted, refused, or waits in line. A release grants or refuses what waits; an
//! interrupt ends the wait. A waiter is a thread that sleeps, or a [`LockWait`] that is polled. A
//! `LockWait` has a claim from the grant until it reads the answer.
//!
//! A lock ends by an unlock, or with its owner. A table's locks end with the first close of any
//! descriptor of the file in that table, an open file's with its last close. Locks of owners behind
//! a face end when the face says so, or with the face.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | an inode's [`LOCK_CONTEXT`](crate::flag::LOCK_CONTEXT) | once, after its context | any time |
//! | notes of a table, of an open file | once, before a lock | any time |
//! | context of an inode | once | any time |
//! | locks and their waiters | the context's lock | the same |
//! | the wait-for graph | the graph's lock | the same |
//! | the answer to a waiter | its own lock, over the context's | its own lock |
//!
//! # Locks
//! A context -> the graph; a context -> an answer. No two contexts together, and none over a call
//! of a backend or of a waiter's waker.
//!
//! # Rules
//! R1. A task that sets a lock first notes so in its table, or in the open file, and in the inode's
//!     flags. It then checks, by the table's lock, that its descriptor is still there. A close
//!     takes the descriptor out of the table first, and then reads the table's note; if that is
//!     set, it reads the inode's flags. It reads the file's note after the last reference is gone.
//!     So either the close sees that there may be locks, or the setter sees that the descriptor is
//!     closed.
//! R2. Only a lock that is held blocks a request; a waiter does not. So a request without a
//!     conflict is granted though others wait, as in Linux.
//! R3. A release grants what it freed, in the order of the requests, to the waiters that nothing
//!     else blocks, and wakes them alone. A grant that lowers a lock frees in turn. A claim blocks
//!     other owners as a lock would, leaves its owner's locks as they are, and ends with them.
//! R4. A request that would make tables wait for each other in a circle is refused (`EDEADLK`), if
//!     the circle is found. The search follows
//!     [`Profile::deadlock_hops`](crate::Profile::deadlock_hops) owners, each by its last wait for
//!     a table's lock, if that is among its last 64. Open files' locks never get this errno; owners
//!     behind a face count as tables.
//!
//! # Guarantees
//! G1. A close of a file reads one word of its table and one of the open file, if neither ever had
//!     locks, and nothing of the inode. Else it loads the inode's flags once, if that never had
//!     locks. An open, read or write looks at nothing.
//! G2. Setting, freeing and testing take O(log n) for n ranges of the file, and O(1) more for each
//!     range that is changed, and for each claim of the same owner on some of the range.
//! G3. Locks are counted for the tenant ([`TenantLimits::locks_max`](crate::TenantLimits)). A
//!     waiter is one thread, or is counted as a lock.
//!
//! # Limits
//! * Locks do not keep anybody from reading or writing.

mod claims;
mod context;
mod graph;
mod owner_table;
mod queue;
mod ranges;
mod report;
mod spans;
#[cfg(test)]
mod tests;
mod tree;
mod wait;
mod waiter_charge;

pub(crate) use context::{LockContext, Locks};
pub(crate) use queue::QueuePosition;
pub(crate) use ranges::{HeldLock, LockRequest};
pub use report::LockInfo;
pub(crate) use wait::WhenBlocked;
pub(crate) use waiter_charge::WaiterCharge;
