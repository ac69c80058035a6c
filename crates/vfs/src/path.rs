// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a place in the mounted trees by a mount and a dentry ([`PathIds`]), and a [`VfsPath`],
//! which keeps a place in use for as long as it lives.
//!
//! A [`VfsPath`] knows its `Vfs` only as a [`PathOwner`], which lets go of the place when the path
//! is dropped.

use openpath_sync::Pin;
use std::any::Any;
use std::sync::Arc;

/// A place in a tree: a mount and a dentry of its superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PathIds {
    pub(crate) mount: u32,
    pub(crate) dentry: u32,
}

impl PathIds {
    /// The place of a pin.
    pub(crate) fn of(pin: &Pin) -> Self {
        Self {
            mount: pin.mount(),
            dentry: pin.dentry(),
        }
    }
}

/// The `Vfs` that a place is in, as objects below it know it.
pub(crate) trait PathOwner: Any + Send + Sync {
    /// Lets go of a separately held place. Held: no lock.
    fn release_pin(&self, pin: Pin);
}

/// A mount and a dentry (`struct path`), kept for as long as this lives; any thread may drop it.
///
/// The target of a magic link, while an open file names a place.
pub struct VfsPath {
    owner: Arc<dyn PathOwner>,
    pin: Option<Pin>,
}

impl VfsPath {
    pub(crate) fn new<H: PathOwner>(owner: Arc<H>, pin: Pin) -> Self {
        Self {
            owner,
            pin: Some(pin),
        }
    }

    pub(crate) fn path_ids(&self) -> PathIds {
        self.pin.as_ref().map_or_else(PathIds::default, PathIds::of)
    }

    pub(crate) fn is_of<H: PathOwner>(&self, owner: &Arc<H>) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.owner), Arc::as_ptr(owner))
    }
}

impl Drop for VfsPath {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.owner.release_pin(pin);
        }
    }
}
