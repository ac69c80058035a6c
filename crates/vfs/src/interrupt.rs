// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the handle with which any thread interrupts a waiting call of a task, as a signal does.

use crate::task::Task;
use openpath_sync::Waiter;

/// Interrupts the calls of one task, from any thread.
///
/// A call that waits can be interrupted: opening, reading and writing a FIFO, waiting for a lock,
/// reading events, and driver calls that allow it. A call that can go on without waiting is never
/// interrupted.
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
    /// Ends the wait of the task's present call, or else of the next one that would wait: that
    /// returns what it has done so far, or `EINTR`. Several interrupts before that count as one.
    /// The host decides whether the call is made again (`SA_RESTART`).
    pub fn interrupt(&self) {
        self.0.interrupt();
    }

    /// Takes back an interrupt that has ended no wait, if the signal came after a call that did not
    /// wait; whether there was one.
    pub fn withdraw(&self) -> bool {
        self.0.withdraw()
    }
}

impl Task {
    /// The interrupter of this task's calls. Linux: a pending signal.
    #[must_use]
    pub fn interrupter(&self) -> Interrupter {
        Interrupter(self.core.sleeper.clone())
    }
}
