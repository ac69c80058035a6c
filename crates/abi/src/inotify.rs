// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the events of inotify(7), and the flags of inotify_add_watch(2) and inotify_init1(2).

/// Was read.
pub const IN_ACCESS: u32 = 0x1;
/// Was written or cut.
pub const IN_MODIFY: u32 = 0x2;
/// Its attributes changed.
pub const IN_ATTRIB: u32 = 0x4;
/// A file open for writing was closed.
pub const IN_CLOSE_WRITE: u32 = 0x8;
/// A file not open for writing was closed.
pub const IN_CLOSE_NOWRITE: u32 = 0x10;
/// Was opened.
pub const IN_OPEN: u32 = 0x20;
/// An entry was moved away.
pub const IN_MOVED_FROM: u32 = 0x40;
/// An entry was moved in.
pub const IN_MOVED_TO: u32 = 0x80;
/// An entry was made.
pub const IN_CREATE: u32 = 0x100;
/// An entry was removed.
pub const IN_DELETE: u32 = 0x200;
/// The watched inode is gone.
pub const IN_DELETE_SELF: u32 = 0x400;
/// The watched inode was moved.
pub const IN_MOVE_SELF: u32 = 0x800;
/// Any close.
pub const IN_CLOSE: u32 = IN_CLOSE_WRITE | IN_CLOSE_NOWRITE;
/// Any move of an entry.
pub const IN_MOVE: u32 = IN_MOVED_FROM | IN_MOVED_TO;
/// Every event that can be asked for.
pub const IN_ALL_EVENTS: u32 = 0xfff;

/// The file system was unmounted; only reported.
pub const IN_UNMOUNT: u32 = 0x2000;
/// Events were lost; only reported.
pub const IN_Q_OVERFLOW: u32 = 0x4000;
/// The watch is gone; only reported.
pub const IN_IGNORED: u32 = 0x8000;
/// Watch it only if it is a directory.
pub const IN_ONLYDIR: u32 = 0x0100_0000;
/// Do not follow a link in the last place.
pub const IN_DONT_FOLLOW: u32 = 0x0200_0000;
/// No events of children that were unlinked.
pub const IN_EXCL_UNLINK: u32 = 0x0400_0000;
/// Fail if there is a watch already.
pub const IN_MASK_CREATE: u32 = 0x1000_0000;
/// Add to the mask of a watch there is.
pub const IN_MASK_ADD: u32 = 0x2000_0000;
/// The subject is a directory; only reported.
pub const IN_ISDIR: u32 = 0x4000_0000;
/// One event, then the watch goes.
pub const IN_ONESHOT: u32 = 0x8000_0000;

/// The descriptor is closed on exec (inotify_init1).
pub const IN_CLOEXEC: u32 = 0o2000000;
/// Reading an empty queue does not wait (inotify_init1).
pub const IN_NONBLOCK: u32 = 0o4000;
