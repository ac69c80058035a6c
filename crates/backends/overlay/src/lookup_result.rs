// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a lookup through the layers found, and the keys of inodes.

use openpath_vfs::Inode;
use std::sync::Arc;

/// By what an inode is found: one beneath, and where that alone does not tell, the directory
/// beneath that it was found in and its name there.
pub(crate) type Key = (usize, usize, Box<[u8]>);

/// Where an inode beneath is, for keys.
pub(crate) fn address(inode: &Inode) -> usize {
    std::ptr::from_ref(inode).addr()
}

/// An inode of a lower layer.
#[derive(Clone)]
pub(crate) struct Lower {
    /// Place of its layer, 0 being the topmost.
    pub(crate) layer: usize,
    pub(crate) inode: Arc<Inode>,
}

/// Where the first of the lower inodes was found.
pub(crate) enum Origin {
    /// At the roots.
    Root,
    /// Beneath a directory of the overlay, under this name.
    Name(Arc<Inode>, Box<[u8]>),
    /// At this path from the roots, without a slash before it.
    Path(Box<[u8]>),
    /// There is none, or it matters no more.
    None,
}

/// What a name was found to be.
pub(crate) struct LookupResult {
    pub(crate) upper: Option<Arc<Inode>>,
    pub(crate) lowers: Vec<Lower>,
    pub(crate) origin: Origin,
    /// The number it shows, if not that of the first inode beneath.
    pub(crate) number: Option<u64>,
    /// Some of its files show other numbers than their own.
    pub(crate) impure: bool,
}

impl LookupResult {
    /// What is in the upper tree alone.
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
