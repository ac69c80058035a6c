// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the trait by which a stacked tree or a server is told that names or attributes of a tree
//! changed without the core, so that it can drop what it keeps of them.
//!
//! # Kernel analogue
//! None: there, what is below an overlay must not change by itself.
//!
//! # Rules
//! R1. Listeners are called after the core has invalidated its own state, by the same thread, with
//!     none of the core's locks held.
//! R2. They are kept weakly: a dropped listener is called no more.

use crate::inode::Inode;
use std::sync::Arc;

/// A listener for the invalidations of a tree, by the calls of [`crate::SuperBlock`] of that kind.
///
/// Any thread may call it, several at once; it must not wait for a call under way in the tree.
/// Changes by the tree's own calls are not reported.
pub trait InvalidationListener: Send + Sync + 'static {
    /// The meaning of `name` in `dir` may have changed ([`crate::SuperBlock::forget_name`]).
    fn name(&self, dir: &Arc<Inode>, name: &[u8]);

    /// The same of every name in `dir` ([`crate::SuperBlock::forget_names_of`]).
    fn names_of(&self, dir: &Arc<Inode>);

    /// The same of every name of the tree ([`crate::SuperBlock::forget_all`]).
    fn all(&self);

    /// Attributes or data of `inode` changed; its attributes say so already
    /// ([`crate::SuperBlock::forget_attributes`], [`crate::SuperBlock::forget_permission`]).
    fn attributes(&self, inode: &Arc<Inode>);
}
