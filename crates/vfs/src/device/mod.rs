// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the trait of a device driver, keeps the table from device numbers to drivers, and opens
//! devices by it.
//!
//! # Kernel analogue
//! `cdev_map`, `chrdev_open`, `blkdev_get_no_open`. As there, device nodes of any file system lead
//! to the core's table, and no backend is asked about a device.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | the table | the making of the `Vfs` | any time |
//!
//! # Rules
//! R1. Of several drivers for one number the last one given is used, so a host can replace a
//!     built-in one.
//! R2. A driver is called with no lock held; a panic in it is `EIO`.
//!
//! # Limits
//! A driver cannot be added to a `Vfs` that is built; there is no mmap(2).

mod mem;
mod random;

use crate::clock::Entropy;
use crate::cred::Cred;
use crate::file_ops::FileOps;
use crate::inode::{Inode, shield};
use openpath_abi::fcntl::O_NONBLOCK;
use openpath_abi::{Errno, OFlags, mode, stat};
use openpath_sync::Waiter;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The two spaces of device numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum DeviceKind {
    /// Character devices (`S_IFCHR`).
    Char,
    /// Block devices (`S_IFBLK`).
    Block,
}

/// One open(2) of a device, after everything else was granted.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Opening<'a> {
    /// Major number of the node.
    pub major: u32,
    /// Minor number of the node.
    pub minor: u32,
    /// `O_*`.
    pub flags: OFlags,
    /// The credentials of the opener.
    pub cred: &'a Cred,
    /// Waits for the device if needed; `None`: the open does not wait (`O_NONBLOCK`).
    pub wait: Option<&'a Waiter>,
}

/// A driver. See [`crate::VfsBuilder::device`].
pub trait DeviceOps: Send + Sync + 'static {
    /// Begins one opening: its state, and its calls.
    ///
    /// # Errors
    /// Those that open(2) returns: `ENXIO` or `ENODEV` if there is no such device, `EBUSY`.
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn FileOps>, Errno>;
}

/// A driver and its numbers.
pub(crate) struct Driver {
    pub(crate) kind: DeviceKind,
    pub(crate) major: u32,
    pub(crate) minors: RangeInclusive<u32>,
    pub(crate) ops: Arc<dyn DeviceOps>,
}

/// Character devices with this major number share one driver, which always answers
/// (`MISC_MAJOR`).
const MISC_MAJOR: u32 = 10;

/// The drivers of a `Vfs` (R1).
pub(crate) struct Devices(Vec<Driver>);

impl Devices {
    /// The built-in drivers, and these.
    pub(crate) fn new(entropy: Arc<dyn Entropy>, drivers: Vec<Driver>) -> Self {
        let mut all = mem::drivers();
        all.extend(random::drivers(&entropy));
        all.extend(drivers);
        Self(all)
    }

    fn find(&self, kind: DeviceKind, major: u32, minor: u32) -> Option<&dyn DeviceOps> {
        let is = |d: &&Driver| d.kind == kind && d.major == major && d.minors.contains(&minor);
        self.0.iter().rev().find(is).map(|driver| &*driver.ops)
    }
}

impl Devices {
    /// The driver of a device.
    ///
    /// # Errors
    /// `ENXIO`: none has the number; `ENODEV`: none of the miscellaneous devices has (`misc_open`).
    pub(crate) fn driver_of(&self, inode: &Inode) -> Result<&dyn DeviceOps, Errno> {
        let kind = if inode.kind() == mode::S_IFBLK {
            DeviceKind::Block
        } else {
            DeviceKind::Char
        };
        let (major, minor) = (stat::major(inode.rdev()), stat::minor(inode.rdev()));
        let driver = self.find(kind, major, minor);
        driver.ok_or(if kind == DeviceKind::Char && major == MISC_MAJOR {
            Errno::ENODEV
        } else {
            Errno::ENXIO
        })
    }

    /// Opens a device for `cred`; `sleeper` waits for it, unless the flags forbid it.
    ///
    /// # Errors
    /// `ENXIO` and `ENODEV` (no driver has the number), what the driver meets.
    pub(crate) fn open(
        &self,
        inode: &Inode,
        flags: OFlags,
        cred: &Cred,
        sleeper: &Waiter,
    ) -> Result<Box<dyn FileOps>, Errno> {
        let driver = self.driver_of(inode)?;
        let opening = Opening {
            major: stat::major(inode.rdev()),
            minor: stat::minor(inode.rdev()),
            flags,
            cred,
            wait: (!flags.contains(O_NONBLOCK)).then_some(sleeper),
        };
        shield(|| driver.open(&opening))
    }
}
