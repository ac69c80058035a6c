// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the commands of fcntl(2) that take, change, give back and report a lease or
//! delegation: `F_SETLEASE`, `F_GETLEASE`, `F_SETDELEG` and `F_GETDELEG`.
//!
//! # Kernel analogue
//! `fcntl_setlease`, `fcntl_setdeleg`, `vfs_setlease`, `generic_add_lease`, `generic_delete_lease`,
//! `fcntl_getlease`, `locks_remove_lease`.

use crate::config::Profile;
use crate::file::Filp;
use crate::file_locks::LeasedInode;
use crate::file_ops::{Fd, OwnerEx};
use crate::inode::{Inode, flag};
use crate::lease::{Lease, LeaseFlavor, Table};
use crate::lock_call::LockKind;
use crate::task::{Core, Task};
use openpath_abi::fcntl::F_OWNER_PID;
use openpath_abi::{Delegation, Errno, caps, mode};

/// A kind as callers have it; `None`: no lease.
fn kind_of(kind: i32) -> Result<Option<LockKind>, Errno> {
    let kind = i16::try_from(kind).map_err(|_| Errno::EINVAL)?;
    LockKind::of(kind)
}

impl Task {
    /// Takes a delegation on the file or directory at `fd`, changes its kind, or gives it back, as
    /// [`Task::fcntl`] with `F_SETLEASE` does with leases. A change of the file's names or
    /// attributes breaks it too. On a directory, a name that is made, removed or renamed in it
    /// does; there only `F_RDLCK` is allowed. Linux: F_SETDELEG(2const).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (before Linux 6.19; flags; kind).
    /// `EACCES` (neither the owner of the file nor `CAP_LEASE`).
    /// `EINVAL` (neither regular file nor directory; a directory for `F_WRLCK`).
    /// `EAGAIN` (opens or other leases are in the way; nothing to give back), `EINVAL` (leases are
    /// switched off).
    #[doc(alias = "F_SETDELEG")]
    pub fn setdeleg(&self, fd: Fd, delegation: &Delegation) -> Result<(), Errno> {
        let file = self.core.fdget_full(fd)?;
        self.knows_delegations(delegation)?;
        let kind = kind_of(delegation.kind.into())?;
        file.set_lease(fd, LeaseFlavor::Delegation, kind)
    }

    /// The delegation of the open file at `fd`, or what it must become if a break is under way; its
    /// kind replaces the one in `delegation`. Linux: F_GETDELEG(2const).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (before Linux 6.19; flags).
    #[doc(alias = "F_GETDELEG")]
    pub fn getdeleg(&self, fd: Fd, delegation: &Delegation) -> Result<Delegation, Errno> {
        let file = self.core.fdget_full(fd)?;
        self.knows_delegations(delegation)?;
        let kind = file.lease(LeaseFlavor::Delegation)?;
        Ok(Delegation {
            kind: LockKind::raw(kind).cast_unsigned(),
            ..*delegation
        })
    }

    fn knows_delegations(&self, delegation: &Delegation) -> Result<(), Errno> {
        let known = self.core.vfs.config.profile >= Profile::V7_2;
        if !known || delegation.flags != 0 || delegation.pad != 0 {
            return Err(Errno::EINVAL);
        }
        Ok(())
    }
}

impl Filp<'_> {
    /// `F_SETLEASE`.
    ///
    /// # Errors
    /// `EINVAL` (a directory, since Linux 6.19; kind).
    /// `EACCES` (neither the owner of the file nor `CAP_LEASE`), `EINVAL` (not a regular file).
    /// `EAGAIN` (opens or other leases are in the way; nothing to give back), `EINVAL` (leases are
    /// switched off).
    pub(crate) fn setlease(&self, fd: Fd, kind: i32) -> Result<(), Errno> {
        let early = self.core.vfs.config.profile >= Profile::V7_2;
        if early && self.inode()?.is_dir() {
            return Err(Errno::EINVAL);
        }
        self.set_lease(fd, LeaseFlavor::Lease, kind_of(kind)?)
    }

    /// `F_GETLEASE`: `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub(crate) fn getlease(&self) -> Result<u32, Errno> {
        let kind = self.lease(LeaseFlavor::Lease)?;
        Ok(u32::from(LockKind::raw(kind).cast_unsigned()))
    }

    fn lease(&self, flavor: LeaseFlavor) -> Result<Option<LockKind>, Errno> {
        let inode = self.inode()?;
        let Some(context) = inode.locks() else {
            return Ok(None);
        };
        let of = LeasedInode {
            vfs: &self.core.vfs,
            inode,
            context,
        };
        let table = of.lock();
        let own = table.get(self.file().id());
        Ok(own.filter(|l| l.flavor == flavor).and_then(Lease::target))
    }

    /// Takes or changes a lease, or gives one back (`vfs_setlease`).
    fn set_lease(&self, fd: Fd, flavor: LeaseFlavor, kind: Option<LockKind>) -> Result<(), Errno> {
        let (core, inode) = (self.core, self.inode()?);
        {
            let cred = core.cred();
            if inode.ids().0 != cred.fsuid && !cred.capable(caps::CAP_LEASE) {
                return Err(Errno::EACCES);
            }
        }
        let possible = match inode.kind() {
            mode::S_IFREG => true,
            mode::S_IFDIR => flavor == LeaseFlavor::Delegation && kind != Some(LockKind::Write),
            _ => false,
        };
        if !possible {
            return Err(Errno::EINVAL);
        }
        match kind {
            None => self.give_lease_back(inode),
            Some(kind) => self.take_lease(fd, inode, flavor, kind),
        }
    }

    fn give_lease_back(&self, inode: &Inode) -> Result<(), Errno> {
        let context = inode.locks().ok_or(Errno::EAGAIN)?;
        let of = LeasedInode {
            vfs: &self.core.vfs,
            inode,
            context,
        };
        // A lease that is out of time is there until the next look at the table.
        if of.context.leases.lock().change(self.file().id(), None, &of) {
            Ok(())
        } else {
            Err(Errno::EAGAIN)
        }
    }

    fn take_lease(
        &self,
        fd: Fd,
        inode: &Inode,
        flavor: LeaseFlavor,
        kind: LockKind,
    ) -> Result<(), Errno> {
        let (core, own) = (self.core, self.file().id());
        // R5 of `lease`.
        let _still = match flavor {
            LeaseFlavor::Delegation => Some(inode.try_lock_names().ok_or(Errno::EAGAIN)?),
            LeaseFlavor::Lease => None,
        };
        self.note_own_locks();
        let of = LeasedInode {
            vfs: &core.vfs,
            inode,
            context: core.vfs.lock_context(inode, || Ok(self.mount()?.dev))?,
        };
        let mut table = of.lock();
        // R1 of `lease`: first the flag, then a look at the file's opens.
        inode.set_flags(flag::LEASED);
        let taken = if is_open(core, self, inode, kind) || is_minded(own, kind, &table) {
            Err(Errno::EAGAIN)
        } else if table.change(own, Some(kind), &of) {
            table.called_by(own, fd);
            Ok(())
        } else if !core.vfs.config.sysctl.leases_enable {
            Err(Errno::EINVAL)
        } else {
            table.add(own, Lease::new(flavor, kind, core.pid.get(), fd));
            Ok(())
        };
        match taken {
            // Before anybody can ask for it.
            Ok(()) => self.own_by_default(),
            Err(_) if table.is_empty() => inode.clear_flags(flag::LEASED),
            Err(_) => {}
        }
        taken
    }

    /// Has the file signal the task's process, unless it signals one already (`f_setown`).
    fn own_by_default(&self) {
        if self.body().owner.get() == 0 {
            self.set_owner(OwnerEx {
                kind: F_OWNER_PID,
                pid: self.core.pid.get(),
            });
        }
    }
}

/// Whether opens are in the way of a lease (`check_conflicting_open`): for reading, any for
/// writing; for writing, any other.
fn is_open(core: &Core, file: &Filp<'_>, inode: &Inode, kind: LockKind) -> bool {
    if inode.is_dir() {
        return false;
    }
    let store = &core.vfs.dcache.store;
    let opens = store.find_opens(file.file().pin(), |entry| store.has_payload(entry, inode));
    let Some(opens) = opens else { return true };
    match kind {
        LockKind::Read => opens.writers,
        LockKind::Write => opens.others || inode.is_write_denied(),
    }
}

/// Whether another open file's lease conflicts with this kind.
fn is_minded(own: u32, kind: LockKind, table: &Table) -> bool {
    let mut others = table.others(own);
    match kind {
        LockKind::Write => others.next().is_some(),
        LockKind::Read => others.any(|lease| lease.target().is_none()),
    }
}
