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

mod places;

pub(crate) use places::Place;
use places::Places;

use crate::pool::Handles;
use crate::sys::{Facts, Id};
use crate::tree::Tree;

use openpath_abi::{Errno, mode};
use openpath_sync::{Mutex, Word, WriteOnce};
use openpath_vfs::Inode;
use openpath_vfs::lock_order::{HostAttr, HostHandles, HostListing, HostPlace};
use std::sync::{Arc, Weak};

/// One inode's side of this backend.
pub(crate) struct Node {
    pub(crate) tree: Arc<Tree>,
    pub(crate) id: Id,
    pub(crate) mnt: u64,
    /// A directory on the way to a place of enforced flags.
    pub(crate) anchor: bool,
    places: Mutex<Places, HostPlace>,
    pub(crate) handles: Mutex<Handles, HostHandles>,
    pub(crate) attr: Mutex<(), HostAttr>,
    pub(crate) changed: Word,
    pub(crate) acls_of: Word,
    /// Its access time is ours and not the host's.
    pub(crate) read_here: Word,
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

    /// Notes what became of a directory on the way to a place of enforced flags; whether that place
    /// was lost by this.
    pub(crate) fn mind_anchors(&self, name: &[u8], found: &Result<Arc<Inode>, Errno>) -> bool {
        if !self.anchor {
            return false;
        }
        let Some(held) = &self.tree.options.held else {
            return false;
        };
        match found {
            Ok(inode) => held.found(&self.path_of(name), Node::of(inode).map(|node| node.id)),
            Err(Errno::EAGAIN) => false,
            Err(_) => held.found(&self.path_of(name), None),
        }
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
