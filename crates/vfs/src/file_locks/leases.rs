// SPDX-License-Identifier: MIT OR Apache-2.0
//! Breaks the leases of a file that conflict with an access, waits until their holders let go or
//! run out of time, and ends a lease with its open file.
//!
//! # Kernel analogue
//! `__break_lease`, `locks_remove_lease`.

use crate::file_ops::OwnerEx;
use crate::inode::{Inode, flag};
use crate::instance::Shared;
use crate::lease::{BreakDeadline, LeaseFlavor, LeasedFile, Notices, PendingAccess, Table};
use crate::lock::LockContext;
use crate::lock_call::LockKind;
use crate::lock_order::LeaseTable;
use openpath_abi::Errno;
use openpath_sync::{MutexGuard, WaitError, Waiter};
use std::time::{Duration, Instant};

/// What a call that changes names wants of the leases on a directory or file.
pub(crate) const CHANGE: PendingAccess = PendingAccess {
    flavor: LeaseFlavor::Delegation,
    kind: LockKind::Write,
};

/// The file that a table of leases belongs to.
#[derive(Clone, Copy)]
pub(crate) struct LeasedInode<'a> {
    pub(crate) vfs: &'a Shared,
    pub(crate) inode: &'a Inode,
    pub(crate) context: &'a LockContext,
}

impl<'a> LeasedInode<'a> {
    /// Locks the table, when those whose time is up are gone from it.
    pub(crate) fn lock(self) -> MutexGuard<'a, Table, LeaseTable> {
        let mut table = self.context.leases.lock();
        table.expire(&self);
        table
    }
}

impl LeasedFile for LeasedInode<'_> {
    fn notices(&self) -> &Notices {
        &self.vfs.notices
    }

    fn owner(&self, file: u32) -> (OwnerEx, u32) {
        let body = self.vfs.dcache.store.file(file);
        let signal = body.signal.get();
        let owner = OwnerEx {
            kind: signal & 0xff,
            pid: body.owner.get().cast_signed(),
        };
        (owner, signal >> 8)
    }

    fn disown(&self, file: u32) {
        let body = self.vfs.dcache.store.file(file);
        body.owner.set(0);
        body.signal.set(0);
    }

    fn none_left(&self) {
        self.inode.clear_flags(flag::LEASED);
    }

    fn place(&self) -> (u64, u64) {
        (self.context.dev(), self.inode.ino())
    }
}

impl Shared {
    /// Whether the inode may have leases, so that an open must look (R1 of `lease`). With the
    /// switch off, reads the pointer to the context first.
    #[inline(always)]
    pub(crate) fn has_leases(&self, inode: &Inode) -> bool {
        (self.config.tuning.lock_context_flag || inode.locks().is_some())
            && inode.flags() & flag::LEASED != 0
    }

    /// The time limit for holders that are asked now.
    fn break_until(&self) -> BreakDeadline {
        match self.config.sysctl.lease_break_time {
            0 => BreakDeadline::Ever,
            seconds => BreakDeadline::At(Instant::now() + Duration::from_secs(seconds.into())),
        }
    }

    /// Breaks the leases that conflict with `want`, and with `wait`, the sleeping thread, waits for
    /// them to go (`__break_lease`).
    ///
    /// # Errors
    /// `EWOULDBLOCK` (without `wait`), `EINTR`.
    #[cold]
    pub(crate) fn break_leases(
        &self,
        inode: &Inode,
        want: PendingAccess,
        wait: Option<&Waiter>,
    ) -> Result<(), Errno> {
        let Some(context) = inode.locks() else {
            return Ok(());
        };
        let of = LeasedInode {
            vfs: self,
            inode,
            context,
        };
        loop {
            // The waiting thread ends leases that are out of time, and breaks those that came
            // meanwhile.
            let mut table = of.lock();
            if !table.minds(want) {
                return Ok(());
            }
            table.ask(want, self.break_until(), &of);
            let sleeper = wait.ok_or(Errno::EWOULDBLOCK)?;
            let until = table.next_end(want);
            let waited = context
                .leases
                .wait(table, |table| &mut table.queue, sleeper, until);
            if matches!(waited, Err((_, WaitError::Interrupted))) {
                return Err(Errno::EINTR);
            }
        }
    }
}

impl Shared {
    /// Ends the lease of an open file that has lost its last reference.
    pub(crate) fn end_lease(&self, inode: &Inode, file: u32) {
        if let (true, Some(context)) = (inode.flags() & flag::LEASED != 0, inode.locks()) {
            let of = LeasedInode {
                vfs: self,
                inode,
                context,
            };
            of.lock().change(file, None, &of);
        }
    }
}
