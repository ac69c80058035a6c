// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls on locks: fcntl(2), flock(2), those that wait without a thread, and those of a face.
//! What they do to the locks of a file is in `lock`.

mod args;
mod calls;
mod face;
mod flock;
mod later;
mod report;

pub use face::LockFace;
pub use later::LockWait;
