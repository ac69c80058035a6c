// SPDX-License-Identifier: MIT OR Apache-2.0
//! Breaks leases before a task's open or truncate(2), and delegations before a call that changes a
//! name or an attribute, and waits for their holders (`file_locks::leases`).
//!
//! # Kernel analogue
//! `break_lease`, `try_break_deleg`, `break_deleg_wait`.

use super::Core;
use crate::file_locks::{CHANGE, LeasedInode};
use crate::file_ops::TRIED;
use crate::inode::Inode;
use crate::lease::{LeaseFlavor, PendingAccess};
use crate::lock_call::LockKind;
use crate::reason::Reason;
use crate::steps::Check;
use openpath_abi::fcntl::{O_ACCMODE, O_NONBLOCK, O_RDONLY};
use openpath_abi::{Errno, OFlags};
use openpath_sync::WaitError;

impl Core {
    /// Breaks the leases that conflict with an open with these flags, and waits for them, except
    /// with `O_NONBLOCK` or in a call that must not wait.
    ///
    /// # Errors
    /// `EAGAIN` (it may not wait), `EINTR`.
    #[cold]
    pub(crate) fn break_for_open(&self, inode: &Inode, flags: OFlags) -> Result<(), Errno> {
        let want = PendingAccess {
            flavor: LeaseFlavor::Lease,
            kind: wanted(flags),
        };
        let waits = !flags.intersects(O_NONBLOCK | TRIED);
        let asked = self
            .vfs
            .break_leases(inode, want, waits.then_some(&self.sleeper));
        if asked == Err(Errno::EWOULDBLOCK) && flags.contains(TRIED) && !flags.contains(O_NONBLOCK)
        {
            return Err(self.give_up(Reason::Leased));
        }
        asked
    }

    /// Whether an open with these flags would wait for leases; for explaining.
    ///
    /// # Errors
    /// `EAGAIN`, as the open.
    pub(crate) fn would_break(&self, inode: &Inode, flags: OFlags) -> Result<bool, Errno> {
        let (true, Some(context)) = (self.vfs.has_leases(inode), inode.locks()) else {
            return Ok(false);
        };
        let want = PendingAccess {
            flavor: LeaseFlavor::Lease,
            kind: wanted(flags),
        };
        let of = LeasedInode {
            vfs: &self.vfs,
            inode,
            context,
        };
        let minds = of.lock().minds(want);
        match minds {
            true if flags.contains(O_NONBLOCK) => Err(self.refused(Check::Leased, Errno::EAGAIN)),
            true if flags.contains(TRIED) => Err(self.give_up(Reason::Leased)),
            minds => Ok(minds),
        }
    }

    /// Breaks the leases that conflict with truncate(2), and waits for them.
    ///
    /// # Errors
    /// `EINTR`.
    pub(crate) fn break_for_truncate(&self, inode: &Inode) -> Result<(), Errno> {
        if !self.vfs.has_leases(inode) {
            return Ok(());
        }
        let want = PendingAccess {
            flavor: LeaseFlavor::Lease,
            kind: LockKind::Write,
        };
        self.vfs.break_leases(inode, want, Some(&self.sleeper))
    }
}

/// The kind of access of an open with these flags.
fn wanted(flags: OFlags) -> LockKind {
    if flags & O_ACCMODE == O_RDONLY {
        LockKind::Read
    } else {
        LockKind::Write
    }
}

impl Core {
    /// Breaks delegations on an inode that is about to change, with locks held (`try_break_deleg`).
    ///
    /// # Errors
    /// `EWOULDBLOCK`: there is one. The call releases its locks and waits
    /// ([`Core::past_delegations`]).
    #[inline]
    pub(crate) fn try_break(&self, inode: &Inode) -> Result<(), Errno> {
        if !self.vfs.has_leases(inode) {
            return Ok(());
        }
        self.note_delegation(inode)
    }

    #[cold]
    fn note_delegation(&self, inode: &Inode) -> Result<(), Errno> {
        let asked = self.vfs.break_leases(inode, CHANGE, None);
        if asked.is_err() {
            *self.delegated.borrow_mut() = inode.locks().cloned();
        }
        asked
    }

    /// Breaks delegations on a file that is about to be truncated, and does not wait.
    ///
    /// # Errors
    /// `EWOULDBLOCK`: there is one.
    pub(crate) fn ask_before_cut(&self, inode: &Inode) -> Result<(), Errno> {
        if !self.vfs.has_leases(inode) {
            return Ok(());
        }
        self.vfs.break_leases(inode, CHANGE, None)
    }

    /// Runs `act`, which locks directories, until no delegation is in the way any more (R4 of
    /// `lease`).
    ///
    /// # Errors
    /// Those of `act`; `EINTR`.
    pub(crate) fn past_delegations<T, E: From<Errno>>(
        &self,
        mut act: impl FnMut() -> Result<T, E>,
    ) -> Result<T, E> {
        loop {
            let done = act();
            if done.is_ok() || !self.awaited_delegation()? {
                return done;
            }
        }
    }

    /// Waits for the delegation that `act` met last, if any: whether the call must begin again
    /// (`break_deleg_wait`).
    ///
    /// # Errors
    /// `EINTR`.
    pub(crate) fn awaited_delegation(&self) -> Result<bool, Errno> {
        let Some(context) = self.delegated.take() else {
            return Ok(false);
        };
        let table = context.leases.lock();
        // A delegation that was given back and taken again since is not breaking: its holder would
        // never give it back.
        if !table.all_asked(CHANGE) {
            return Ok(true);
        }
        let until = table.next_end(CHANGE);
        // Once: the repeated call breaks delegations that came meanwhile, and ends those that are
        // out of time.
        let waited = context
            .leases
            .wait(table, |table| &mut table.queue, &self.sleeper, until);
        match waited {
            Err((_, WaitError::Interrupted)) => Err(Errno::EINTR),
            Ok(_) | Err((_, WaitError::TimedOut)) => Ok(true),
        }
    }
}
