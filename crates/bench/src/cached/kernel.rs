// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens by the host kernel: by call, and by its ring.

use openpath_abi::Errno;
use openpath_abi::fcntl::{O_CLOEXEC, O_RDONLY};

use super::mix::Name;
use super::openers::Opener;
use super::sys::KernelRing;
use crate::error::Error;
use crate::sys;

/// open(2) and close(2).
pub(super) struct Calls;

impl Opener for Calls {
    fn burst(&mut self, names: &[Name]) -> u64 {
        let mut wrong = 0;
        for name in names {
            let fd = sys::open(&name.path, (O_RDONLY | O_CLOEXEC).bits(), 0);
            wrong += u64::from((fd >= 0) != name.hit || fd >= 0 && sys::close(fd) != 0);
        }
        wrong
    }
}

/// `IORING_OP_OPENAT`, several at once, and close(2).
pub(super) struct Ring {
    ring: KernelRing,
    depth: usize,
}

impl Ring {
    pub(super) fn new(depth: usize) -> Result<Self, Error> {
        let ring = KernelRing::new(depth).map_err(|e| Error::host("io_uring_setup", e))?;
        Ok(Self { ring, depth })
    }
}

impl Opener for Ring {
    fn burst(&mut self, names: &[Name]) -> u64 {
        let mut wrong = 0;
        for names in names.chunks(self.depth) {
            let paths = names.iter().map(|name| &*name.path);
            self.ring.open_all(paths, |at, fd| {
                wrong += u64::from(match fd {
                    0.. => !names[at].hit || sys::close(fd) != 0,
                    _ => names[at].hit || fd != -Errno::ENOENT.raw(),
                });
            });
        }
        wrong
    }
}
