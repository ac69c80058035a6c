// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a thread answers: which request it is at, and whether who asked still waits.
//!
//! # States
//! Free -> at a request -> interrupted, when the kernel says so (`FUSE_INTERRUPT`) -> free.
//!
//! # Rules
//! R1. What waits ends at once, and what is long ends at its next step: with what was done so far,
//!     or `EINTR` if that was nothing. What is neither goes on to its end.
//! R2. An interrupt never reaches the next request of the thread: both are told under one lock.

use openpath_sync::Mutex;
use openpath_vfs::Interrupter;
use openpath_vfs::lock_order::FuseRequests;

/// A thread's.
pub(crate) struct Seat {
    at: Mutex<At, FuseRequests>,
    interrupter: Interrupter,
}

#[derive(Default)]
struct At {
    /// The number of the request; none is 0.
    request: u64,
    interrupted: bool,
}

impl Seat {
    /// The seat of the task that this interrupts.
    pub(crate) fn new(interrupter: Interrupter) -> Self {
        Self {
            at: Mutex::new(At::default()),
            interrupter,
        }
    }

    /// The thread is at this request now.
    pub(crate) fn begin(&self, request: u64) {
        *self.at.lock() = At {
            request,
            interrupted: false,
        };
    }

    /// It has answered.
    pub(crate) fn end(&self) {
        let mut at = self.at.lock();
        if at.interrupted {
            self.interrupter.withdraw();
        }
        *at = At::default();
    }

    /// Interrupts the request with this number, if the thread is at it.
    pub(crate) fn interrupt(&self, request: u64) -> bool {
        let mut at = self.at.lock();
        let is = request != 0 && at.request == request;
        if is {
            at.interrupted = true;
            self.interrupter.interrupt();
        }
        is
    }

    /// Whether the request that it is at was interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.at.lock().interrupted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openpath_abi::Errno;
    use openpath_abi::fcntl::{O_NONBLOCK, O_RDONLY, O_RDWR};
    use openpath_mem::{MemFs, MemOptions};
    use openpath_vfs::{Cred, Vfs};

    #[test]
    fn an_interrupt_reaches_the_request_that_it_is_for_and_no_other() {
        let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()));
        let task = vfs.expect("a Vfs").task(Cred::root()).expect("a task");
        task.mknod(b"/fifo", 0o010_600, 0).expect("made");
        let writer = task.open(b"/fifo", O_RDWR | O_NONBLOCK, 0).expect("open");
        let fd = task.open(b"/fifo", O_RDONLY, 0).expect("open");
        let seat = Seat::new(task.interrupter());
        assert!(!seat.interrupt(0));
        seat.begin(4);
        assert!(!seat.interrupt(6) && !seat.is_interrupted());
        assert!(seat.interrupt(4) && seat.is_interrupted());
        assert_eq!(task.read(fd, &mut [0; 4]), Err(Errno::EINTR));
        seat.end();
        // One that ended no wait is gone with its request.
        seat.begin(6);
        assert!(seat.interrupt(6));
        seat.end();
        assert!(!seat.interrupt(6));
        seat.begin(8);
        assert!(!seat.is_interrupted());
        task.write(writer, b"data").expect("written");
        assert_eq!(task.read(fd, &mut [0; 4]), Ok(4));
        seat.end();
    }
}
