// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where workers leave what they have done for the owner of a ring, and how the owner learns of it.
//!
//! # Rules
//! R1. Everything that a worker does here comes after its parcel is in the box: who is told looks,
//!     and finds it.
//! R2. Nobody is told with a lock held: a waker and a hook are a host's code.
//! R3. The bell rings once for each time the box was armed, for any number of parcels.

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
    /// Leaves a job that is done, and tells who waits for it.
    pub(crate) fn deliver(&self, job: Parcel<Job>) {
        let signal = job.signal.clone();
        let was_armed = self.inbox.post(job);
        if let Some(signal) = signal {
            signal.wake();
        }
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
#[derive(Clone, Default)]
pub(crate) struct Signal(Arc<Mutex<Option<Waker>, RingWaker>>);

impl Signal {
    /// Has `waker` told from now on.
    pub(crate) fn set(&self, waker: &Waker) {
        let mut place = self.0.lock();
        let old = match &*place {
            Some(old) if old.will_wake(waker) => None,
            _ => place.replace(waker.clone()),
        };
        drop(place);
        drop(old);
    }

    /// Has nobody told.
    pub(crate) fn clear(&self) {
        let old = self.0.lock().take();
        drop(old);
    }

    fn wake(&self) {
        let waker = self.0.lock().take();
        if let Some(waker) = waker {
            tell(|| waker.wake());
        }
    }
}
