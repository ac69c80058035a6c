// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lets a test make calls of its own thread fail as file systems do (sync, attributes, rename
//! flags, hard links), and act as another user after each copy.

pub use crate::host::filesystems::seam::fail_next_sync;
pub use crate::host::held_file::seam::fail_next_xattr;
pub use crate::host::rename::seam::{lack_hard_links, lack_rename_flags};

/// What is called with a name.
pub type Hook = Box<dyn FnMut(&[u8])>;

/// Calls this with the name of each copy of this thread.
pub fn after_each_copy(hook: Option<Hook>) {
    crate::copies::copy::seam::set(hook);
}
