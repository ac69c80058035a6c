// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the result of a lookup through the layers, and the keys by which inodes are found.

use openpath_vfs::Inode;
use std::sync::Arc;

/// The key of an inode: a layer inode, and where that is ambiguous, the layer directory it was
/// found in and its name there.
pub(crate) type Key = (usize, usize, Box<[u8]>);

/// The address of a layer inode, for keys.
pub(crate) fn address(inode: &Inode) -> usize {
    std::ptr::from_ref(inode).addr()
}

/// An inode of a lower layer.
#[derive(Clone)]
pub(crate) struct Lower {
    /// The index of its layer, 0 being the topmost.
    pub(crate) layer: usize,
    pub(crate) inode: Arc<Inode>,
}

/// Where the first of the lower inodes was found.
pub(crate) enum Origin {
    /// At the roots.
    Root,
    /// Below a directory of the overlay, under this name.
    Name(Arc<Inode>, Box<[u8]>),
    /// At this path from the roots, without a slash before it.
    Path(Box<[u8]>),
    /// There is no lower inode, or its origin does not matter any more.
    None,
}

/// The layer inodes of a name.
pub(crate) struct MergedLookup {
    pub(crate) upper: Option<Arc<Inode>>,
    pub(crate) lowers: Vec<Lower>,
    pub(crate) origin: Origin,
    /// The inode number that it shows, if not that of the first layer inode.
    pub(crate) number: Option<u64>,
    /// Some of its files show other inode numbers than their own.
    pub(crate) impure: bool,
}

impl MergedLookup {
    /// An inode that is in the upper tree alone.
    pub(crate) fn of_upper(upper: Arc<Inode>) -> Self {
        Self {
            upper: Some(upper),
            lowers: Vec::new(),
            origin: Origin::None,
            number: None,
            impure: false,
        }
    }
}
