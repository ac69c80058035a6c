// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks names up in a directory of the host, checks whether a mount that is found there may be
//! entered, and notices that the directory was removed.
//!
//! # Rules
//! R1. A name is one component: neither empty, nor `.` or `..`, nor with a slash. The core checks
//!     this, and [`check_component`] checks it again. So a call of the host with a directory and a
//!     name stays in the directory, and none of the calls made here follows a link.

use crate::acl::AclTarget;
use crate::node::Node;
use crate::options::Crossing;
use crate::pool::HandleKind;
use crate::sys::{HostStat, check_component, is_pseudo, mount_flags, stat_at};
use openpath_abi::Errno;
use openpath_vfs::{Inode, LookupResult, WaitMode};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::sync::Arc;

impl Node {
    /// As `InodeOps::lookup`.
    pub(crate) fn lookup_child(
        self: &Arc<Self>,
        name: &[u8],
        wait_mode: WaitMode,
    ) -> Result<LookupResult, Errno> {
        check_component(name)?;
        if !self.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        let found = self.watch_names(wait_mode).and_then(|()| match wait_mode {
            WaitMode::Wait => self.lookup_waiting(name),
            WaitMode::Cached => self.lookup_cached(name),
        });
        if self.check_enforced_path(name, &found)
            && let Some(watches) = &self.tree.watches
        {
            // The mount that must not be entered any more may be cached below the name.
            watches.forget_all_later();
        }
        match found {
            Ok(inode) => Ok(LookupResult::Inode(inode)),
            Err(Errno::ENOENT) if wait_mode == WaitMode::Cached || !self.is_root() => {
                Ok(LookupResult::Absent)
            }
            Err(Errno::ENOENT) if !self.is_removed()? => Ok(LookupResult::Absent),
            Err(Errno::ENOENT) if self.reopen_root() => match self.lookup_waiting(name) {
                Ok(inode) => Ok(LookupResult::Inode(inode)),
                Err(Errno::ENOENT) => Ok(LookupResult::Absent),
                Err(errno) => Err(errno),
            },
            Err(Errno::ENOENT) => Err(Errno::ESTALE),
            Err(Errno::EAGAIN) if wait_mode == WaitMode::Cached => Ok(LookupResult::WouldBlock),
            Err(errno) => Err(errno),
        }
    }

    fn lookup_waiting(self: &Arc<Self>, name: &[u8]) -> Result<Arc<Inode>, Errno> {
        let base = self.handle(HandleKind::Path, WaitMode::Wait)?;
        let seen = self.tree.change_count.get();
        let stat = stat_at(&*base, name, WaitMode::Wait)?;
        self.check_crossing(name, &stat, || {
            let opener = self.tree.opener;
            let fd = opener.open(&*base, name, OFlags::PATH, Mode::empty(), WaitMode::Wait)?;
            // Another mount may have come meanwhile.
            let again = stat_at(&fd, b"", WaitMode::Wait)?;
            let same = (again.mnt, again.id.dev) == (stat.mnt, stat.id.dev);
            if same { Ok(fd) } else { Err(Errno::EXDEV) }
        })?;
        self.adopt_child(name, stat, seen)
    }

    /// The inode of the file that was found under `name`.
    pub(crate) fn adopt_child(
        self: &Arc<Self>,
        name: &[u8],
        stat: HostStat,
        seen: u64,
    ) -> Result<Arc<Inode>, Errno> {
        let alias = self.alias_of(name);
        if !self.tree.stores_attr(&stat) {
            let stat = self.tree.apply_ownership(stat, None)?;
            let base = self.handle(HandleKind::Path, WaitMode::Wait)?;
            let acls = || self.tree.acls(&stat, AclTarget::Name(&base, name));
            let found = (seen, self.tree.defers_acls(&stat));
            return Ok(self.tree.adopt(&stat, Some(alias), found, acls));
        }
        let base = self.handle(HandleKind::Path, WaitMode::Wait)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opener = self.tree.opener;
        let fd = opener.open(&*base, name, flags, Mode::empty(), WaitMode::Wait)?;
        let stat = stat_at(&fd, b"", WaitMode::Wait)?;
        let stat = self.tree.apply_stored_of(stat, &fd)?;
        let acls = || self.tree.acls(&stat, AclTarget::Fd(fd.as_fd()));
        let inode = self.tree.adopt(&stat, Some(alias), (seen, false), acls);
        let node = self.sibling(&inode)?;
        if node.held_handle(HandleKind::Read).is_none() && node.id == stat.id {
            node.install_handle(fd, HandleKind::Read, true)?;
        }
        Ok(inode)
    }

    fn lookup_cached(self: &Arc<Self>, name: &[u8]) -> Result<Arc<Inode>, Errno> {
        let wait_mode = WaitMode::Cached;
        let base = self.handle(HandleKind::Path, wait_mode)?;
        let seen = self.tree.change_count.get();
        let opener = self.tree.opener;
        let fd = opener.open(&*base, name, OFlags::PATH, Mode::empty(), wait_mode);
        let fd = match fd {
            // A host without cached lookups.
            Err(Errno::EINVAL) => return Err(Errno::EAGAIN),
            fd => fd?,
        };
        let stat = stat_at(&fd, b"", wait_mode)?;
        self.check_crossing(name, &stat, || fd.try_clone().map_err(|_| Errno::EMFILE))?;
        if self.tree.stores_attr(&stat) {
            return Err(Errno::EAGAIN);
        }
        let alias = self.alias_of(name);
        let stat = self.tree.apply_ownership(stat, None)?;
        let at = match self.tree.proc {
            Some(_) => AclTarget::Fd(fd.as_fd()),
            None => AclTarget::Name(&base, name),
        };
        let acls = || self.tree.acls(&stat, at);
        let found = (seen, self.tree.defers_acls(&stat));
        Ok(self.tree.adopt(&stat, Some(alias), found, acls))
    }

    /// Called when a name was not found.
    ///
    /// # Errors
    /// `ESTALE`: the directory itself was removed on the host.
    pub(crate) fn check_not_removed(self: &Arc<Self>) -> Result<(), Errno> {
        if self.is_root() && self.is_removed()? {
            return Err(Errno::ESTALE);
        }
        Ok(())
    }

    /// Whether this directory was removed.
    fn is_removed(self: &Arc<Self>) -> Result<bool, Errno> {
        let handle = self.handle(HandleKind::Path, WaitMode::Wait)?;
        Ok(stat_at(&*handle, b"", WaitMode::Wait)?.attr.nlink == 0)
    }

    /// The root was removed: looks for a directory under its path, and continues with that one.
    fn reopen_root(self: &Arc<Self>) -> bool {
        let Some(path) = &self.tree.options.path else {
            return false;
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(fd) = rustix::fs::open(path, flags, Mode::empty()) else {
            return false;
        };
        self.drop_handle(HandleKind::Read);
        self.drop_handle(HandleKind::Path);
        self.install_handle(fd, HandleKind::Path, false).is_ok()
    }

    /// Whether the mount of a file with these attributes may be entered; `open` opens the file, if
    /// its mount must be examined.
    ///
    /// # Errors
    /// `EXDEV`: a mount that must not be entered; those of `open` and of the host.
    fn check_crossing(
        &self,
        name: &[u8],
        stat: &HostStat,
        open: impl FnOnce() -> Result<OwnedFd, Errno>,
    ) -> Result<(), Errno> {
        if stat.mnt == self.mnt && stat.id.dev == self.id.dev {
            return Ok(());
        }
        let options = &self.tree.options;
        let stored = match options.crossing {
            Crossing::Cross => false,
            Crossing::Stay if stat.mnt != self.tree.root_mnt => return Err(Errno::EXDEV),
            Crossing::Stay => false,
            Crossing::Stored => true,
        };
        if !stored && options.held.is_none() {
            return Ok(());
        }
        let fd = open()?;
        if stored && is_pseudo(&fd)? {
            return Err(Errno::EXDEV);
        }
        match &options.held {
            Some(held) if !held.admits(&self.path_of(name), mount_flags(&fd)?) => Err(Errno::EXDEV),
            _ => Ok(()),
        }
    }
}
