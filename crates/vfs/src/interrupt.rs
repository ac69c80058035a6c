// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupting a task that waits, as a signal does.

use crate::task::Task;
use openpath_sync::Waiter;

/// Interrupts the calls of one task, from any thread.
///
/// A call that waits can be interrupted: opening, reading and writing a FIFO, waiting for a lock,
/// reading events, and
/// what a driver makes so. What can go on without waiting is never interrupted.
///
/// ```no_run
/// # fn example(task: openpath_vfs::Task, fd: i32) {
/// let interrupter = task.interrupter();
/// // In the thread that delivers a signal:
/// std::thread::spawn(move || interrupter.interrupt());
/// // In the thread of the guest: data, or `EINTR`.
/// let _read = task.read(fd, &mut [0; 100]);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Interrupter(Waiter);

impl Interrupter {
    /// Ends the wait of the task's call that is going on, or else of the next that would wait: it
    /// returns what it has done so far, or `EINTR`. Several before that count as one. Whether the
    /// call is then made again (`SA_RESTART`) is the host's to decide.
    pub fn interrupt(&self) {
        self.0.interrupt();
    }

    /// Takes an interrupt back that has ended no wait, as when the signal was delivered after a
    /// call that did not wait; whether there was one.
    pub fn withdraw(&self) -> bool {
        self.0.withdraw()
    }
}

impl Task {
    /// What interrupts this task's calls when they wait. Linux: a pending signal.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        Interrupter(self.core.sleeper.clone())
    }
}
