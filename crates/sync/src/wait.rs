// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements wait queues: a thread sleeps until something that a lock protects changes, its time
//! is up, or it is interrupted.
//!
//! # Kernel analogue
//! `wait_queue_head_t` with `wait_event_interruptible_exclusive_timeout`; an interrupt is a pending
//! signal.
//!
//! # States of a sleeper
//! Awake -> queued (the lock is held) -> asleep (the lock is released) -> removed from the queue by
//! a waker or by itself -> awake, with the lock held.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | a queue | the lock that it belongs to | the same |
//! | `woken`, `interrupted` | the sleeper's own lock | the same |
//!
//! # Rules
//! R1. A queue is part of what the lock protects. A sleeper enters it before the lock is released,
//!     and a thread that changes something wakes with the lock held: no wake-up is lost.
//! R2. A wake-up only means that it is worth checking again. The woken thread checks, and if
//!     something is left for another sleeper, wakes that one: see [`WaitQueue::wake_one`].
//! R3. What is available takes precedence over an interrupt, and an interrupt over a timeout: the
//!     caller checks first, and waits only for what is not there.
//! R4. No thread sleeps with a lock held, or in a read section. Debug builds check it.
//! R5. A thread that dies asleep leaves the queue; if a wake-up was spent on it, all others are
//!     woken.
//!
//! # Limits
//! Loom and shuttle have no clock: there no wait times out.

use crate::lock::{LockClass, Mutex, MutexGuard};
use crate::lockdep;
use crate::primitive::{self, no_fault_injection};
use core::mem;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Pending events of a sleeper.
#[derive(Default)]
struct Events {
    woken: bool,
    interrupted: bool,
}

#[derive(Default)]
struct WaiterState {
    events: primitive::Mutex<Events>,
    wake: primitive::Condvar,
}

/// A waiting thread, which waits for one thing at a time; clones denote the same one.
#[derive(Clone, Default)]
pub struct Waiter(Arc<WaiterState>);

/// Why a wait ended without success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitError {
    /// By [`Waiter::interrupt`], which is thereby consumed.
    Interrupted,
    /// The time is up.
    TimedOut,
}

impl Waiter {
    /// Ends the current wait, or else the next one. Linux: `signal_wake_up`.
    pub fn interrupt(&self) {
        let _step = no_fault_injection();
        self.0.events.lock().interrupted = true;
        self.0.wake.notify_one();
    }

    /// Withdraws an interrupt that has ended no wait yet; returns whether there was one.
    pub fn withdraw(&self) -> bool {
        mem::take(&mut self.0.events.lock().interrupted)
    }

    fn wake(&self) {
        let _step = no_fault_injection();
        self.0.events.lock().woken = true;
        self.0.wake.notify_one();
    }

    /// Sleeps until woken, interrupted or timed out. An earlier wake-up counts.
    fn sleep(&self, until: Option<Instant>) {
        let mut events = self.0.events.lock();
        while !events.woken && !events.interrupted {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            events = match left {
                None => self.0.wake.wait(events),
                Some(left) if left.is_zero() => break,
                Some(left) => self.0.wake.wait_for(events, left),
            };
        }
        events.woken = false;
    }

    /// The reason not to wait, if there is one.
    fn ended(&self, until: Option<Instant>) -> Option<WaitError> {
        if self.withdraw() {
            return Some(WaitError::Interrupted);
        }
        let over = until.is_some_and(|until| until <= Instant::now());
        over.then_some(WaitError::TimedOut)
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Waiter({:p})", Arc::as_ptr(&self.0))
    }
}

/// The sleepers that wait for one thing, in the order of their arrival.
#[derive(Debug, Default)]
pub struct WaitQueue(VecDeque<Waiter>);

/// Sleepers that were removed from their queue, and are woken when this is dropped: best after the
/// lock is released, which they take next.
#[must_use]
#[derive(Debug, Default)]
pub struct Wake {
    first: Option<Waiter>,
    others: VecDeque<Waiter>,
}

impl Drop for Wake {
    fn drop(&mut self) {
        for sleeper in self.first.iter().chain(&self.others) {
            sleeper.wake();
        }
    }
}

impl WaitQueue {
    /// Whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Wakes the longest waiting sleeper, which must wake the next if it leaves something for
    /// another.
    pub fn wake_one(&mut self) -> Wake {
        Wake {
            first: self.0.pop_front(),
            others: VecDeque::new(),
        }
    }

    /// Wakes everyone.
    pub fn wake_all(&mut self) -> Wake {
        Wake {
            first: None,
            others: mem::take(&mut self.0),
        }
    }

    /// Removes a sleeper; returns whether it was queued.
    fn remove(&mut self, sleeper: &Waiter) -> bool {
        let at = self.0.iter().position(|other| other.is(sleeper));
        at.and_then(|at| self.0.remove(at)).is_some()
    }
}

/// A sleeper in a queue.
struct Queued<'a, T, C: LockClass> {
    lock: &'a Mutex<T, C>,
    queue: fn(&mut T) -> &mut WaitQueue,
    sleeper: &'a Waiter,
}

impl<T, C: LockClass> Drop for Queued<'_, T, C> {
    /// R5
    fn drop(&mut self) {
        let _step = no_fault_injection();
        let mut guard = self.lock.lock();
        let queue = (self.queue)(&mut guard);
        let others = if queue.remove(self.sleeper) {
            Wake::default()
        } else {
            queue.wake_all()
        };
        drop(guard);
        drop(others);
    }
}

impl<T, C: LockClass> Mutex<T, C> {
    /// Releases the lock of `guard`, waits in `queue`, which is part of what it protects, and takes
    /// the lock again. The caller checks its condition before and after.
    ///
    /// ```
    /// use openpath_sync::{WaitError, Mutex, Waiter, WaitQueue, lock_classes};
    /// lock_classes! { const ALL; /// A units.
    ///     Counter; }
    /// let units: Mutex<(u32, WaitQueue), Counter> = Mutex::default();
    /// let me = Waiter::default();
    /// std::thread::scope(|s| {
    ///     s.spawn(|| {
    ///         let mut held = units.lock();
    ///         held.0 += 1;
    ///         let wake = held.1.wake_one();
    ///         drop(held);
    ///         drop(wake);
    ///     });
    ///     let mut held = units.lock();
    ///     while held.0 == 0 {
    ///         let waited = units.wait(held, |units| &mut units.1, &me, None);
    ///         held = waited.map_err(|(_held, why)| why).expect("no interrupt");
    ///     }
    /// });
    /// me.interrupt();
    /// let ended = units.wait(units.lock(), |units| &mut units.1, &me, None);
    /// assert!(ended.is_err_and(|(_held, why)| why == WaitError::Interrupted));
    /// ```
    ///
    /// # Errors
    /// The guard, and why the wait ended.
    ///
    /// # Panics
    /// In debug builds, if another lock is held, or this is a read section.
    #[track_caller]
    pub fn wait<'a>(
        &'a self,
        mut guard: MutexGuard<'a, T, C>,
        queue: fn(&mut T) -> &mut WaitQueue,
        sleeper: &Waiter,
        until: Option<Instant>,
    ) -> Result<MutexGuard<'a, T, C>, (MutexGuard<'a, T, C>, WaitError)> {
        if let Some(why) = sleeper.ended(until) {
            return Err((guard, why));
        }
        queue(&mut guard).0.push_back(sleeper.clone());
        drop(guard);
        let queued = Queued {
            lock: self,
            queue,
            sleeper,
        };
        lockdep::assert_idle("waiting");
        sleeper.sleep(until);
        let mut guard = self.lock();
        queue(&mut guard).remove(sleeper);
        mem::forget(queued);
        Ok(guard)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    crate::lock_classes! {
        const CLASSES;
        /// Outside of the counter.
        Outer;
        /// Protects the counter.
        Counter;
    }

    type Units = Mutex<(u32, WaitQueue), Counter>;

    fn queue(units: &mut (u32, WaitQueue)) -> &mut WaitQueue {
        &mut units.1
    }

    /// Takes one unit, or returns why there was none.
    fn take(units: &Units, sleeper: &Waiter, until: Option<Instant>) -> Result<(), WaitError> {
        let mut held = units.lock();
        while held.0 == 0 {
            held = match units.wait(held, queue, sleeper, until) {
                Ok(held) => held,
                Err((_, why)) => return Err(why),
            };
        }
        held.0 -= 1;
        let next = (held.0 > 0).then(|| held.1.wake_one());
        drop(held);
        drop(next);
        Ok(())
    }

    fn put(units: &Units, count: u32) {
        let mut held = units.lock();
        held.0 += count;
        let wake = held.1.wake_one();
        drop(held);
        drop(wake);
    }

    #[test]
    fn one_wake_up_serves_as_many_sleepers_as_there_are_units() {
        let units = Units::default();
        let (done, all) = mpsc::channel();
        thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| done.send(take(&units, &Waiter::default(), None)));
            }
            put(&units, 5);
            for _ in 0..5 {
                assert_eq!(all.recv(), Ok(Ok(())));
            }
            put(&units, 3);
        });
        assert_eq!(all.try_iter().count(), 3);
        assert!(units.lock().1.is_empty());
    }

    #[test]
    fn success_precedes_interrupt_and_interrupt_precedes_timeout() {
        let (units, me) = (Units::default(), Waiter::default());
        put(&units, 1);
        me.interrupt();
        let past = Some(Instant::now());
        assert_eq!(take(&units, &me, past), Ok(()));
        assert_eq!(take(&units, &me, past), Err(WaitError::Interrupted));
        assert_eq!(take(&units, &me, past), Err(WaitError::TimedOut));
        me.interrupt();
        assert_eq!((me.withdraw(), me.withdraw()), (true, false));
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(take(&units, &me, Some(soon)), Err(WaitError::TimedOut));
        assert!(Instant::now() >= soon && units.lock().1.is_empty());
    }

    #[test]
    fn interrupt_ends_a_wait_in_progress() {
        let (units, me) = (Units::default(), Waiter::default());
        thread::scope(|s| {
            let waits = s.spawn(|| take(&units, &me, None));
            while units.lock().1.is_empty() {
                thread::yield_now();
            }
            me.interrupt();
            assert_eq!(waits.join().expect("a thread"), Err(WaitError::Interrupted));
        });
    }

    #[test]
    fn lock_classes_are_declared() {
        assert_eq!(CLASSES.len(), 2);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn sleeping_with_a_lock_held_panics() {
        let (outer, units) = (Mutex::<(), Outer>::default(), Units::default());
        let asleep = std::panic::AssertUnwindSafe(|| {
            let _held = outer.lock();
            take(&units, &Waiter::default(), None)
        });
        assert!(std::panic::catch_unwind(asleep).is_err());
        assert!(units.lock().1.is_empty(), "R5");
    }
}
