// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the devices `/dev/null`, `/dev/zero` and `/dev/full` (null(4), full(4)).
//!
//! # Kernel analogue
//! `null_fops`, `zero_fops`, `full_fops`.

use super::{DeviceKind, DeviceOps, Driver, Opening};
use crate::file_ops::{FileOps, Io, RWF_COMMON};
use openpath_abi::Errno;
use openpath_abi::falloc::{RWF_HIPRI, RWF_NOWAIT};
use std::any::Any;
use std::sync::Arc;

/// Major number of memory devices (`MEM_MAJOR`).
pub(super) const MAJOR: u32 = 1;

/// A device, and an opening of it: neither keeps anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Device {
    /// Nothing to read, room for everything.
    Null,
    /// Zeroes to read, room for everything.
    Zero,
    /// Zeroes to read, room for nothing.
    Full,
}

/// The drivers.
pub(super) fn drivers() -> Vec<Driver> {
    let devices = [(3, Device::Null), (5, Device::Zero), (7, Device::Full)];
    let driver = |(minor, device)| Driver {
        kind: DeviceKind::Char,
        major: MAJOR,
        minors: minor..=minor,
        ops: Arc::new(device) as Arc<dyn DeviceOps>,
    };
    devices.map(driver).into()
}

impl DeviceOps for Device {
    fn open(&self, _: &Opening<'_>) -> Result<Box<dyn FileOps>, Errno> {
        Ok(Box::new(*self))
    }
}

impl FileOps for Device {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read(&self, buf: &mut [u8], _: &Io<'_>) -> Option<Result<usize, Errno>> {
        if *self == Self::Null {
            return Some(Ok(0));
        }
        buf.fill(0);
        Some(Ok(buf.len()))
    }

    fn write(&self, data: &[u8], _: &Io<'_>) -> Option<Result<usize, Errno>> {
        Some(match self {
            Self::Full => Err(Errno::ENOSPC),
            _ => Ok(data.len()),
        })
    }

    fn rw_flags(&self, writing: bool) -> u32 {
        match self {
            // Written piece by piece.
            Self::Full if writing => RWF_HIPRI,
            Self::Full => RWF_COMMON,
            _ => RWF_COMMON | RWF_NOWAIT,
        }
    }

    fn splices(&self, writing: bool) -> bool {
        match self {
            Self::Null => writing,
            Self::Zero => true,
            Self::Full => !writing,
        }
    }
}
