// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passes notices of lease breaks to the host, which signals the holders of the leases.
//!
//! # Kernel analogue
//! `lease_break_callback`: `kill_fasync` with `SIGIO`, or the signal of `F_SETSIG`.
//!
//! # Rules
//! R1. A lease has one undelivered notice at most: a further break changes it. The end of the lease
//!     withdraws it.
//! R2. Nothing is kept without a listener.

use super::LeaseFlavor;
use crate::file_ops::{Fd, OwnerEx};
use crate::lock_call::LockKind;
use crate::lock_order::LeaseNotices;
use openpath_sync::{Mutex, WaitError, WaitQueue, Waiter};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A holder of a lease is to lower it or to give it back, by `F_SETLEASE` or a close, before its
/// time is up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LeaseBreak {
    /// The descriptor that the lease was taken by (`si_fd`).
    pub fd: Fd,
    /// The process that took it ([`crate::Task::set_pid`]).
    pub pid: i32,
    /// The process to signal: the one that took it, or that `F_SETOWN` named; number 0: none.
    pub owner: OwnerEx,
    /// The signal of `F_SETSIG`; 0: `SIGIO`.
    pub signal: u32,
    /// What it is for.
    pub flavor: LeaseFlavor,
    /// What it is.
    pub kind: LockKind,
    /// What it must become; `None`: given back.
    pub becomes: Option<LockKind>,
    /// Device of the file.
    pub dev: u64,
    /// Inode number of the file.
    pub ino: u64,
}

#[derive(Default)]
struct PendingNotices {
    listeners: usize,
    next: u64,
    notices: BTreeMap<u64, LeaseBreak>,
    queue: WaitQueue,
    closed: bool,
}

/// The undelivered notices of one `Vfs`.
#[derive(Default)]
pub(crate) struct Notices(Mutex<PendingNotices, LeaseNotices>);

impl Notices {
    /// Adds a notice, in place of `before` if that is undelivered; its number.
    pub(super) fn tell(&self, before: Option<u64>, notice: LeaseBreak) -> Option<u64> {
        let mut waiting = self.0.lock();
        if waiting.listeners == 0 {
            return None;
        }
        if let Some(at) = before
            && let Some(old) = waiting.notices.get_mut(&at)
        {
            *old = notice;
            return before;
        }
        let at = waiting.next;
        waiting.next += 1;
        waiting.notices.insert(at, notice);
        let wake = waiting.queue.wake_one();
        drop(waiting);
        drop(wake);
        Some(at)
    }

    /// Takes a notice back, if it is undelivered.
    pub(super) fn withdraw(&self, at: Option<u64>) {
        if let Some(at) = at {
            self.0.lock().notices.remove(&at);
        }
    }

    /// Listens for what is told from now on.
    pub(crate) fn listen(self: &Arc<Self>) -> LeaseBreaks {
        self.0.lock().listeners += 1;
        LeaseBreaks(Arc::clone(self))
    }

    /// There will be no more.
    pub(crate) fn close(&self) {
        let mut waiting = self.0.lock();
        waiting.closed = true;
        let wake = waiting.queue.wake_all();
        drop(waiting);
        drop(wake);
    }
}

/// The notices of lease breaks. One listener gets each. Listening ends when this is dropped.
///
/// ```no_run
/// # fn example(vfs: &openpath_vfs::Vfs) {
/// let breaks = vfs.lease_breaks();
/// std::thread::spawn(move || {
///     while let Some(told) = breaks.recv() {
///         println!("signal {:?} for descriptor {}", told.owner, told.fd);
///     }
/// });
/// # }
/// ```
pub struct LeaseBreaks(Arc<Notices>);

impl LeaseBreaks {
    /// The next notice; waits for it. `None`: the `Vfs` is gone.
    #[must_use]
    pub fn recv(&self) -> Option<LeaseBreak> {
        self.next(None)
    }

    /// The next notice, if one comes in time.
    #[must_use]
    pub fn recv_timeout(&self, time: Duration) -> Option<LeaseBreak> {
        // A time that no clock reaches never comes.
        self.next(Instant::now().checked_add(time))
    }

    fn next(&self, until: Option<Instant>) -> Option<LeaseBreak> {
        let sleeper = Waiter::default();
        let mut waiting = self.0.0.lock();
        loop {
            if let Some((_, notice)) = waiting.notices.pop_first() {
                return Some(notice);
            }
            if waiting.closed {
                return None;
            }
            let waited = self.0.0.wait(waiting, |w| &mut w.queue, &sleeper, until);
            waiting = match waited {
                Ok(guard) | Err((guard, WaitError::Interrupted)) => guard,
                Err((_, WaitError::TimedOut)) => return None,
            };
        }
    }
}

impl Drop for LeaseBreaks {
    fn drop(&mut self) {
        let mut waiting = self.0.0.lock();
        waiting.listeners -= 1;
        if waiting.listeners == 0 {
            waiting.notices.clear();
        }
    }
}
