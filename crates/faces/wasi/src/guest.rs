// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines what a wasmtime store holds for a guest of preview1: its task, descriptors, arguments,
//! streams and limits, and the interrupt of its waits.
//!
//! # Locks
//! Only that of [`Pause`], which is held for a moment. One thread uses a guest at a time, because
//! one thread uses its store at a time.
//!
//! # Rules
//! R1. A guest has one memory, found at its first call. A host that puts another instance into the
//!     store calls [`Guest::forget_memory`].

use crate::clocks::Clocks;
use crate::streams::{Input, Output};
use crate::table::Table;
use openpath_vfs::{Entropy, Interrupter, Task};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The limits of a guest beyond those of its task and its tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GuestLimits {
    /// The most buffers of one read or write; more are `EINVAL`.
    pub buffers: u32,
    /// The most subscriptions of one `poll_oneoff`; more are `EINVAL`.
    pub subscriptions: u32,
    /// The longest `poll_oneoff`, by the host's own monotonic clock; a longer one ends with
    /// `EINTR`.
    pub wait: Duration,
}

impl Default for GuestLimits {
    fn default() -> Self {
        Self::new()
    }
}

impl GuestLimits {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buffers: 1024,
            subscriptions: 4096,
            wait: Duration::from_secs(24 * 60 * 60),
        }
    }
}

openpath_vfs::setters! {
    const GuestLimits {
        buffers: u32,
        subscriptions: u32,
        wait: Duration,
    }
}

/// What a wasmtime store holds for a guest.
pub struct Guest {
    pub(crate) task: Task,
    pub(crate) table: Table,
    pub(crate) stdin: Input,
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
    /// Each ends with a NUL.
    pub(crate) args: Arc<[Box<[u8]>]>,
    /// Each ends with a NUL.
    pub(crate) env: Arc<[Box<[u8]>]>,
    pub(crate) clocks: Arc<dyn Clocks>,
    pub(crate) random: Arc<dyn Entropy>,
    pub(crate) limits: GuestLimits,
    pub(crate) pause: Arc<Pause>,
    /// Set when the host ends the guest: it makes no further call.
    pub(crate) ended: Arc<OnceLock<()>>,
    pub(crate) memory: Option<wasmtime::Memory>,
}

impl Guest {
    /// The task that makes the guest's calls. A host may use it between calls, and closes what it
    /// opens.
    #[must_use]
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// A handle that interrupts the guest from any thread.
    #[must_use]
    pub fn interrupt(&self) -> Interrupt {
        Interrupt {
            task: self.task.interrupter(),
            pause: Arc::clone(&self.pause),
            ended: Arc::clone(&self.ended),
        }
    }

    /// Forgets the memory, because another instance follows in this store (R1).
    pub fn forget_memory(&mut self) {
        self.memory = None;
    }
}

impl std::fmt::Debug for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guest")
            .field("table", &self.table)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Interrupts waiting calls of a guest: each returns what it has done so far, or `EINTR`.
///
/// A guest that makes no calls is ended only by the engine's epoch or fuel.
#[derive(Clone)]
pub struct Interrupt {
    task: Interrupter,
    pause: Arc<Pause>,
    ended: Arc<OnceLock<()>>,
}

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupt").finish_non_exhaustive()
    }
}

impl Interrupt {
    /// Ends the current wait, or else the next one; several interrupts before it count as one.
    pub fn interrupt(&self) {
        self.task.interrupt();
        self.pause.wake();
    }

    /// Ends the guest: a current wait ends, and the next call and all later ones fail with
    /// [`Ended`](crate::Ended). Computation between calls goes on, and changes nothing outside the
    /// guest.
    pub fn end(&self) {
        self.ended.set(()).ok();
        self.interrupt();
    }
}

/// Sleeps for a guest that waits for time.
///
/// Only the task knows that the guest was interrupted, so that one interrupt ends one wait, whether
/// for time or for data. This only wakes a thread that waits for time.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    asleep: Mutex<()>,
    woken: Condvar,
}

impl Pause {
    /// Wakes a sleeping thread, which then checks for an interrupt.
    fn wake(&self) {
        // The lock keeps the wake-up from falling between a check and the sleep after it.
        let _held = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        self.woken.notify_all();
    }

    /// Sleeps this long; returns whether an interrupt came, and clears it.
    pub(crate) fn wait(&self, task: &Interrupter, time: Duration) -> bool {
        let asleep = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        let mut interrupted = false;
        let _slept = self
            .woken
            .wait_timeout_while(asleep, time, |()| {
                interrupted = task.withdraw();
                !interrupted
            })
            .unwrap_or_else(PoisonError::into_inner);
        interrupted
    }
}
