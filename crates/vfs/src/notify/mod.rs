// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notification: who watches an inode is told what happens to it.
//!
//! # Kernel analogue
//! fsnotify with inotify as its one listener: [`Group`] is `struct fsnotify_group`, a mark is
//! `struct fsnotify_mark`, the list on an inode is its `fsnotify_mark_connector`.
//!
//! These are the groups, and how news reaches them. The list on an inode is in `mark` and
//! `inode::marks`, the events of each call in `events` and `target::events`, the calls in
//! `ops::inotify`.
//!
//! # States
//! A watch: in its group's table and on its inode -> spent (off the inode: one shot, inode gone,
//! unmounted) -> out of the table. Whoever takes it out of the table queues its `IN_IGNORED`, so
//! there is one, and it is the watch's last event.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | watches of the `Vfs` | one read-modify-write | one load, before anything else |
//! | [`flag::WATCHED`](crate::flag::WATCHED) | the inode's marks | one load |
//! | marks of an inode | their lock | the same |
//! | table of a group | its lock | the same |
//! | queue of a group | its lock | the same |
//! | what a user has | the books' lock | the same |
//!
//! # Locks
//! Table of a group -> books; table of a group -> marks of an inode -> queue of a group. Two lists
//! of marks are never held together. All of them are inside the directories' locks, so events of
//! one directory are queued in the order of its changes.
//!
//! # Rules
//! R1. While nothing is watched, a call reads one word of the `Vfs` and nothing else. One watch
//!     anywhere makes each event of the `Vfs` look at the flags of two inodes.
//! R2. A group is told of its watch of the directory first, with the name, then of its watch of the
//!     inode itself, without.
//! R3. A watch owns its inode: the list of marks is not lost while a backend forgets the inode.
//!
//! # Guarantees
//! G1. Events of one thread are queued in the order it caused them, before its call returns.
//! G2. A queue holds [`max_queued_events`](crate::Limits::max_queued_events) events and the one
//!     that says more were lost; names are those of entries, 255 bytes at most.
//!
//! # Limits
//! * The end of an unlinked inode (`IN_DELETE_SELF`) is told by the call that puts back the last
//!   use of the entry. If that was a walk going by, and no call that removes, closes or leaves, it
//!   is told when the entry's slot is reclaimed.
//! * A backend that makes a second inode for a file of which one lives splits its watchers.
//! * A directory is not told of its entries while a `Vfs` has no pins left.

mod emit;
mod group;
mod limits;
mod queue;
#[cfg(test)]
mod tests;

pub(crate) use emit::{Scene, Through};
pub(crate) use group::{Group, Instance, Watchers};
pub(crate) use limits::Notify;
