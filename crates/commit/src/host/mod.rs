// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the calls on files and directories of the host, reads facts about its processes, holds the
//! directory of a view open, and chooses the prefix of the view's marks.
//!
//! Other users may change names meanwhile, so these modules work by descriptors, follow no symbolic
//! link, and compare inodes. They know nothing of commits.

pub(crate) mod descriptors;
pub(crate) mod dir_stack;
pub(crate) mod filesystems;
pub(crate) mod held_file;
pub(crate) mod marks;
pub(crate) mod names;
pub(crate) mod process;
pub(crate) mod remove;
pub(crate) mod rename;
pub(crate) mod tree;
pub(crate) mod view_dir;
