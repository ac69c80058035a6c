// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds what the backend keeps for one inode: its content, its extended attributes and its charge.
//!
//! # States
//! [`crate::make`] makes it with its room charged and its number assigned. It is dropped, and all
//! of its charges are given back, with the last reference to its inode.

use crate::data::Data;
use crate::entries::Entries;
use crate::space::{InodeCharge, Payer, Space};
use crate::symlink::Link;
use crate::xattr_map::Xattrs;
use openpath_abi::Errno;
use openpath_sync::RwLock;
use openpath_vfs::Inode;
use openpath_vfs::lock_order::{MemData, MemDir, MemXattr};
use std::sync::Arc;

/// The content of an inode of each type.
pub(crate) enum Content {
    Directory(RwLock<Entries, MemDir>),
    Regular(RwLock<Data, MemData>),
    Symlink(Link),
    /// FIFO, socket or device, with nothing but attributes.
    Special,
}

/// The backend's part of one inode.
pub(crate) struct Node {
    charge: InodeCharge,
    content: Content,
    xattrs: RwLock<Option<Box<Xattrs>>, MemXattr>,
}

impl Node {
    /// A node without extended attributes.
    pub(crate) fn new(charge: InodeCharge, content: Content) -> Self {
        Self {
            charge,
            content,
            xattrs: RwLock::new(None),
        }
    }

    /// The node of `inode`, if that is one of this backend.
    pub(crate) fn of(inode: &Inode) -> Option<&Self> {
        inode.ops().as_any().downcast_ref()
    }

    /// The node of `inode`.
    ///
    /// # Errors
    /// `EXDEV` if it is not an inode of the same tree.
    pub(crate) fn sibling<'a>(&self, inode: &'a Inode) -> Result<&'a Self, Errno> {
        Self::of(inode)
            .filter(|n| Arc::ptr_eq(n.space(), self.space()))
            .ok_or(Errno::EXDEV)
    }

    /// The limits of the tree.
    pub(crate) fn space(&self) -> &Arc<Space> {
        &self.charge.payer.space
    }

    /// The payers of the inode.
    pub(crate) fn payer(&self) -> &Payer {
        &self.charge.payer
    }

    /// The charge of the inode and its names.
    pub(crate) fn charge(&self) -> &InodeCharge {
        &self.charge
    }

    /// The names in it, if it is a directory.
    pub(crate) fn entries(&self) -> Option<&RwLock<Entries, MemDir>> {
        if let Content::Directory(entries) = &self.content {
            Some(entries)
        } else {
            None
        }
    }

    /// The data, if it is a regular file.
    pub(crate) fn data(&self) -> Option<&RwLock<Data, MemData>> {
        if let Content::Regular(data) = &self.content {
            Some(data)
        } else {
            None
        }
    }

    /// The body, if it is a symbolic link.
    pub(crate) fn link_body(&self) -> Option<&[u8]> {
        if let Content::Symlink(link) = &self.content {
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
