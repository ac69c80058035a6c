// SPDX-License-Identifier: MIT OR Apache-2.0
//! The open file: a pin on a mount and a dentry, an offset, and what may be done through it.
//!
//! # Kernel analogue
//! `struct file`, the open file description.
//!
//! # Rules
//! R1. The walk's pin is the file's pin: nothing is counted on the dentry, the mount or the
//!     credentials.
//! R2. A file open for writing counts on its inode and its mount, and takes both back when it is
//!     dropped.

mod ops;

pub use ops::FileOps;

use crate::dcache::dflag;
use crate::inode::Inode;
use crate::mount::MountData;
use crate::open::uncount;
use crate::path::VfsPath;
use crate::task::Core;
use crate::walk::Spot;
use openpath_abi::Errno;
use openpath_abi::fcntl::{O_ACCMODE, O_CLOEXEC, O_CREAT, O_EXCL, O_NOCTTY, O_PATH, O_TRUNC};
use openpath_sync::Pin;
use std::cell::Cell;
use std::sync::Arc;

/// An open file of a task; dropping it closes it.
pub struct OpenFile<'t> {
    pub(crate) core: &'t Core,
    pin: Option<Pin>,
    flags: u32,
    /// Counted as open for writing.
    counted: bool,
    /// Where the next read or write begins, and the next listing.
    pub(crate) pos: Cell<i64>,
    cred: u64,
}

impl<'t> OpenFile<'t> {
    /// A file that takes over the walk's pin (or, with the switch off, takes a second one and lets
    /// that go).
    #[inline(always)]
    pub(crate) fn install(core: &'t Core, pin: Pin, flags: u32, counted: bool) -> Self {
        let pin = if core.vfs.config.tuning.reference_hand_over {
            pin
        } else {
            second_pin(core, pin)
        };
        core.open_files.set(core.open_files.get() + 1);
        if core.vfs.config.limits.files_max != u64::MAX {
            core.vfs.files.add(1);
        }
        let kept = flags & !(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC);
        Self {
            core,
            pin: Some(pin),
            flags: kept,
            counted,
            pos: Cell::new(0),
            cred: core.cred_serial(),
        }
    }

    /// A file opened with `O_PATH`: only a place.
    pub(crate) fn install_path(core: &'t Core, pin: Pin, flags: u32) -> Self {
        Self::install(core, pin, flags, false)
    }

    #[inline(always)]
    fn pin(&self) -> Result<&Pin, Errno> {
        self.pin.as_ref().ok_or(Errno::EBADF)
    }

    pub(crate) fn spot(&self) -> Spot {
        self.pin.as_ref().map_or_else(Spot::default, |p| Spot {
            mount: p.mount(),
            dentry: p.dentry(),
        })
    }

    pub(crate) fn cred_serial(&self) -> u64 {
        self.cred
    }

    pub(crate) fn inode(&self) -> Result<&Inode, Errno> {
        self.core
            .vfs
            .dcache
            .store
            .dentry_payload(self.pin()?)
            .ok_or(Errno::EBADF)
    }

    pub(crate) fn mount(&self) -> Result<&MountData, Errno> {
        self.core
            .vfs
            .dcache
            .store
            .mount_payload(self.pin()?)
            .ok_or(Errno::EBADF)
    }

    /// The flags it was opened with, less those that only concern opening (`F_GETFL`).
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// Whether it is only a place (`O_PATH`): nothing can be done to the file through it.
    pub(crate) fn is_path(&self) -> bool {
        self.flags & O_PATH != 0
    }

    /// Whether it may be read: access mode 0 or 2.
    pub(crate) fn readable(&self) -> bool {
        !self.is_path() && matches!(self.flags & O_ACCMODE, 0 | 2)
    }

    /// Whether it may be written: access mode 1 or 2.
    pub(crate) fn writable(&self) -> bool {
        !self.is_path() && matches!(self.flags & O_ACCMODE, 1 | 2)
    }

    /// The place it is open at, kept on its own: what a magic link leads to.
    ///
    /// # Errors
    /// `ENOMEM` when there are no pins left.
    pub fn path(&self) -> Result<VfsPath, Errno> {
        let pin = self.core.pins.dup(self.pin()?).ok_or(Errno::ENOMEM)?;
        Ok(VfsPath::new(Arc::clone(&self.core.vfs), pin))
    }

    /// Closes it; the same as dropping it. Linux: close(2).
    pub fn close(self) {}
}

/// The hand-over of before: the file takes a reference of its own and the walk drops its one.
#[cold]
fn second_pin(core: &Core, pin: Pin) -> Pin {
    match core.pins.dup(&pin) {
        Some(own) => {
            core.pins.release(pin);
            own
        }
        None => pin,
    }
}

impl Drop for OpenFile<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let core = self.core;
        if self.counted
            && let (Ok(mount), Ok(inode)) = (self.mount(), self.inode())
        {
            uncount(mount, inode);
        }
        let Some(pin) = self.pin.take() else { return };
        let dcache = &core.vfs.dcache;
        let unlinked = dcache.at(pin.dentry()).word().sample().has(dflag::UNHASHED);
        core.pins.release(pin);
        core.open_files.set(core.open_files.get() - 1);
        if core.vfs.config.limits.files_max != u64::MAX {
            core.vfs.files.sub(1);
        }
        if unlinked {
            dcache.closed_unlinked();
        }
    }
}
