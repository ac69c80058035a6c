// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a thread answers: which request it is at, and whether who asked still waits.
//!
//! # States
//! Free -> at a request -> interrupted, when the kernel says so (`FUSE_INTERRUPT`) -> free.
//!
//! # Rules
//! R1. What waits ends at once, and what is long ends at its next step: with what was done so far,
//!     or `EINTR` if that was nothing. What is neither goes on to its end.
//! R3. What is long and must be done whole goes on, unless who asked is being killed: a signal that
//!     he catches is no reason to begin it again from the start.
//! R2. An interrupt never reaches the next request of the thread: both are told under one lock.

use openpath_sync::Mutex;
use openpath_vfs::Interrupter;
use openpath_vfs::lock_order::FuseRequests;
use rustix::process::Signal;
use std::cell::RefCell;
use std::fs;
use std::sync::Arc;

/// A thread's.
pub(crate) struct Seat {
    at: Mutex<At, FuseRequests>,
    interrupter: Interrupter,
}

#[derive(Default)]
struct At {
    /// The number of the request; none is 0.
    request: u64,
    /// The thread that asks; 0 if that cannot be seen.
    who: u32,
    interrupted: bool,
}

thread_local! {
    /// Where this thread answers, if it does.
    static MINE: RefCell<Option<Arc<Seat>>> = const { RefCell::new(None) };
}

/// Whether this thread answers a request of somebody who is being killed and waits for nothing but
/// the answer. What a request sets going asks this, to leave off what is not wanted any more.
#[must_use]
pub fn caller_is_killed() -> bool {
    MINE.with_borrow(|mine| mine.as_ref().is_some_and(|seat| seat.caller_is_killed()))
}

impl Seat {
    /// The seat of the task that this interrupts.
    pub(crate) fn new(interrupter: Interrupter) -> Self {
        Self {
            at: Mutex::new(At::default()),
            interrupter,
        }
    }

    /// The calling thread answers here from now on.
    pub(crate) fn take(self: &Arc<Self>) {
        MINE.set(Some(Arc::clone(self)));
    }

    /// The thread is at this request of `who` now.
    pub(crate) fn begin(&self, request: u64, who: u32) {
        *self.at.lock() = At {
            request,
            who,
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

    /// R3
    fn caller_is_killed(&self) -> bool {
        let who = {
            let at = self.at.lock();
            at.interrupted.then_some(at.who)
        };
        who.is_some_and(|who| {
            fs::read_to_string(format!("/proc/{who}/status")).is_ok_and(|text| is_killed(&text))
        })
    }
}

/// Whether `/proc/PID/status` tells of a thread that has its end before it: the kernel notes any
/// signal that ends it as the one that cannot be caught.
fn is_killed(status: &str) -> bool {
    let mut lines = status.lines();
    let pending = lines.find_map(|line| line.strip_prefix("SigPnd:"));
    let pending = pending.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    pending.is_some_and(|set| set & (1 << (Signal::KILL.as_raw() - 1)) != 0)
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
        seat.begin(4, 0);
        assert!(!seat.interrupt(6) && !seat.is_interrupted());
        assert!(seat.interrupt(4) && seat.is_interrupted());
        assert_eq!(task.read(fd, &mut [0; 4]), Err(Errno::EINTR));
        seat.end();
        // One that ended no wait is gone with its request.
        seat.begin(6, 0);
        assert!(seat.interrupt(6));
        seat.end();
        assert!(!seat.interrupt(6));
        seat.begin(8, 0);
        assert!(!seat.is_interrupted());
        task.write(writer, b"data").expect("written");
        assert_eq!(task.read(fd, &mut [0; 4]), Ok(4));
        seat.end();
    }

    #[test]
    fn who_is_killed_is_known_by_what_is_pending() {
        let status =
            |set: &str| format!("Name:\tSigPnd:\nSigQ:\t0/1\nSigPnd:\t{set}\nShdPnd:\t0\n");
        assert!(is_killed(&status("0000000000000100")));
        assert!(is_killed(&status("0000000000000102")));
        for other in ["0000000000000000", "0000000000000002", "", "x"] {
            assert!(!is_killed(&status(other)), "{other}");
        }
        assert!(!is_killed(""));
    }

    #[test]
    fn nobody_has_given_up_who_was_not_interrupted_and_killed() {
        assert!(!caller_is_killed());
        let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()));
        let task = vfs.expect("a Vfs").task(Cred::root()).expect("a task");
        let seat = Arc::new(Seat::new(task.interrupter()));
        seat.take();
        seat.begin(2, std::process::id());
        assert!(!caller_is_killed());
        assert!(seat.interrupt(2));
        assert!(!caller_is_killed(), "this process lives");
    }
}
