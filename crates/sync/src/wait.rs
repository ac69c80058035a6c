// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for something that a lock protects, until it is so, a time is up, or an interrupt comes.
//!
//! # Kernel analogue
//! `wait_queue_head_t` with `wait_event_interruptible_exclusive_timeout`; an interrupt is a pending
//! signal.
//!
//! # States of a sleeper
//! Awake -> queued (the lock is held) -> asleep (it is let go) -> taken out of the queue by who
//! wakes it, or by itself -> awake, with the lock held.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | a queue | the lock of what it lies in | the same |
//! | `woken`, `interrupted` | the sleeper's own lock | the same |
//!
//! # Rules
//! R1. A queue lies in what the lock protects. Who waits enters it before the lock is let go, and
//!     who changes something wakes with the lock held: no wake-up is lost.
//! R2. A wake-up means no more than that it is worth looking again. Who was woken looks, and if
//!     something is left for another, wakes that other: see [`WaitQueue::wake_one`].
//! R3. What has come is preferred to an interrupt, and an interrupt to the end of time: the caller
//!     looks first, and waits only for what is not there.
//! R4. Nobody sleeps with a lock held, or in a read section. Debug builds check it.
//! R5. Who dies asleep leaves the queue; if a wake-up was spent on it, all others are woken.
//!
//! # Limits
//! Under loom and shuttle no time is ever up.

use crate::lock::{LockClass, Mutex, MutexGuard};
use crate::lockdep;
use crate::prim::{self, unfailing};
use core::mem;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// What a sleeper was told.
#[derive(Default)]
struct Told {
    woken: bool,
    interrupted: bool,
}

#[derive(Default)]
struct Bed {
    told: prim::Mutex<Told>,
    wake: prim::Condvar,
}

/// One who waits, for one thing at a time; clones are the same one.
#[derive(Clone, Default)]
pub struct Sleeper(Arc<Bed>);

/// Why a wait ended without what was waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// By [`Sleeper::interrupt`], of which nothing is left.
    Interrupted,
    /// The time was up.
    TimedOut,
}

impl Sleeper {
    /// Ends the wait that is going on, or else the next one. Linux: `signal_wake_up`.
    pub fn interrupt(&self) {
        let _step = unfailing();
        self.0.told.lock().interrupted = true;
        self.0.wake.notify_one();
    }

    /// Takes an interrupt back that has ended nothing yet; whether there was one.
    pub fn withdraw(&self) -> bool {
        mem::take(&mut self.0.told.lock().interrupted)
    }

    fn wake(&self) {
        let _step = unfailing();
        self.0.told.lock().woken = true;
        self.0.wake.notify_one();
    }

    /// Sleeps until woken or interrupted, or the time is up. A wake-up of before counts.
    fn sleep(&self, until: Option<Instant>) {
        let mut told = self.0.told.lock();
        while !told.woken && !told.interrupted {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            told = match left {
                None => self.0.wake.wait(told),
                Some(left) if left.is_zero() => break,
                Some(left) => self.0.wake.wait_for(told, left),
            };
        }
        told.woken = false;
    }

    /// Why not to wait.
    fn ended(&self, until: Option<Instant>) -> Option<Ended> {
        if self.withdraw() {
            return Some(Ended::Interrupted);
        }
        let over = until.is_some_and(|until| until <= Instant::now());
        over.then_some(Ended::TimedOut)
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Sleeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sleeper({:p})", Arc::as_ptr(&self.0))
    }
}

/// Who waits for one thing, in the order they came.
#[derive(Debug, Default)]
pub struct WaitQueue(VecDeque<Sleeper>);

/// Sleepers taken out of their queue, who are woken when this is dropped: best when the lock is let
/// go, which they want next.
#[must_use]
#[derive(Debug, Default)]
pub struct Wake {
    first: Option<Sleeper>,
    others: VecDeque<Sleeper>,
}

impl Drop for Wake {
    fn drop(&mut self) {
        for sleeper in self.first.iter().chain(&self.others) {
            sleeper.wake();
        }
    }
}

impl WaitQueue {
    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Wakes who has waited longest, which must wake the next if it leaves something for another.
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

    /// Takes a sleeper out; whether it was in.
    fn remove(&mut self, sleeper: &Sleeper) -> bool {
        let at = self.0.iter().position(|other| other.is(sleeper));
        at.and_then(|at| self.0.remove(at)).is_some()
    }
}

/// A sleeper in a queue.
struct Queued<'a, T, C: LockClass> {
    lock: &'a Mutex<T, C>,
    queue: fn(&mut T) -> &mut WaitQueue,
    sleeper: &'a Sleeper,
}

impl<T, C: LockClass> Drop for Queued<'_, T, C> {
    /// R5
    fn drop(&mut self) {
        let _step = unfailing();
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
    /// Lets go of the lock that `guard` is of, waits in `queue` of what it protects, and takes it
    /// again. The caller looks before and after.
    ///
    /// ```
    /// use openpath_sync::{Ended, Mutex, Sleeper, WaitQueue, lock_classes};
    /// lock_classes! { const ALL; /// A shelf.
    ///     Shelf; }
    /// let shelf: Mutex<(u32, WaitQueue), Shelf> = Mutex::default();
    /// let me = Sleeper::default();
    /// std::thread::scope(|s| {
    ///     s.spawn(|| {
    ///         let mut held = shelf.lock();
    ///         held.0 += 1;
    ///         let wake = held.1.wake_one();
    ///         drop(held);
    ///         drop(wake);
    ///     });
    ///     let mut held = shelf.lock();
    ///     while held.0 == 0 {
    ///         let waited = shelf.wait(held, |shelf| &mut shelf.1, &me, None);
    ///         held = waited.map_err(|(_held, why)| why).expect("no interrupt");
    ///     }
    /// });
    /// me.interrupt();
    /// let ended = shelf.wait(shelf.lock(), |shelf| &mut shelf.1, &me, None);
    /// assert!(ended.is_err_and(|(_held, why)| why == Ended::Interrupted));
    /// ```
    ///
    /// # Errors
    /// The guard, and why there is no waiting.
    ///
    /// # Panics
    /// In debug builds, if another lock is held, or this is a read section.
    #[track_caller]
    pub fn wait<'a>(
        &'a self,
        mut guard: MutexGuard<'a, T, C>,
        queue: fn(&mut T) -> &mut WaitQueue,
        sleeper: &Sleeper,
        until: Option<Instant>,
    ) -> Result<MutexGuard<'a, T, C>, (MutexGuard<'a, T, C>, Ended)> {
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
        /// Outside of the shelf.
        Room;
        /// What is waited for.
        Shelf;
    }

    type Goods = Mutex<(u32, WaitQueue), Shelf>;

    fn queue(goods: &mut (u32, WaitQueue)) -> &mut WaitQueue {
        &mut goods.1
    }

    /// Takes one, or says why there was none.
    fn take(shelf: &Goods, sleeper: &Sleeper, until: Option<Instant>) -> Result<(), Ended> {
        let mut held = shelf.lock();
        while held.0 == 0 {
            held = match shelf.wait(held, queue, sleeper, until) {
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

    fn put(shelf: &Goods, count: u32) {
        let mut held = shelf.lock();
        held.0 += count;
        let wake = held.1.wake_one();
        drop(held);
        drop(wake);
    }

    #[test]
    fn one_wake_up_serves_as_many_as_there_is_something_for() {
        let shelf = Goods::default();
        let (done, all) = mpsc::channel();
        thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| done.send(take(&shelf, &Sleeper::default(), None)));
            }
            put(&shelf, 5);
            for _ in 0..5 {
                assert_eq!(all.recv(), Ok(Ok(())));
            }
            put(&shelf, 3);
        });
        assert_eq!(all.try_iter().count(), 3);
        assert!(shelf.lock().1.is_empty());
    }

    #[test]
    fn what_is_there_comes_before_an_interrupt_and_that_before_the_time() {
        let (shelf, me) = (Goods::default(), Sleeper::default());
        put(&shelf, 1);
        me.interrupt();
        let past = Some(Instant::now());
        assert_eq!(take(&shelf, &me, past), Ok(()));
        assert_eq!(take(&shelf, &me, past), Err(Ended::Interrupted));
        assert_eq!(take(&shelf, &me, past), Err(Ended::TimedOut));
        me.interrupt();
        assert_eq!((me.withdraw(), me.withdraw()), (true, false));
        let soon = Instant::now() + Duration::from_millis(20);
        assert_eq!(take(&shelf, &me, Some(soon)), Err(Ended::TimedOut));
        assert!(Instant::now() >= soon && shelf.lock().1.is_empty());
    }

    #[test]
    fn an_interrupt_ends_a_wait_that_is_going_on() {
        let (shelf, me) = (Goods::default(), Sleeper::default());
        thread::scope(|s| {
            let waits = s.spawn(|| take(&shelf, &me, None));
            while shelf.lock().1.is_empty() {
                thread::yield_now();
            }
            me.interrupt();
            assert_eq!(waits.join().expect("a thread"), Err(Ended::Interrupted));
        });
    }

    #[test]
    fn these_locks_have_an_order() {
        assert_eq!(CLASSES.len(), 2);
    }

    #[test]
    #[cfg(debug_assertions)]
    fn nobody_sleeps_with_a_lock_held() {
        let (room, shelf) = (Mutex::<(), Room>::default(), Goods::default());
        let asleep = std::panic::AssertUnwindSafe(|| {
            let _held = room.lock();
            take(&shelf, &Sleeper::default(), None)
        });
        assert!(std::panic::catch_unwind(asleep).is_err());
        assert!(shelf.lock().1.is_empty(), "R5");
    }
}
