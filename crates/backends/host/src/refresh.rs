// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bringing an inode's attributes and lists up to date with what the host says.
//!
//! # Rules
//! R1. `HostAttr` is held over the look at the host and the update that follows, so that of two
//!     looks the later one stays. The other locks are held over nothing that waits.
//! R2. The lists of an inode are read before it can be found, and again whenever its change time
//!     moved: the host moves it with each change of a list. A change time less than [`SETTLED`] old
//!     may not move with the next change, so the lists are read again until it is older.

use crate::acl::{At, WAIT, closed, kept};
use crate::node::{Node, Place};
use crate::options::Policy;
use crate::pool::Use;
use crate::sys::{Facts, look};
use crate::tree::Access;
use openpath_abi::{Errno, Timespec, mode};
use openpath_vfs::{Acls, Attr, Inode, Patience, SetAttr};
use rustix::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How old a change time is that the next change moves for certain.
const SETTLED: Duration = Duration::from_secs(1);

/// Whether nothing changed but the time of access.
pub(crate) fn same_but_access(before: &Attr, now: &Attr) -> bool {
    let atime = now.atime;
    *now == Attr { atime, ..*before }
}
/// A change time as one number.
fn moment(time: Timespec) -> u64 {
    let seconds = time.sec.cast_unsigned();
    seconds
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.nsec.into())
}

/// Whether the next change moves this change time (R1).
fn is_settled(ctime: Timespec) -> bool {
    let since = u64::try_from(ctime.sec).unwrap_or(0);
    let since = SystemTime::UNIX_EPOCH + Duration::new(since, ctime.nsec);
    SystemTime::now()
        .duration_since(since)
        .is_ok_and(|age| age > SETTLED)
}

impl Node {
    /// What the host says of it now.
    ///
    /// # Errors
    /// Those of the host; `ESTALE` if it is no longer where it was found.
    pub(crate) fn stat(self: &Arc<Self>, patience: Patience) -> Result<Facts, Errno> {
        if self.is_owned_by_attribute() {
            let handle = self.handle(Use::Read, patience)?;
            let facts = look(&*handle, b"", patience)?;
            return self.tree.shown(facts, Some(&handle));
        }
        if let Some(handle) = self.held(Use::Path) {
            return self.tree.shown(look(&*handle, b"", patience)?, None);
        }
        if patience == Patience::Cached {
            let handle = self.handle(Use::Path, patience)?;
            return self.tree.shown(look(&*handle, b"", patience)?, None);
        }
        let mut end = Errno::ESTALE;
        for place in self.places() {
            match self.look_at(&place, patience) {
                Ok(facts) => return self.tree.shown(facts, None),
                Err(Errno::ESTALE) => {}
                Err(Errno::EACCES) => end = Errno::EACCES,
                Err(errno) => return Err(errno),
            }
        }
        Err(end)
    }

    /// What the host says of it under one of its names.
    ///
    /// # Errors
    /// `ESTALE` if it is not there, those of the host.
    pub(crate) fn look_at(&self, place: &Place, patience: Patience) -> Result<Facts, Errno> {
        let parent = place.parent.handle(Use::Path, patience)?;
        match look(&*parent, &place.name, patience) {
            Ok(facts) if facts.id == self.id => Ok(facts),
            Ok(_) | Err(Errno::ENOENT) => Err(Errno::ESTALE),
            Err(errno) => Err(errno),
        }
    }

    /// Brings the inode's attributes up to date, after a change of ours or because others may have
    /// made one.
    ///
    /// # Errors
    /// As [`Node::stat`].
    pub(crate) fn refresh(
        self: &Arc<Self>,
        inode: &Inode,
        patience: Patience,
        access: Access,
    ) -> Result<(), Errno> {
        self.refresh_all(inode, patience, (access, false))
    }

    /// As [`Node::settle`] after a change of the access control lists.
    pub(crate) fn settle_with_acls(self: &Arc<Self>, inode: &Inode) {
        let how = (self.tree.access(), true);
        let _seen_later = self.refresh_all(inode, Patience::Wait, how);
    }

    /// As [`Node::refresh`]; `acls`: its access control lists as well, whatever its times say.
    pub(crate) fn refresh_all(
        self: &Arc<Self>,
        inode: &Inode,
        patience: Patience,
        (access, acls): (Access, bool),
    ) -> Result<(), Errno> {
        let held = match patience {
            Patience::Wait => self.attr.lock(),
            Patience::Cached => self.attr.try_lock().ok_or(Errno::EAGAIN)?,
        };
        let facts = self.stat(patience)?;
        self.put(inode, &facts, access);
        self.renew_acls(inode, &facts, acls);
        self.changed.set(self.tree.changes.add(1) + 1);
        drop(held);
        Ok(())
    }

    /// As [`Node::refresh`] after a change that is made: whatever comes of it.
    pub(crate) fn settle(self: &Arc<Self>, inode: &Inode) {
        let _seen_later = self.refresh(inode, Patience::Wait, self.tree.access());
    }

    /// Brings the core's attributes up to what the host says. They are locked.
    fn put(&self, inode: &Inode, facts: &Facts, access: Access) {
        let known = inode.attr();
        let mut attr = facts.attr;
        if access == Access::Hosts {
            self.read_here.set(0);
        } else if self.read_here.get() != 0 {
            attr.atime = known.atime;
        }
        if known != attr {
            inode.update(|words| *words = attr);
        }
    }

    /// Reading here moved the access time.
    pub(crate) fn was_read(&self, inode: &Inode, change: &SetAttr) {
        let held = self.attr.lock();
        inode.apply(change);
        self.read_here.set(1);
        drop(held);
    }

    /// Uses a look at the host that began when the tree's count of changes was `seen`.
    pub(crate) fn learn(
        &self,
        inode: &Inode,
        facts: &Facts,
        seen: u64,
        acls: impl FnOnce() -> Acls,
    ) {
        let held = self.attr.lock();
        if self.changed.get() <= seen {
            let before = inode.attr();
            self.put(inode, facts, self.tree.access());
            if self.are_acls_due(facts) && self.tree.options.policy != Policy::Exclusive {
                let acls = acls();
                self.note_acls(facts);
                if inode.acls() != acls {
                    inode.put_acls(acls);
                    self.untold.set(1);
                }
            }
            if !same_but_access(&before, &inode.attr()) {
                self.untold.set(1);
            }
        }
        drop(held);
    }

    /// Brings the lists up to date with what the host says (R1). The attributes are locked.
    pub(crate) fn renew_acls(self: &Arc<Self>, inode: &Inode, facts: &Facts, forced: bool) {
        if !self.tree.has_acls() || facts.kind() == mode::S_IFLNK {
            return;
        }
        let ours = self.tree.options.policy == Policy::Exclusive;
        if !forced && (ours || !self.are_acls_due(facts)) {
            return;
        }
        let acls = self.acls_now(facts);
        self.note_acls(facts);
        if inode.acls() != acls {
            inode.put_acls(acls);
        }
    }

    /// Whether the lists may have changed since they were read.
    pub(crate) fn are_acls_due(&self, facts: &Facts) -> bool {
        self.acls_of.get() != moment(facts.attr.ctime)
    }

    /// Notes when the lists were read (R1).
    pub(crate) fn note_acls(&self, facts: &Facts) {
        let ctime = facts.attr.ctime;
        let read = if is_settled(ctime) { moment(ctime) } else { 0 };
        self.acls_of.set(read);
    }

    fn acls_now(self: &Arc<Self>, facts: &Facts) -> Acls {
        if self.is_owned_by_attribute() {
            let kept = self.handle(Use::Read, WAIT).and_then(|file| kept(&*file));
            return kept.unwrap_or_else(|_| closed(facts.attr.mode));
        }
        if let Some(handle) = self.held(Use::Path) {
            return self.tree.acls(facts, At::Fd(handle.as_fd()));
        }
        for place in self.places() {
            let Ok(parent) = place.parent.handle(Use::Path, WAIT) else {
                continue;
            };
            if look(&*parent, &place.name, WAIT).is_ok_and(|there| there.id == self.id) {
                return self.tree.acls(facts, At::Name(&parent, &place.name));
            }
        }
        closed(facts.attr.mode)
    }
}
