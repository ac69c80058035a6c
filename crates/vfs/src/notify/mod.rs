// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements inotify: an event on a watched inode is queued for every group that watches it.
//!
//! # Kernel analogue
//! fsnotify with inotify as its one listener: [`NotifyGroup`] is `struct fsnotify_group`, a mark is
//! `struct fsnotify_mark`, the list on an inode is its `fsnotify_mark_connector`.
//!
//! This module has the groups and the delivery of events. The list on an inode is in `mark` and
//! `inode::marks`, the events of each call in `events` and `target::events`, the calls in
//! `ops::inotify`.
//!
//! # States
//! A watch: in its group's table and on its inode -> spent (off the inode: one shot, inode gone,
//! unmounted) -> out of the table. The thread that takes it out of the table queues its
//! `IN_IGNORED`, so there is one, and it is the watch's last event.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | watches of the `Vfs` | one read-modify-write | one load, before anything else |
//! | [`flag::WATCHED`](crate::flag::WATCHED) | the inode's marks | one load |
//! | marks of an inode | their lock | the same |
//! | table of a group | its lock | the same |
//! | queue of a group | its lock | the same |
//! | counts of a user | the counts' lock | the same |
//!
//! # Locks
//! Table of a group -> counts; table of a group -> marks of an inode -> queue of a group. Two lists
//! of marks are never held together. All of them are inside the directories' locks, so events of
//! one directory are queued in the order of its changes.
//!
//! # Rules
//! R1. While nothing is watched, a call reads one word of the `Vfs` and nothing else. One watch
//!     anywhere makes each event of the `Vfs` read the flags of two inodes.
//! R2. A group gets the event of its watch on the directory first, with the name, then that of its
//!     watch on the inode itself, without.
//! R3. A watch keeps its inode: the list of marks is not lost while a backend forgets the inode.
//!
//! # Guarantees
//! G1. Events of one thread are queued in the order it caused them, before its call returns.
//! G2. A queue holds [`max_queued_events`](crate::Limits::max_queued_events) events and one
//!     overflow event; names are those of entries, 255 bytes at most.
//!
//! # Limits
//! * The call that drops the last use of an unlinked inode's entry queues its `IN_DELETE_SELF`. If
//!   that was a passing walk, not a call that removes, closes or leaves, the event comes when the
//!   entry's slot is reclaimed.
//! * A backend that makes a second inode for a file with a live one splits its watches.
//! * A directory gets no events of its entries while a `Vfs` has no pins left.

mod emit;
mod group;
mod limits;
mod queue;
#[cfg(test)]
mod tests;

pub(crate) use emit::{EventSource, EventVia};
pub(crate) use group::{Instance, NotifyGroup, Watchers};
pub(crate) use limits::Notify;
