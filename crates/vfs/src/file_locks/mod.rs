// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the lock context of an inode, breaks leases that conflict with an access, and ends locks
//! and leases when a file is closed.
//!
//! # Kernel analogue
//! `locks_get_lock_context`, `locks_inode_context`, `__break_lease`, `locks_remove_file`.

mod close;
mod leases;

pub(crate) use leases::{CHANGE, LeasedInode};

use crate::inode::{Inode, flag};
use crate::instance::Shared;
use crate::lock::LockContext;
use openpath_abi::Errno;
use std::sync::Arc;

impl Shared {
    /// Whether the inode may have locks, so that a close must look. With the switch off, by the
    /// pointer and not by the flag.
    #[inline(always)]
    pub(crate) fn has_locks(&self, inode: &Inode) -> bool {
        if self.config.tuning.lock_context_flag {
            inode.flags() & flag::LOCK_CONTEXT != 0
        } else {
            inode.locks().is_some()
        }
    }

    /// The lock context of an inode; makes one if it had none, and `dev` says on which device it
    /// is.
    ///
    /// # Errors
    /// What `dev` meets.
    #[inline]
    pub(crate) fn lock_context<'a>(
        &self,
        inode: &'a Inode,
        dev: impl FnOnce() -> Result<u64, Errno>,
    ) -> Result<&'a Arc<LockContext>, Errno> {
        let context = match inode.locks() {
            Some(context) => context,
            None => self.new_lock_context(inode, dev()?),
        };
        // R1 of `lock`. The thread that set the context may not have set the flag yet.
        if inode.flags() & flag::LOCK_CONTEXT == 0 {
            inode.set_flags(flag::LOCK_CONTEXT);
        }
        Ok(context)
    }

    #[cold]
    fn new_lock_context<'a>(&self, inode: &'a Inode, dev: u64) -> &'a Arc<LockContext> {
        let new = Arc::new(LockContext::new((dev, inode.ino())));
        let context = inode.rare().locks.set(Arc::clone(&new));
        if Arc::ptr_eq(context, &new) {
            self.locks.enter(context);
        }
        context
    }
}
