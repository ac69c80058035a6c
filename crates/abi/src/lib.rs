// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and layouts of the Linux system calls that open and walk paths: plain constants and
//! structs.
//!
//! Values are those of x86-64 Linux, as the system calls take and return them. Where a C library
//! differs (`O_LARGEFILE`), this is the kernel's value. Nothing here allocates, calls or decides;
//! `tests/libc.rs` checks every constant against the `libc` crate.

#![no_std]
#![forbid(unsafe_code)]

pub mod access;
pub mod caps;
pub mod dirent;
pub mod errno;
pub mod falloc;
pub mod fcntl;
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
pub use how::OpenHow;
pub use lock::{Delegation, Flock};
pub use stat::{Stat, StatFs};
pub use statx::Statx;
pub use time::{TimeSet, Timespec};
