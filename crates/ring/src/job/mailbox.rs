// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the completion mailbox of a ring: workers post finished jobs, and the owner is
//! notified.
//!
//! # Rules
//! R1. A worker notifies after its job is in the inbox: a notified owner that looks finds it.
//! R2. No lock is held while wakers and hooks are called: they are a host's code.
//! R3. The owner is notified once for each time the inbox was armed, for any number of jobs.
//! R4. If a future was dropped, the worker drops the result of its job. A job is posted with its
//!     [`SharedWaker`] locked: either the worker sees that the future is dropped, or the future
//!     finds the job in the inbox.

use super::Job;
use openpath_sync::{Message, MessageList, Mutex, WaitError, WaitQueue, Waiter};
use openpath_vfs::lock_order::{RingBell, RingWaker};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

/// Called when something has completed: see [`crate::Ring::on_completion`].
pub(crate) type Hook = Arc<dyn Fn() + Send + Sync>;

/// What is notified.
#[derive(Default)]
struct Waiters {
    asleep: WaitQueue,
    hook: Option<Hook>,
    /// Futures that wait until a job comes back.
    wakers: Vec<Waker>,
}

/// The part of a ring that its workers see.
#[derive(Default)]
pub(crate) struct Mailbox {
    pub(crate) inbox: MessageList<Job>,
    waiters: Mutex<Waiters, RingBell>,
}

/// Calls a host's code, and catches its panic.
fn call_host(what: impl FnOnce()) {
    let _panicked = catch_unwind(AssertUnwindSafe(what));
}

impl Mailbox {
    /// Posts a finished job, and notifies its waiter. The result for a dropped future is dropped
    /// here (R4).
    pub(crate) fn post(&self, job: Message<Job>) {
        let was_armed = match job.waker.clone() {
            None => self.inbox.post(job),
            Some(waker) => waker.post(job, &self.inbox),
        };
        if was_armed {
            self.notify();
        }
    }

    /// Wakes the owner, however it waits.
    pub(crate) fn notify(&self) {
        let mut waiters = self.waiters.lock();
        let wake = waiters.asleep.wake_all();
        let hook = waiters.hook.clone();
        let wakers = std::mem::take(&mut waiters.wakers);
        drop(waiters);
        drop(wake);
        for waker in wakers {
            call_host(|| waker.wake());
        }
        if let Some(hook) = hook {
            call_host(|| hook());
        }
    }

    /// Sleeps until a job is in the inbox, or the owner is notified.
    ///
    /// # Errors
    /// Why the sleep ended early.
    pub(crate) fn sleep(&self, sleeper: &Waiter, until: Option<Instant>) -> Result<(), WaitError> {
        let waiters = self.waiters.lock();
        if !self.inbox.arm() {
            return Ok(());
        }
        let waited = self
            .waiters
            .wait(waiters, |waiters| &mut waiters.asleep, sleeper, until);
        waited.map(drop).map_err(|(_bell, why)| why)
    }

    /// Has `waker` woken when the next job comes back; false if one has already.
    pub(crate) fn wake_on_return(&self, waker: &Waker) -> bool {
        let mut waiters = self.waiters.lock();
        if !waiters.wakers.iter().any(|other| other.will_wake(waker)) {
            waiters.wakers.push(waker.clone());
        }
        drop(waiters);
        self.inbox.arm()
    }

    /// Sets the hook.
    pub(crate) fn set_hook(&self, hook: Option<Hook>) {
        let old = std::mem::replace(&mut self.waiters.lock().hook, hook);
        drop(old);
    }
}

/// What is woken when a job is done.
#[derive(Default)]
enum Awaiting {
    #[default]
    None,
    Waker(Waker),
    /// The future was dropped.
    Dropped,
}

/// An [`Awaiting`] that the future and the worker share.
#[derive(Clone, Default)]
pub(crate) struct SharedWaker(Arc<Mutex<Awaiting, RingWaker>>);

impl SharedWaker {
    /// Sets the waker.
    pub(crate) fn set(&self, waker: &Waker) {
        let mut waiter = self.0.lock();
        let old = match &*waiter {
            Awaiting::Waker(old) if old.will_wake(waker) => Awaiting::None,
            _ => std::mem::replace(&mut *waiter, Awaiting::Waker(waker.clone())),
        };
        drop(waiter);
        drop(old);
    }

    /// Removes the waker.
    pub(crate) fn clear(&self) {
        self.put(Awaiting::None);
    }

    /// Has the worker drop the result of the job. A job that is in the inbox already stays there.
    pub(crate) fn abandon(&self) {
        self.put(Awaiting::Dropped);
    }

    /// Posts its job, and wakes the waiter; returns whether the inbox was armed (R4).
    fn post(&self, mut job: Message<Job>, inbox: &MessageList<Job>) -> bool {
        let mut waiter = self.0.lock();
        if matches!(*waiter, Awaiting::Dropped) {
            drop(waiter);
            let unwanted = job.outcome.take();
            call_host(|| drop(unwanted));
            return inbox.post(job);
        }
        let was_armed = inbox.post(job);
        let woken = std::mem::take(&mut *waiter);
        drop(waiter);
        if let Awaiting::Waker(waker) = woken {
            call_host(|| waker.wake());
        }
        was_armed
    }

    fn put(&self, waiter: Awaiting) {
        let old = std::mem::replace(&mut *self.0.lock(), waiter);
        drop(old);
    }
}
