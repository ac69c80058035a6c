// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who keeps something of a tree beside the core, and is told when the tree changes without it: a
//! tree that is stacked on it, a face that shows it.
//!
//! # Kernel analogue
//! None: there, what is below an overlay must not change by itself.
//!
//! # Rules
//! R1. They are told after the core has forgotten, by the thread that has it forgotten, which holds
//!     none of the core's locks.
//! R2. They are kept weakly: who goes is told no more.

use crate::inode::Inode;
use std::sync::Arc;

/// Hears what a backend has forgotten of its tree: by the calls of [`crate::SuperBlock`]
/// of that kind.
///
/// Any thread may call it, several at once; it must not wait for a call that is going on in the
/// tree. What the tree's own calls change is not told.
pub trait InvalidationListener: Send + Sync + 'static {
    /// What `name` in `dir` means may have changed ([`crate::SuperBlock::forget_name`]).
    fn name(&self, dir: &Arc<Inode>, name: &[u8]);

    /// The same of every name in `dir` ([`crate::SuperBlock::forget_names_of`]).
    fn names_of(&self, dir: &Arc<Inode>);

    /// The same of every name of the tree ([`crate::SuperBlock::forget_all`]).
    fn all(&self);

    /// Attributes or data of `inode` changed; its attributes say so already
    /// ([`crate::SuperBlock::forget_attributes`], [`crate::SuperBlock::forget_permission`]).
    fn attributes(&self, inode: &Arc<Inode>);
}
