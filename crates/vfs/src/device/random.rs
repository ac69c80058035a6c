// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the devices `/dev/random` and `/dev/urandom` (random(4)) over a source of random
//! bytes.
//!
//! # Kernel analogue
//! `random_fops`, `urandom_fops`, which differ by name, and by what poll(2) says.

use super::mem::MAJOR;
use super::{DeviceKind, DeviceOps, Driver, Opening};
use crate::clock::Entropy;
use crate::file_ops::{FileOps, Io, RWF_COMMON};
use openpath_abi::Errno;
use openpath_abi::falloc::RWF_NOWAIT;
use openpath_abi::poll::{POLLIN, POLLRDNORM};
use std::any::Any;
use std::sync::Arc;

/// How many bits the pool has (`RNDGETENTCNT`).
const RNDGETENTCNT: u32 = 0x8004_5200;
/// All of them, always (`POOL_BITS`).
const POOL_BITS: i32 = 256;

/// A device, and an opening of it.
#[derive(Clone)]
struct Device {
    entropy: Arc<dyn Entropy>,
    /// It has readiness of its own: there is something to read.
    polls: bool,
}

/// The drivers.
pub(super) fn drivers(entropy: &Arc<dyn Entropy>) -> [Driver; 2] {
    [(8, true), (9, false)].map(|(minor, polls)| Driver {
        kind: DeviceKind::Char,
        major: MAJOR,
        minors: minor..=minor,
        ops: Arc::new(Device {
            entropy: Arc::clone(entropy),
            polls,
        }),
    })
}

impl DeviceOps for Device {
    fn open(&self, _: &Opening<'_>) -> Result<Box<dyn FileOps>, Errno> {
        Ok(Box::new(self.clone()))
    }
}

impl FileOps for Device {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read(&self, buf: &mut [u8], _: &Io<'_>) -> Option<Result<usize, Errno>> {
        Some(self.entropy.fill(buf).map(|()| buf.len()))
    }

    fn write(&self, data: &[u8], _: &Io<'_>) -> Option<Result<usize, Errno>> {
        self.entropy.stir(data);
        Some(Ok(data.len()))
    }

    fn rw_flags(&self, _writing: bool) -> u32 {
        RWF_COMMON | RWF_NOWAIT
    }

    fn poll(&self) -> Option<u32> {
        self.polls.then_some(POLLIN | POLLRDNORM)
    }

    /// # Divergence: L16
    fn ioctl(&self, request: u32, arg: &mut [u8]) -> Option<Result<i64, Errno>> {
        if request != RNDGETENTCNT {
            return Some(Err(Errno::EINVAL));
        }
        let Some(to) = arg.first_chunk_mut::<4>() else {
            return Some(Err(Errno::EFAULT));
        };
        *to = POOL_BITS.to_ne_bytes();
        Some(Ok(0))
    }
}
