// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the objects in the store of a `Vfs` (mounts, dentries, open files) and the types of the
//! store and of a task's pins.
//!
//! The modules here define fields and flags only. The rules for writing the fields are in `dcache`
//! for dentries, in `mount` for mounts, in `file` for open files.

mod dentry;
mod file;
mod mount;

pub(crate) use dentry::{Dentry, dflag};
pub(crate) use file::{FileBody, fbit};
pub use mount::mflag;
pub(crate) use mount::{MountData, MountSlot};

use openpath_sync::{PinSet, Store};

/// Mounts, dentries and pins of one `Vfs`.
pub(crate) type ObjectStore = Store<MountSlot, Dentry, FileBody>;

/// The pin words of a task.
pub(crate) type Pins = PinSet<MountSlot, Dentry, FileBody>;
