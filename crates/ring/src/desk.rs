// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where workers leave what they have done for the owner of a ring, and how the owner learns of it.
//!
//! # Rules
//! R1. Everything that a worker does here comes after its parcel is in the box: who is told looks,
//!     and finds it.
//! R2. Nobody is told with a lock held: a waker and a hook are a host's code.
//! R3. The bell rings once for each time the box was armed, for any number of parcels.
//! R4. What came of a job whose future was dropped is dropped by the worker, and waits for nobody:
//!     a job is posted with its [`Signal`] locked, so that a future that says it is gone either is
//!     seen, or finds the job in the box.

use crate::pool::Job;
use openpath_sync::{Ended, Inbox, Mutex, Parcel, Sleeper, WaitQueue};
use openpath_vfs::lock_order::{RingBell, RingWaker};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

/// Called when something is done: see [`crate::Ring::on_completion`].
pub(crate) type Hook = Arc<dyn Fn() + Send + Sync>;

/// Who is told.
#[derive(Default)]
struct Bell {
    asleep: WaitQueue,
    hook: Option<Hook>,
    /// Futures that wait until something has come back.
    room: Vec<Waker>,
}

/// The side of a ring that its workers see.
#[derive(Default)]
pub(crate) struct Desk {
    pub(crate) inbox: Inbox<Job>,
    bell: Mutex<Bell, RingBell>,
}

/// Calls a host's code, whose panic is its own.
fn tell(what: impl FnOnce()) {
    let _panicked = catch_unwind(AssertUnwindSafe(what));
}

impl Desk {
    /// Leaves a job that is done, and tells who waits for it. What came of one that nobody asks for
    /// goes here (R4).
    pub(crate) fn deliver(&self, job: Parcel<Job>) {
        let was_armed = match job.signal.clone() {
            None => self.inbox.post(job),
            Some(signal) => signal.post(job, &self.inbox),
        };
        if was_armed {
            self.ring();
        }
    }

    /// Wakes the owner, however it waits.
    pub(crate) fn ring(&self) {
        let mut bell = self.bell.lock();
        let wake = bell.asleep.wake_all();
        let hook = bell.hook.clone();
        let room = std::mem::take(&mut bell.room);
        drop(bell);
        drop(wake);
        for waker in room {
            tell(|| waker.wake());
        }
        if let Some(hook) = hook {
            tell(|| hook());
        }
    }

    /// Sleeps until something is in the box, or somebody rings.
    ///
    /// # Errors
    /// Why it did not wait to the end.
    pub(crate) fn sleep(&self, sleeper: &Sleeper, until: Option<Instant>) -> Result<(), Ended> {
        let bell = self.bell.lock();
        if !self.inbox.arm() {
            return Ok(());
        }
        let waited = self
            .bell
            .wait(bell, |bell| &mut bell.asleep, sleeper, until);
        waited.map(drop).map_err(|(_bell, why)| why)
    }

    /// Has `waker` told of the next that comes back; `false` if something has already.
    pub(crate) fn await_room(&self, waker: &Waker) -> bool {
        let mut bell = self.bell.lock();
        if !bell.room.iter().any(|other| other.will_wake(waker)) {
            bell.room.push(waker.clone());
        }
        drop(bell);
        self.inbox.arm()
    }

    /// Has `hook` called from now on.
    pub(crate) fn set_hook(&self, hook: Option<Hook>) {
        let old = std::mem::replace(&mut self.bell.lock().hook, hook);
        drop(old);
    }
}

/// Who is told that one job is done.
#[derive(Default)]
enum Listener {
    #[default]
    Nobody,
    Waker(Waker),
    /// The future was dropped.
    Gone,
}

/// The place of a [`Listener`], which the future and the worker share.
#[derive(Clone, Default)]
pub(crate) struct Signal(Arc<Mutex<Listener, RingWaker>>);

impl Signal {
    /// Has `waker` told from now on.
    pub(crate) fn set(&self, waker: &Waker) {
        let mut place = self.0.lock();
        let old = match &*place {
            Listener::Waker(old) if old.will_wake(waker) => Listener::Nobody,
            _ => std::mem::replace(&mut *place, Listener::Waker(waker.clone())),
        };
        drop(place);
        drop(old);
    }

    /// Has nobody told.
    pub(crate) fn clear(&self) {
        self.put(Listener::Nobody);
    }

    /// Has the worker drop what comes of the job. What is in the box by now stays there.
    pub(crate) fn abandon(&self) {
        self.put(Listener::Gone);
    }

    /// Posts the job that it is about, and tells who waits; whether the box was armed (R4).
    fn post(&self, mut job: Parcel<Job>, inbox: &Inbox<Job>) -> bool {
        let mut place = self.0.lock();
        if matches!(*place, Listener::Gone) {
            drop(place);
            let unasked = job.outcome.take();
            tell(|| drop(unasked));
            return inbox.post(job);
        }
        let was_armed = inbox.post(job);
        let listener = std::mem::take(&mut *place);
        drop(place);
        if let Listener::Waker(waker) = listener {
            tell(|| waker.wake());
        }
        was_armed
    }

    fn put(&self, listener: Listener) {
        let old = std::mem::replace(&mut *self.0.lock(), listener);
        drop(old);
    }
}
