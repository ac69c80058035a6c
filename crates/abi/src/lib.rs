// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the constants, the types of flags and the structs of Linux's file system calls: paths,
//! attributes, data, locks, mounts and events.
//!
//! Values are those of x86-64 Linux, as the system calls take and return them. Where a C library
//! differs (`O_LARGEFILE`), this is the kernel's value. Nothing here allocates or makes a system
//! call. `tests/libc.rs` checks the constants against the `libc` crate.

#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_debug_implementations)]

pub mod access;
pub mod caps;
pub mod dirent;
pub mod errno;
pub mod falloc;
pub mod fcntl;
mod flags;
pub mod how;
pub mod inotify;
pub mod limits;
pub mod lock;
pub mod mode;
pub mod mount;
pub mod poll;
pub mod rename;
pub mod resolve;
pub mod stat;
pub mod statx;
pub mod time;
pub mod xattr;

pub use errno::Errno;
pub use fcntl::{AtFlags, OFlags};
pub use how::OpenHow;
pub use lock::{Delegation, Flock};
pub use mode::Mode;
pub use mount::{MountAttrFlags, MoveMountFlags, UmountFlags};
pub use rename::RenameFlags;
pub use resolve::ResolveFlags;
pub use stat::{Stat, StatFs};
pub use statx::{Statx, StatxMask};
pub use time::{TimeSet, Timespec};
pub use xattr::XattrFlags;
