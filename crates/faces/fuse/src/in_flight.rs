// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records the request that a thread handles, and whether it was interrupted.
//!
//! # States
//! None -> in flight -> interrupted, when the kernel says so (`FUSE_INTERRUPT`) -> none.
//!
//! # Rules
//! R1. An interrupted wait ends at once, and a long operation at its next step: with what was done
//!     so far, or with `EINTR` if that was nothing. Everything else runs to its end.
//! R2. Interrupts and request changes are serialised by one lock, so an interrupt cannot hit the
//!     next request of the thread.
//! R3. A long operation that must be done as a whole goes on unless its caller is being killed: a
//!     signal that the caller handles is no reason to start over.

use openpath_sync::Mutex;
use openpath_vfs::Interrupter;
use openpath_vfs::lock_order::FuseRequests;
use rustix::process::Signal;
use std::cell::RefCell;
use std::fs;
use std::sync::Arc;

/// The request that one thread handles.
pub(crate) struct InFlight {
    current: Mutex<Current, FuseRequests>,
    interrupter: Interrupter,
}

#[derive(Default)]
struct Current {
    /// The number of the request; 0 for none.
    request: u64,
    /// The thread that called; 0 if it cannot be seen from here.
    caller: u32,
    interrupted: bool,
}

thread_local! {
    /// The calling thread's, if it handles requests.
    static MINE: RefCell<Option<Arc<InFlight>>> = const { RefCell::new(None) };
}

/// Whether the caller of this thread's request is being killed, so that only the reply keeps
/// the caller alive. Work for a request asks this, to stop when nobody wants the result.
#[must_use]
pub fn caller_is_killed() -> bool {
    MINE.with_borrow(|mine| mine.as_ref().is_some_and(|mine| mine.caller_is_killed()))
}

/// Whether this thread's request was interrupted, so that waits for it must end with `EINTR`;
/// `None` on a thread that handles no requests.
#[must_use]
pub fn request_is_interrupted() -> Option<bool> {
    MINE.with_borrow(|mine| mine.as_ref().map(|mine| mine.is_interrupted()))
}

impl InFlight {
    /// For a thread with the task that this interrupts.
    pub(crate) fn new(interrupter: Interrupter) -> Self {
        Self {
            current: Mutex::new(Current::default()),
            interrupter,
        }
    }

    /// Makes this the calling thread's.
    pub(crate) fn bind_thread(self: &Arc<Self>) {
        MINE.set(Some(Arc::clone(self)));
    }

    /// The thread begins this request of `caller`.
    pub(crate) fn begin(&self, request: u64, caller: u32) {
        *self.current.lock() = Current {
            request,
            caller,
            interrupted: false,
        };
    }

    /// It has replied.
    pub(crate) fn end(&self) {
        let mut current = self.current.lock();
        if current.interrupted {
            self.interrupter.withdraw();
        }
        *current = Current::default();
    }

    /// Interrupts this request if the thread handles it; returns whether it does.
    pub(crate) fn interrupt(&self, request: u64) -> bool {
        let mut current = self.current.lock();
        let is_current = request != 0 && current.request == request;
        if is_current {
            current.interrupted = true;
            self.interrupter.interrupt();
        }
        is_current
    }

    /// Whether the current request was interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.current.lock().interrupted
    }

    /// R3
    fn caller_is_killed(&self) -> bool {
        let caller = {
            let current = self.current.lock();
            current.interrupted.then_some(current.caller)
        };
        caller.is_some_and(|caller| {
            fs::read_to_string(format!("/proc/{caller}/status"))
                .is_ok_and(|text| has_pending_kill(&text))
        })
    }
}

/// Whether `/proc/PID/status` shows a pending `SIGKILL`. The kernel adds one for any fatal signal.
fn has_pending_kill(status: &str) -> bool {
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
    fn an_interrupt_hits_its_request_and_no_other() {
        let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()));
        let task = vfs.expect("a Vfs").task(Cred::root()).expect("a task");
        task.mknod(b"/fifo", 0o010_600, 0).expect("made");
        let writer = task.open(b"/fifo", O_RDWR | O_NONBLOCK, 0).expect("open");
        let fd = task.open(b"/fifo", O_RDONLY, 0).expect("open");
        let mine = InFlight::new(task.interrupter());
        assert!(!mine.interrupt(0));
        mine.begin(4, 0);
        assert!(!mine.interrupt(6) && !mine.is_interrupted());
        assert!(mine.interrupt(4) && mine.is_interrupted());
        assert_eq!(task.read(fd, &mut [0; 4]), Err(Errno::EINTR));
        mine.end();
        // An interrupt that ended no wait is gone with its request.
        mine.begin(6, 0);
        assert!(mine.interrupt(6));
        mine.end();
        assert!(!mine.interrupt(6));
        mine.begin(8, 0);
        assert!(!mine.is_interrupted());
        task.write(writer, b"data").expect("written");
        assert_eq!(task.read(fd, &mut [0; 4]), Ok(4));
        mine.end();
    }

    #[test]
    fn a_pending_kill_is_read_from_the_status() {
        let status =
            |set: &str| format!("Name:\tSigPnd:\nSigQ:\t0/1\nSigPnd:\t{set}\nShdPnd:\t0\n");
        assert!(has_pending_kill(&status("0000000000000100")));
        assert!(has_pending_kill(&status("0000000000000102")));
        for other in ["0000000000000000", "0000000000000002", "", "x"] {
            assert!(!has_pending_kill(&status(other)), "{other}");
        }
        assert!(!has_pending_kill(""));
    }

    #[test]
    fn a_caller_is_killed_only_if_interrupted_and_about_to_die() {
        assert!(!caller_is_killed());
        let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()));
        let task = vfs.expect("a Vfs").task(Cred::root()).expect("a task");
        let mine = Arc::new(InFlight::new(task.interrupter()));
        mine.bind_thread();
        mine.begin(2, std::process::id());
        assert!(!caller_is_killed());
        assert!(mine.interrupt(2));
        assert!(!caller_is_killed(), "this process lives");
    }
}
