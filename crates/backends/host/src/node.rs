// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is behind one inode: which file of the host it is, where it was found, and the handles on
//! it.
//!
//! # Fields
//! | field | what | under |
//! |---|---|---|
//! | places | where it was found; none: the root, or what has no known name | `HostPlace` |
//! | handles | a descriptor of the host for each use | `HostHandles` |
//! | `acls_of` | the change time whose lists it has; 0: they are to be read | `HostAttr` |
//! | changed | the tree's count of changes when it was last brought up to date | `HostAttr` |
//!
//! # Rules
//! R1. `HostAttr` is held over the look at the host and the update that follows, so that of two
//!     looks the later one stays. The other locks are held over nothing that waits.

use crate::handles::Handles;
use crate::options::Policy;
use crate::places::{Place, Places};
use crate::pool::Use;
use crate::sys::{Facts, Id, look};
use crate::tree::Tree;
use crate::watch::same_but_access;
use openpath_abi::{Errno, mode};
use openpath_sync::{Mutex, Word, WriteOnce};
use openpath_vfs::lock_order::{HostAttr, HostHandles, HostListing, HostPlace};
use openpath_vfs::{Acls, Inode, Patience, SetAttr};
use std::sync::{Arc, Weak};

/// Whose access time a file is shown with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// The one that reading here moved, if it did since the host's was set.
    Ours,
    /// The host's.
    Hosts,
}

/// One inode's side of this backend.
pub(crate) struct Node {
    pub(crate) tree: Arc<Tree>,
    pub(crate) id: Id,
    pub(crate) mnt: u64,
    /// A directory on the way to a place of enforced flags.
    pub(crate) anchor: bool,
    places: Mutex<Places, HostPlace>,
    pub(crate) handles: Mutex<Handles, HostHandles>,
    attr: Mutex<(), HostAttr>,
    changed: Word,
    pub(crate) acls_of: Word,
    /// Its access time is ours and not the host's.
    read_here: Word,
    /// Its names are watched.
    pub(crate) watch: Word,
    /// A look for another reason saw a change of others, of which nobody was told yet.
    pub(crate) untold: Word,
    /// Where the handle that is listed stands.
    pub(crate) listing: Mutex<(), HostListing>,
    inode: WriteOnce<Weak<Inode>>,
}

/// A node as the core calls it.
pub(crate) struct Face(pub(crate) Arc<Node>);

impl Node {
    pub(crate) fn new(tree: &Arc<Tree>, facts: &Facts, place: Option<Place>) -> Arc<Self> {
        let anchor = tree.options.held.as_ref().is_some_and(|held| {
            let leads_on = |place: &Place| {
                place.parent.anchor && held.leads_on(&place.parent.path_of(&place.name))
            };
            place.as_ref().map_or(held.leads_on(b""), leads_on)
        });
        Arc::new(Self {
            tree: Arc::clone(tree),
            anchor,
            id: facts.id,
            mnt: facts.mnt,
            places: Mutex::new(Places::of(place)),
            handles: Mutex::new(Handles::default()),
            attr: Mutex::new(()),
            changed: Word::new(0),
            acls_of: Word::new(0),
            read_here: Word::new(0),
            watch: Word::new(0),
            untold: Word::new(0),
            listing: Mutex::new(()),
            inode: WriteOnce::default(),
        })
    }

    /// Whose side it is.
    pub(crate) fn belongs_to(&self, inode: &Arc<Inode>) {
        self.inode.set(Arc::downgrade(inode));
    }

    /// The inode, while it lives.
    pub(crate) fn inode(&self) -> Option<Arc<Inode>> {
        self.inode.get()?.upgrade()
    }

    /// What is behind `inode`, if it is one of this backend's.
    pub(crate) fn of(inode: &Inode) -> Option<&Arc<Self>> {
        let face: &Face = inode.ops().as_any().downcast_ref()?;
        Some(&face.0)
    }

    /// What is behind `inode`.
    ///
    /// # Errors
    /// `EXDEV` if it is not an inode of the same tree.
    pub(crate) fn sibling<'a>(&self, inode: &'a Inode) -> Result<&'a Arc<Self>, Errno> {
        Self::of(inode)
            .filter(|node| Arc::ptr_eq(&node.tree, &self.tree))
            .ok_or(Errno::EXDEV)
    }

    pub(crate) fn is_dir(&self) -> bool {
        mode::is_dir(self.id.kind())
    }

    /// Whether it is a regular file of the host.
    pub(crate) fn is_file(&self) -> bool {
        mode::is_reg(self.id.kind())
    }

    /// Whether it can be the one that was found there: a directory has one place.
    pub(crate) fn may_be_at(&self, place: Option<&Place>) -> bool {
        let known = self.place();
        match (&known, place) {
            _ if !self.is_dir() => true,
            (Some(known), Some(place)) => {
                // Not any directory of that identity: below two entries of one directory that
                // others moved there would be one inode twice, and a rename would lock it twice.
                Arc::ptr_eq(&known.parent, &place.parent) && known.name == place.name
            }
            (None, None) => true,
            _ => false,
        }
    }

    /// Where it was last found.
    pub(crate) fn place(&self) -> Option<Place> {
        self.places.lock().last().cloned()
    }

    /// Where it was found, the latest first.
    pub(crate) fn places(&self) -> Vec<Place> {
        self.places.lock().all()
    }

    /// A name in this directory.
    pub(crate) fn place_of(self: &Arc<Self>, name: &[u8]) -> Place {
        Place {
            parent: Arc::clone(self),
            name: name.into(),
        }
    }

    /// The path of a name in this directory, from the root of the tree.
    pub(crate) fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let mut parts = vec![name.to_vec()];
        let mut above = self.place();
        while let Some(place) = above {
            parts.push(place.name.to_vec());
            above = place.parent.place();
        }
        parts.reverse();
        parts.join(&b'/')
    }

    /// Notes where it was found; a directory stays where it is, unless we move it.
    pub(crate) fn found_at(&self, place: Place) {
        if self.is_dir() {
            return;
        }
        let over = self.places.lock().enter(place);
        drop(over);
    }

    /// Notes where we moved it.
    pub(crate) fn moved(&self, from: &Place, to: Place) {
        if self.is_dir() {
            let before = self.places.lock().replace(to);
            drop(before);
            return;
        }
        let mut places = self.places.lock();
        let gone = (places.take_out(from), places.enter(to));
        drop(places);
        drop(gone);
    }

    /// Notes that it is no longer found there.
    pub(crate) fn lost(&self, place: &Place) {
        let gone = self.places.lock().take_out(place);
        drop(gone);
    }

    /// Whether it was found under a name.
    pub(crate) fn has_place(&self) -> bool {
        self.places.lock().last().is_some()
    }

    pub(crate) fn is_root(&self) -> bool {
        !self.has_place() && self.is_dir()
    }

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
}

impl Drop for Node {
    fn drop(&mut self) {
        // Directories go one by one, for a path may be deeper than the stack.
        let places = self.places.get_mut();
        while let Some(place) = places.pop() {
            let mut above = Some(place.parent);
            while let Some(mut node) = above.take().and_then(Arc::into_inner) {
                above = node.places.get_mut().pop().map(|place| place.parent);
            }
        }
    }
}

impl Drop for Face {
    fn drop(&mut self) {
        self.0.tree.forget(&self.0);
        self.0.gone();
    }
}
