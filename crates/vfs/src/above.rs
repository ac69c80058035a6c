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

use crate::inode::{Inode, shield};
use crate::superblock::SuperBlock;
use crate::weak_list::remember;
use std::sync::{Arc, Weak};

/// Hears what a backend has forgotten of its tree: of the calls of [`SuperBlock`] of that kind.
///
/// Any thread may call it, several at once; it must not wait for a call that is going on in the
/// tree. What the tree's own calls change is not told.
pub trait Above: Send + Sync + 'static {
    /// What `name` in `dir` means may have changed ([`SuperBlock::forget_name`]).
    fn name(&self, dir: &Arc<Inode>, name: &[u8]);

    /// The same of every name in `dir` ([`SuperBlock::forget_names_of`]).
    fn names_of(&self, dir: &Arc<Inode>);

    /// The same of every name of the tree ([`SuperBlock::forget_all`]).
    fn all(&self);

    /// Attributes or data of `inode` changed; its attributes say so already
    /// ([`SuperBlock::forget_attributes`], [`SuperBlock::forget_permission`]).
    fn attributes(&self, inode: &Arc<Inode>);
}

impl SuperBlock {
    /// From now on `above` is told what is forgotten of this tree, for as long as someone else
    /// keeps it.
    pub fn tell(&self, above: &Arc<dyn Above>) {
        remember(&mut self.above.lock(), Arc::downgrade(above));
    }

    /// Tells everyone above.
    pub(crate) fn tell_above(&self, tell: impl Fn(&dyn Above)) {
        let list: Vec<_> = {
            let list = self.above.lock();
            list.iter().filter_map(Weak::upgrade).collect()
        };
        for above in list {
            let _harms_nobody = shield(|| {
                tell(&*above);
                Ok(())
            });
        }
    }
}
