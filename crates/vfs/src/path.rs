// SPDX-License-Identifier: MIT OR Apache-2.0
//! Places: a mount and a dentry, and a [`VfsPath`], which holds them on its own.
//!
//! The owner of such a path does not know the `Vfs` of the place, only that it lets go of the place
//! there ([`Home`]).

use openpath_sync::Pin;
use std::any::Any;
use std::sync::Arc;

/// A place in a tree: a mount and a dentry of its superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Spot {
    pub(crate) mount: u32,
    pub(crate) dentry: u32,
}

impl Spot {
    /// The place of a pin.
    pub(crate) fn of(pin: &Pin) -> Self {
        Self {
            mount: pin.mount(),
            dentry: pin.dentry(),
        }
    }
}

/// The `Vfs` that a place is in, as objects below it know it.
pub(crate) trait Home: Any + Send + Sync {
    /// Lets go of a separately held place. Held: no lock.
    fn let_go(&self, pin: Pin);
}

/// A mount and a dentry (`struct path`), kept for as long as this lives; any thread may drop it.
///
/// The target of a magic link, while an open file names a place.
pub struct VfsPath {
    home: Arc<dyn Home>,
    pin: Option<Pin>,
}

impl VfsPath {
    pub(crate) fn new<H: Home>(home: Arc<H>, pin: Pin) -> Self {
        Self {
            home,
            pin: Some(pin),
        }
    }

    pub(crate) fn spot(&self) -> Spot {
        self.pin.as_ref().map_or_else(Spot::default, Spot::of)
    }

    pub(crate) fn is_of<H: Home>(&self, home: &Arc<H>) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.home), Arc::as_ptr(home))
    }
}

impl Drop for VfsPath {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.home.let_go(pin);
        }
    }
}
