// SPDX-License-Identifier: MIT OR Apache-2.0
//! A place in a tree, and a path that stays what it is: a mount and a dentry, held on their own.
//!
//! What holds such a path does not know the `Vfs` that the place is in, only that the place is let
//! go of there ([`Home`]).

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
    /// What `pin` holds.
    pub(crate) fn of(pin: &Pin) -> Self {
        Self {
            mount: pin.mount(),
            dentry: pin.dentry(),
        }
    }
}

/// The `Vfs` that a place is in, as objects below it know it.
pub(crate) trait Home: Any + Send + Sync {
    /// Lets go of a place that was held on its own. Held: no lock.
    fn let_go(&self, pin: Pin);
}

/// A mount and a dentry (`struct path`), kept for as long as this lives; any thread may drop it.
///
/// Where an open file names a place, a magic link leads to one.
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
