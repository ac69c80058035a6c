// SPDX-License-Identifier: MIT OR Apache-2.0
//! A path that stays what it is: a mount and a dentry, held on their own.

use crate::instance::Shared;
use crate::walk::Spot;
use openpath_sync::Pin;
use std::sync::Arc;

/// A mount and a dentry (`struct path`), kept for as long as this lives; any thread may drop it.
///
/// Where an open file names a place, a magic link leads to one.
pub struct VfsPath {
    vfs: Arc<Shared>,
    pin: Option<Pin>,
}

impl VfsPath {
    pub(crate) fn new(vfs: Arc<Shared>, pin: Pin) -> Self {
        Self {
            vfs,
            pin: Some(pin),
        }
    }

    pub(crate) fn spot(&self) -> Spot {
        self.pin.as_ref().map_or_else(Spot::default, |p| Spot {
            mount: p.mount(),
            dentry: p.dentry(),
        })
    }

    pub(crate) fn is_of(&self, vfs: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.vfs, vfs)
    }
}

impl Drop for VfsPath {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            let awaited = self.vfs.is_awaited(&pin);
            self.vfs.dcache.store.release(pin);
            if awaited {
                self.vfs.end_waits();
            }
        }
    }
}
