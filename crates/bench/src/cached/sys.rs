// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens files by the kernel's ring, for comparison.

#![expect(unsafe_code, reason = "the kernel's ring reads until it answers")]

use std::io;

use io_uring::{IoUring, opcode, types};

use crate::common::*;

/// A ring that opens.
pub(super) struct KernelRing(IoUring);

impl KernelRing {
    /// A ring for `depth` opens at once.
    pub(super) fn new(depth: usize) -> Result<Self, Error> {
        let entries = u32::try_from(depth.next_power_of_two()).unwrap_or(u32::MAX);
        IoUring::new(entries).map(Self).host("io_uring_setup")
    }

    /// Opens all of these at once, at most as many as the ring is for; `answer` gets the index of
    /// each and its descriptor or errno.
    pub(super) fn open_all<'a>(
        &mut self,
        paths: impl ExactSizeIterator<Item = &'a CStr>,
        flags: OFlags,
        mut answer: impl FnMut(usize, Result<i32, Errno>),
    ) {
        let mut left = paths.len();
        for (at, path) in paths.enumerate() {
            let open = opcode::OpenAt::new(types::Fd(AT_FDCWD), path.as_ptr())
                .flags(flags.bits().cast_signed())
                .build()
                .user_data(at as u64);
            // SAFETY: the paths are borrowed until this call returns, and it returns only when all
            // answers have come; if they do not come, the process ends.
            if unsafe { self.0.submission().push(&open) }.is_err() {
                std::process::abort();
            }
        }
        while left > 0 {
            match self.0.submit_and_wait(left) {
                Err(why) if why.kind() != io::ErrorKind::Interrupted => std::process::abort(),
                _ => {}
            }
            for done in self.0.completion() {
                left -= 1;
                let opened = match done.result() {
                    fd @ 0.. => Ok(fd),
                    errno => Err(Errno::from_raw(-errno)),
                };
                answer(done.user_data() as usize, opened);
            }
        }
    }
}
