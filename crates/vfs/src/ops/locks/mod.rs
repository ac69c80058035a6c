// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the system calls on file locks: fcntl(2) and flock(2). [`LockWait`] is a wait that is
//! polled and blocks no thread. [`LockFace`] is for a front end such as the FUSE server, which
//! locks for clients of its own. Locks are listed as `/proc/locks` does.
//!
//! The module `lock` keeps the locks of a file; this one makes requests to it out of calls.

mod args;
mod calls;
mod face;
mod flock;
mod later;
mod report;

pub use face::LockFace;
pub use later::LockWait;
