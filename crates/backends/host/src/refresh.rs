// SPDX-License-Identifier: MIT OR Apache-2.0
//! Refreshes an inode's attributes and access control lists from the host.
//!
//! # Rules
//! R1. `HostAttr` is held over the look at the host and the update that follows, so that the later
//!     one of two looks wins. The other locks are held over nothing that waits.
//! R2. The lists of a regular file are read when they are first needed, those of other inodes
//!     before they can be found. They are read again whenever the change time moved: the host moves
//!     it with each change of a list. A change time less than [`SETTLED`] old may not move with the
//!     next change, so the lists are read again until it is older.

use crate::acl::{AclTarget, WAIT, owner_only, stored_acls};
use crate::node::{Alias, Node};
use crate::options::Policy;
use crate::pool::HandleKind;
use crate::sys::{HostStat, stat_at};
use crate::tree::AtimeSource;
use openpath_abi::{Errno, Timespec, mode};
use openpath_vfs::{Acls, Attr, Inode, SetAttr, WaitMode};
use rustix::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// From this age on the next change moves a change time for certain.
const SETTLED: Duration = Duration::from_secs(1);

/// Whether nothing but the access time changed.
pub(crate) fn same_but_access(before: &Attr, now: &Attr) -> bool {
    let atime = now.atime;
    *now == Attr { atime, ..*before }
}
/// A change time as one number.
fn nanoseconds(time: Timespec) -> u64 {
    let seconds = time.sec.cast_unsigned();
    seconds
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.nsec.into())
}

/// Whether the next change moves this change time (R2).
fn is_settled(ctime: Timespec) -> bool {
    let since = u64::try_from(ctime.sec).unwrap_or(0);
    let since = SystemTime::UNIX_EPOCH + Duration::new(since, ctime.nsec);
    SystemTime::now()
        .duration_since(since)
        .is_ok_and(|age| age > SETTLED)
}

impl Node {
    /// The host's attributes of the file now.
    ///
    /// # Errors
    /// Those of the host; `ESTALE` if it is no longer where it was found.
    pub(crate) fn stat(self: &Arc<Self>, wait_mode: WaitMode) -> Result<HostStat, Errno> {
        if self.stores_attr() {
            let handle = self.handle(HandleKind::Read, wait_mode)?;
            let stat = stat_at(&*handle, b"", wait_mode)?;
            return self.tree.apply_ownership(stat, Some(&handle));
        }
        if let Some(handle) = self.held_handle(HandleKind::Path) {
            return self
                .tree
                .apply_ownership(stat_at(&*handle, b"", wait_mode)?, None);
        }
        if wait_mode == WaitMode::Cached {
            let handle = self.handle(HandleKind::Path, wait_mode)?;
            return self
                .tree
                .apply_ownership(stat_at(&*handle, b"", wait_mode)?, None);
        }
        let mut end = Errno::ESTALE;
        for alias in self.aliases() {
            match self.stat_alias(&alias, wait_mode) {
                Ok(stat) => return self.tree.apply_ownership(stat, None),
                Err(Errno::ESTALE) => {}
                Err(Errno::EACCES) => end = Errno::EACCES,
                Err(errno) => return Err(errno),
            }
        }
        Err(end)
    }

    /// The host's attributes of the file under one of its names.
    ///
    /// # Errors
    /// `ESTALE` if it is not there, those of the host.
    pub(crate) fn stat_alias(&self, alias: &Alias, wait_mode: WaitMode) -> Result<HostStat, Errno> {
        let parent = alias.parent.handle(HandleKind::Path, wait_mode)?;
        match stat_at(&*parent, &alias.name, wait_mode) {
            Ok(stat) if stat.id == self.id => Ok(stat),
            Ok(_) | Err(Errno::ENOENT) => Err(Errno::ESTALE),
            Err(errno) => Err(errno),
        }
    }

    /// Refreshes the attributes, after a change of ours or because others may have made one.
    ///
    /// # Errors
    /// As [`Node::stat`].
    pub(crate) fn refresh(
        self: &Arc<Self>,
        inode: &Inode,
        wait_mode: WaitMode,
        access: AtimeSource,
    ) -> Result<(), Errno> {
        self.refresh_all(inode, wait_mode, (access, false))
    }

    /// As [`Node::refresh_after_change`] after a change of the access control lists.
    pub(crate) fn refresh_after_acl_change(self: &Arc<Self>, inode: &Inode) {
        let how = (self.tree.atime_source(), true);
        let _seen_later = self.refresh_all(inode, WaitMode::Wait, how);
    }

    /// As [`Node::refresh`]; with `acls` the access control lists as well, whatever the times say.
    pub(crate) fn refresh_all(
        self: &Arc<Self>,
        inode: &Inode,
        wait_mode: WaitMode,
        (access, acls): (AtimeSource, bool),
    ) -> Result<(), Errno> {
        let held = match wait_mode {
            WaitMode::Wait => self.attr.lock(),
            WaitMode::Cached => self.attr.try_lock().ok_or(Errno::EAGAIN)?,
        };
        let stat = self.stat(wait_mode)?;
        self.apply_stat(inode, &stat, access);
        self.refresh_acls(inode, &stat, acls);
        self.refreshed_at.set(self.tree.change_count.add(1) + 1);
        drop(held);
        Ok(())
    }

    /// As [`Node::refresh`] after a change that succeeded: an error is ignored.
    pub(crate) fn refresh_after_change(self: &Arc<Self>, inode: &Inode) {
        let _seen_later = self.refresh(inode, WaitMode::Wait, self.tree.atime_source());
    }

    /// Sets the core's attributes to the host's. They are locked.
    fn apply_stat(&self, inode: &Inode, stat: &HostStat, access: AtimeSource) {
        let known = inode.attr();
        let mut attr = stat.attr;
        if access == AtimeSource::Host {
            self.has_own_atime.set(0);
        } else if self.has_own_atime.get() != 0 {
            attr.atime = known.atime;
        }
        if known != attr {
            inode.update(|words| *words = attr);
        }
    }

    /// Notes that a read here moved the access time.
    pub(crate) fn note_read(&self, inode: &Inode, change: &SetAttr) {
        let held = self.attr.lock();
        inode.apply(change);
        self.has_own_atime.set(1);
        drop(held);
    }

    /// Applies a look at the host that began when the tree's count of changes was `seen`, unless a
    /// refresh came later.
    pub(crate) fn apply_if_newer(
        &self,
        inode: &Inode,
        stat: &HostStat,
        seen: u64,
        acls: impl FnOnce() -> Acls,
    ) {
        let held = self.attr.lock();
        if self.refreshed_at.get() <= seen {
            let before = inode.attr();
            self.apply_stat(inode, stat, self.tree.atime_source());
            if !inode.are_acls_unread()
                && self.may_acls_differ(stat)
                && self.tree.options.policy != Policy::Exclusive
            {
                let acls = acls();
                self.record_acl_time(stat);
                if inode.acls() != acls {
                    inode.put_acls(acls);
                    self.unreported.set(1);
                }
            }
            if !same_but_access(&before, &inode.attr()) {
                self.unreported.set(1);
            }
        }
        drop(held);
    }

    /// Reads the lists again if they may have changed (R2). The attributes are locked.
    pub(crate) fn refresh_acls(self: &Arc<Self>, inode: &Inode, stat: &HostStat, forced: bool) {
        if !self.tree.has_acls() || stat.kind() == mode::S_IFLNK {
            return;
        }
        let ours = self.tree.options.policy == Policy::Exclusive;
        if !forced && (ours || inode.are_acls_unread() || !self.may_acls_differ(stat)) {
            return;
        }
        let acls = self.read_acls(stat);
        self.record_acl_time(stat);
        if inode.are_acls_unread() || inode.acls() != acls {
            inode.put_acls(acls);
        }
    }

    /// Whether the lists may have changed since they were read.
    pub(crate) fn may_acls_differ(&self, stat: &HostStat) -> bool {
        self.acls_ctime.get() != nanoseconds(stat.attr.ctime)
    }

    /// Notes when the lists were read (R2).
    pub(crate) fn record_acl_time(&self, stat: &HostStat) {
        let ctime = stat.attr.ctime;
        let read = if is_settled(ctime) {
            nanoseconds(ctime)
        } else {
            0
        };
        self.acls_ctime.set(read);
    }

    /// As `InodeOps::read_acls`. The look that it takes may see a change by others, which is
    /// reported with their event.
    pub(crate) fn read_deferred_acls(self: &Arc<Self>, inode: &Inode) {
        let held = self.attr.lock();
        if !inode.are_acls_unread() {
            return;
        }
        match self.stat(WaitMode::Wait) {
            Ok(stat) => {
                let before = inode.attr();
                self.apply_stat(inode, &stat, self.tree.atime_source());
                if !same_but_access(&before, &inode.attr()) {
                    self.unreported.set(1);
                }
                self.refresh_acls(inode, &stat, true);
            }
            Err(_) => inode.put_acls(owner_only(inode.mode())),
        }
        drop(held);
    }

    fn read_acls(self: &Arc<Self>, stat: &HostStat) -> Acls {
        if self.stores_attr() {
            let kept = self
                .handle(HandleKind::Read, WAIT)
                .and_then(|file| stored_acls(&*file));
            return kept.unwrap_or_else(|_| owner_only(stat.attr.mode));
        }
        if let Some(handle) = self.held_handle(HandleKind::Path) {
            return self.tree.acls(stat, AclTarget::Fd(handle.as_fd()));
        }
        for alias in self.aliases() {
            let Ok(parent) = alias.parent.handle(HandleKind::Path, WAIT) else {
                continue;
            };
            if stat_at(&*parent, &alias.name, WAIT).is_ok_and(|there| there.id == self.id) {
                return self.tree.acls(stat, AclTarget::Name(&parent, &alias.name));
            }
        }
        owner_only(stat.attr.mode)
    }
}
