// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest: its task, what it has open, and what it was started with.
//!
//! # Locks
//! None but that of [`Pause`], which is held for a moment. One thread uses a guest at a time, as it
//! does its store.
//!
//! # Rules
//! R1. A guest has one memory, found at its first call. A store whose instance is replaced by
//!     another is told so ([`Guest::forget_memory`]).

use crate::clocks::Clocks;
use crate::streams::{Input, Output};
use crate::table::Table;
use openpath_vfs::{Entropy, Interrupter, Task};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// What bounds a guest beyond its task and its tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuestLimits {
    /// Buffers of one read or write; more are `EINVAL`.
    pub buffers: u32,
    /// Subscriptions of one `poll_oneoff`; more are `EINVAL`.
    pub subscriptions: u32,
    /// A `poll_oneoff` that waits longer than this, by the host's own monotonic clock, ends with
    /// `EINTR`.
    pub wait: Duration,
}

impl Default for GuestLimits {
    fn default() -> Self {
        Self {
            buffers: 1024,
            subscriptions: 4096,
            wait: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// What a wasmtime store of a guest holds.
pub struct Guest {
    pub(crate) task: Task,
    pub(crate) table: Table,
    pub(crate) stdin: Input,
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
    /// Each with its NUL.
    pub(crate) args: Arc<[Box<[u8]>]>,
    /// Each with its NUL.
    pub(crate) env: Arc<[Box<[u8]>]>,
    pub(crate) clocks: Arc<dyn Clocks>,
    pub(crate) random: Arc<dyn Entropy>,
    pub(crate) limits: GuestLimits,
    pub(crate) pause: Arc<Pause>,
    /// Set when it is to end: it makes no further call.
    pub(crate) over: Arc<OnceLock<()>>,
    pub(crate) memory: Option<wasmtime::Memory>,
}

impl Guest {
    /// The task that its calls are made by: a host may use it between calls, and closes what it
    /// opens.
    #[must_use]
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// What interrupts it, from any thread.
    #[must_use]
    pub fn interrupt(&self) -> Interrupt {
        Interrupt {
            task: self.task.interrupter(),
            pause: Arc::clone(&self.pause),
            over: Arc::clone(&self.over),
        }
    }

    /// Another instance follows in this store: its memory is looked for anew (R1).
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

/// Interrupts the calls of a guest that wait: each returns what it has done so far, or `EINTR`.
///
/// A guest that makes no calls is ended by the engine's epoch or fuel alone.
#[derive(Clone)]
pub struct Interrupt {
    task: Interrupter,
    pause: Arc<Pause>,
    over: Arc<OnceLock<()>>,
}

impl Interrupt {
    /// Ends the wait that is going on, or else the next one; several before that count as one.
    pub fn interrupt(&self) {
        self.task.interrupt();
        self.pause.wake();
    }

    /// Has the next call of the guest fail with [`Ended`](crate::Ended), and all that follow; a
    /// wait that is going on ends. What it computes without a call goes on, and changes nothing
    /// outside it.
    pub fn end(&self) {
        self.over.set(()).ok();
        self.interrupt();
    }
}

/// What a guest waits for time by.
///
/// That it was interrupted is known to its task alone, so that one interrupt ends one wait, be it
/// for time or for data. This only wakes who waits for time.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    asleep: Mutex<()>,
    told: Condvar,
}

impl Pause {
    /// Has who waits look whether it was interrupted.
    fn wake(&self) {
        // With the lock, so that it does not come between a look and the sleep that follows.
        let _held = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        self.told.notify_all();
    }

    /// Waits this long; whether it was interrupted, which then is over.
    pub(crate) fn wait(&self, task: &Interrupter, time: Duration) -> bool {
        let asleep = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        let mut interrupted = false;
        let _slept = self
            .told
            .wait_timeout_while(asleep, time, |()| {
                interrupted = task.withdraw();
                !interrupted
            })
            .unwrap_or_else(PoisonError::into_inner);
        interrupted
    }
}
