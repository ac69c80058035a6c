// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names in a directory: looking them up, and taking them away.
//!
//! # Rules
//! R1. A name is one component: neither empty, nor `.` or `..`, nor with a slash; the core sees to
//!     it, and [`proper`] once more. So a call of the host with a directory and a name stays in the
//!     directory, and none of those made here follows a link.
//! R2. What loses the last name that is known of it gets a handle first, by which its openings go
//!     on.

use crate::acl::At;
use crate::node::{Node, Place};
use crate::options::Crossing;
use crate::pool::Use;
use crate::sys::{Facts, errno, is_made_up, look, mount_flags, proper};
use openpath_abi::Errno;
use openpath_vfs::{Found, Inode, Patience};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use std::sync::Arc;

impl Node {
    /// As `InodeOps::lookup`.
    pub(crate) fn find(self: &Arc<Self>, name: &[u8], patience: Patience) -> Result<Found, Errno> {
        proper(name)?;
        if !self.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        let found = self.watch_names(patience).and_then(|()| match patience {
            Patience::Wait => self.find_waiting(name),
            Patience::Cached => self.find_cached(name),
        });
        if self.mind_anchors(name, &found)
            && let Some(watches) = &self.tree.watches
        {
            // What is cached below the name may be the mount that is not to be entered any more.
            watches.forget_all_later();
        }
        match found {
            Ok(inode) => Ok(Found::Inode(inode)),
            Err(Errno::ENOENT) if patience == Patience::Cached || !self.is_root() => {
                Ok(Found::Absent)
            }
            Err(Errno::ENOENT) if !self.is_gone()? => Ok(Found::Absent),
            Err(Errno::ENOENT) if self.found_again() => match self.find_waiting(name) {
                Ok(inode) => Ok(Found::Inode(inode)),
                Err(Errno::ENOENT) => Ok(Found::Absent),
                Err(errno) => Err(errno),
            },
            Err(Errno::ENOENT) => Err(Errno::ESTALE),
            Err(Errno::EAGAIN) if patience == Patience::Cached => Ok(Found::WouldBlock),
            Err(errno) => Err(errno),
        }
    }

    fn find_waiting(self: &Arc<Self>, name: &[u8]) -> Result<Arc<Inode>, Errno> {
        let base = self.handle(Use::Path, Patience::Wait)?;
        let seen = self.tree.changes.get();
        let facts = look(&*base, name, Patience::Wait)?;
        self.may_enter(name, &facts, || {
            let way = self.tree.way;
            let fd = way.open(&*base, name, OFlags::PATH, Mode::empty(), Patience::Wait)?;
            // Another may have been mounted meanwhile.
            let again = look(&fd, b"", Patience::Wait)?;
            let same = (again.mnt, again.id.dev) == (facts.mnt, facts.id.dev);
            if same { Ok(fd) } else { Err(Errno::EXDEV) }
        })?;
        self.adopt_child(name, facts, seen)
    }

    /// Makes what was found under `name` an inode of ours.
    pub(crate) fn adopt_child(
        self: &Arc<Self>,
        name: &[u8],
        facts: Facts,
        seen: u64,
    ) -> Result<Arc<Inode>, Errno> {
        let place = self.place_of(name);
        if !self.tree.is_kept_by_attribute(&facts) {
            let facts = self.tree.shown(facts, None)?;
            let base = self.handle(Use::Path, Patience::Wait)?;
            let acls = || self.tree.acls(&facts, At::Name(&base, name));
            return Ok(self.tree.adopt(&facts, Some(place), seen, acls));
        }
        let base = self.handle(Use::Path, Patience::Wait)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let way = self.tree.way;
        let fd = way.open(&*base, name, flags, Mode::empty(), Patience::Wait)?;
        let facts = look(&fd, b"", Patience::Wait)?;
        let facts = self.tree.shown_by(facts, &fd)?;
        let acls = || self.tree.acls(&facts, At::Fd(fd.as_fd()));
        let inode = self.tree.adopt(&facts, Some(place), seen, acls);
        let node = self.sibling(&inode)?;
        if node.held(Use::Read).is_none() && node.id == facts.id {
            node.keep(fd, Use::Read, true)?;
        }
        Ok(inode)
    }

    fn find_cached(self: &Arc<Self>, name: &[u8]) -> Result<Arc<Inode>, Errno> {
        let patience = Patience::Cached;
        let base = self.handle(Use::Path, patience)?;
        let seen = self.tree.changes.get();
        let way = self.tree.way;
        let fd = way.open(&*base, name, OFlags::PATH, Mode::empty(), patience);
        let fd = match fd {
            // A host that knows of no such attempt.
            Err(Errno::EINVAL) => return Err(Errno::EAGAIN),
            fd => fd?,
        };
        let facts = look(&fd, b"", patience)?;
        self.may_enter(name, &facts, || fd.try_clone().map_err(|_| Errno::EMFILE))?;
        if self.tree.is_kept_by_attribute(&facts) {
            return Err(Errno::EAGAIN);
        }
        let place = self.place_of(name);
        let facts = self.tree.shown(facts, None)?;
        let at = match self.tree.proc {
            Some(_) => At::Fd(fd.as_fd()),
            None => At::Name(&base, name),
        };
        let acls = || self.tree.acls(&facts, at);
        Ok(self.tree.adopt(&facts, Some(place), seen, acls))
    }

    /// Called when a name was not found.
    ///
    /// # Errors
    /// `ESTALE`: the directory itself is gone from the host.
    pub(crate) fn must_be_there(self: &Arc<Self>) -> Result<(), Errno> {
        if self.is_root() && self.is_gone()? {
            return Err(Errno::ESTALE);
        }
        Ok(())
    }

    /// Whether this directory was removed.
    fn is_gone(self: &Arc<Self>) -> Result<bool, Errno> {
        let handle = self.handle(Use::Path, Patience::Wait)?;
        Ok(look(&*handle, b"", Patience::Wait)?.attr.nlink == 0)
    }

    /// The root is gone: looks whether there is a directory under its path again, and goes on with
    /// that.
    fn found_again(self: &Arc<Self>) -> bool {
        let Some(path) = &self.tree.options.path else {
            return false;
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(fd) = rustix::fs::open(path, flags, Mode::empty()) else {
            return false;
        };
        self.drop_handle(Use::Read);
        self.drop_handle(Use::Path);
        self.keep(fd, Use::Path, false).is_ok()
    }

    /// Whether what `facts` tell of may be entered; `open` opens it, if another mount is to be
    /// looked at.
    ///
    /// # Errors
    /// `EXDEV`: another mount, which is not to be entered; those of `open` and of the host.
    fn may_enter(
        &self,
        name: &[u8],
        facts: &Facts,
        open: impl FnOnce() -> Result<OwnedFd, Errno>,
    ) -> Result<(), Errno> {
        if facts.mnt == self.mnt && facts.id.dev == self.id.dev {
            return Ok(());
        }
        let options = &self.tree.options;
        let stored = match options.crossing {
            Crossing::Cross => false,
            Crossing::Stay if facts.mnt != self.tree.root_mnt => return Err(Errno::EXDEV),
            Crossing::Stay => false,
            Crossing::Stored => true,
        };
        if !stored && options.held.is_none() {
            return Ok(());
        }
        let fd = open()?;
        if stored && is_made_up(&fd)? {
            return Err(Errno::EXDEV);
        }
        match &options.held {
            Some(held) if !held.admits(&self.path_of(name), mount_flags(&fd)?) => Err(Errno::EXDEV),
            _ => Ok(()),
        }
    }

    /// As `InodeOps::unlink` and, if it `is_dir`, `InodeOps::rmdir`.
    pub(crate) fn remove(
        self: &Arc<Self>,
        dir: &Inode,
        name: &[u8],
        victim: &Arc<Inode>,
        is_dir: bool,
    ) -> Result<(), Errno> {
        proper(name)?;
        let base = self.handle(Use::Path, Patience::Wait)?;
        let node = self.sibling(victim)?;
        let place = self.place_of(name);
        node.prepare_loss(victim, &place)?;
        let flags = if is_dir {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        let done = rustix::fs::unlinkat(&*base, name, flags).map_err(errno);
        node.after_loss(victim, &place, done.is_ok());
        if done.is_ok() {
            self.settle(dir);
        }
        done
    }

    /// Sees that what is to lose this name has a handle to be looked at by, which stays if no other
    /// name leads to it.
    ///
    /// # Errors
    /// `ENFILE`, and those of the host.
    pub(crate) fn prepare_loss(
        self: &Arc<Self>,
        inode: &Inode,
        place: &Place,
    ) -> Result<(), Errno> {
        self.found_at(place.clone());
        self.handle(Use::Path, Patience::Wait)?;
        // The count may be of the past: dead names are taken out whatever it says.
        if !self.is_dir() && self.is_found_but_at(place) && inode.nlink() > 1 {
            return Ok(());
        }
        self.set_nameless(true);
        if self.held(Use::Path).is_none() {
            // Given up in between, for another one.
            self.set_nameless(false);
            self.handle(Use::Path, Patience::Wait)?;
            self.set_nameless(true);
        }
        Ok(())
    }

    /// Whether a known name but this one leads to it; dead ones before it are taken out.
    fn is_found_but_at(&self, lost: &Place) -> bool {
        for place in self.places() {
            if place.is(lost) {
                continue;
            }
            if self.look_at(&place, Patience::Wait).is_ok() {
                return true;
            }
            self.lost(&place);
        }
        false
    }

    /// Looks what became of what was to lose a name, and whether it did.
    pub(crate) fn after_loss(self: &Arc<Self>, inode: &Inode, place: &Place, lost: bool) {
        if lost && !self.is_dir() {
            self.lost(place);
        }
        self.settle(inode);
        self.set_nameless(inode.nlink() == 0);
    }
}
