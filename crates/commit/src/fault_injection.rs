// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults of file systems, and actions of other users, that a test plants for its own thread.

pub use crate::filesystems::seam::fail_next_sync;
pub use crate::held_file::seam::fail_next_xattr;
pub use crate::rename::seam::{lack_hard_links, lack_rename_flags};

/// What is called with a name.
pub type Hook = Box<dyn FnMut(&[u8])>;

/// Calls this with the name of each copy of this thread.
pub fn after_each_copy(hook: Option<Hook>) {
    crate::copy::seam::set(hook);
}
