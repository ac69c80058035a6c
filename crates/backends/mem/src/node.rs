// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is behind one inode, and the making of inodes.
//!
//! # States
//! Made by [`make`] with its room charged and its number given; gone, with everything it was
//! charged, when the last owner of its inode drops it.

use crate::data::Data;
use crate::entries::Entries;
use crate::space::{Payer, Places, Space};
use crate::symlink::Link;
use crate::xattr_map::Xattrs;
use openpath_abi::Errno;
use openpath_sync::RwLock;
use openpath_vfs::Inode;
use openpath_vfs::lock_order::{MemData, MemDir, MemXattr};
use std::sync::Arc;

/// What an inode of each type keeps.
pub(crate) enum Kind {
    Directory(RwLock<Entries, MemDir>),
    Regular(RwLock<Data, MemData>),
    Symlink(Link),
    /// FIFO, socket or device: nothing but its attributes.
    Special,
}

/// One inode's side of this backend.
pub(crate) struct Node {
    places: Places,
    kind: Kind,
    xattrs: RwLock<Option<Box<Xattrs>>, MemXattr>,
}

impl Node {
    /// An inode without extended attributes.
    pub(crate) fn new(places: Places, kind: Kind) -> Self {
        Self {
            places,
            kind,
            xattrs: RwLock::new(None),
        }
    }

    /// What is behind `inode`, if it is one of this backend's.
    pub(crate) fn behind(inode: &Inode) -> Option<&Self> {
        inode.ops().as_any().downcast_ref()
    }

    /// What is behind `inode`.
    ///
    /// # Errors
    /// `EXDEV` if it is not an inode of the same tree.
    pub(crate) fn sibling<'a>(&self, inode: &'a Inode) -> Result<&'a Self, Errno> {
        Self::behind(inode)
            .filter(|n| Arc::ptr_eq(n.space(), self.space()))
            .ok_or(Errno::EXDEV)
    }

    /// The tree's counters.
    pub(crate) fn space(&self) -> &Arc<Space> {
        &self.places.payer.space
    }

    /// Who pays for it.
    pub(crate) fn payer(&self) -> &Payer {
        &self.places.payer
    }

    /// The places of the inode and its names.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// The names in it, if it is a directory.
    pub(crate) fn entries(&self) -> Option<&RwLock<Entries, MemDir>> {
        if let Kind::Directory(entries) = &self.kind {
            Some(entries)
        } else {
            None
        }
    }

    /// The data, if it is a regular file.
    pub(crate) fn data(&self) -> Option<&RwLock<Data, MemData>> {
        if let Kind::Regular(data) = &self.kind {
            Some(data)
        } else {
            None
        }
    }

    /// The body, if it is a symbolic link.
    pub(crate) fn link_body(&self) -> Option<&[u8]> {
        if let Kind::Symlink(link) = &self.kind {
            Some(link.body())
        } else {
            None
        }
    }

    /// The extended attributes, if there ever were any.
    pub(crate) fn xattrs(&self) -> &RwLock<Option<Box<Xattrs>>, MemXattr> {
        &self.xattrs
    }
}
