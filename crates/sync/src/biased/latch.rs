// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the latch that a biased lock with several handles takes: one read-modify-write to
//! acquire, plain stores to release.
//!
//! # Kernel analogue
//! A queued spin lock, which unlocks by a store as well; here a waiter yields its CPU.
//!
//! # States
//! Free -> held -> free. A waiter spins, then counts itself in `waiting` and sleeps.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | `held` | compare-and-swap to acquire; the holder's store to release | no lock |
//! | `waiting` | `sleep_lock` | no lock |
//!
//! # Rules
//! R1. PAIR(latch.sleep): release stores `held`, runs the light fence, reads `waiting`. A waiter
//!     stores `waiting`, runs the heavy fence, tries `held`. If the first store comes first, the
//!     try succeeds. If the second comes first, the releasing thread sees the waiter and wakes one.
//! R2. A waiter holds `sleep_lock` from its try until it sleeps, and a waker passes through
//!     `sleep_lock`. So no wake-up falls between a waiter's try and its sleep.
//!
//! # Limits
//! Not fair. If the system refuses the heavy fence, a waiter polls with short sleeps.

use crate::asymmetric_fence;
use crate::primitive::{AtomicU32, Condvar, Mutex, Ordering, SPINS, relax, short_sleep};

const FREE: u32 = 0;
const HELD: u32 = 1;

/// A lock around no value.
pub(super) struct Latch {
    held: AtomicU32,
    waiting: AtomicU32,
    fence: asymmetric_fence::Fence,
    sleep_lock: Mutex<()>,
    wake: Condvar,
}

impl Latch {
    pub(super) fn new() -> Self {
        Self {
            held: AtomicU32::new(FREE),
            waiting: AtomicU32::new(0),
            fence: asymmetric_fence::Fence::of_process(),
            sleep_lock: Mutex::new(()),
            wake: Condvar::default(),
        }
    }

    /// Takes the latch if it is free.
    #[inline(always)]
    fn try_lock(&self) -> bool {
        self.held
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Waits for the latch.
    #[inline(always)]
    pub(super) fn lock(&self) {
        if !self.try_lock() {
            self.lock_slow();
        }
    }

    #[cold]
    fn lock_slow(&self) {
        for _ in 0..SPINS {
            relax();
            // Relaxed: a hint, so that waiters share the cache line until it changes.
            if self.held.load(Ordering::Relaxed) == FREE && self.try_lock() {
                return;
            }
        }
        let mut guard = self.sleep_lock.lock();
        // Relaxed load: `sleep_lock` is held.
        let others = self.waiting.load(Ordering::Relaxed);
        self.waiting.store(others + 1, Ordering::Relaxed);
        // PAIR(latch.sleep): the count is visible before the latch is tried.
        let fenced = asymmetric_fence::try_heavy();
        while !self.try_lock() {
            if fenced {
                guard = self.wake.wait(guard);
            } else {
                drop(guard);
                short_sleep();
                guard = self.sleep_lock.lock();
            }
        }
        let waiting = self.waiting.load(Ordering::Relaxed);
        self.waiting.store(waiting - 1, Ordering::Relaxed);
        drop(guard);
    }

    /// Releases the latch. Only its holder may.
    #[inline(always)]
    pub(super) fn unlock(&self) {
        self.held.store(FREE, Ordering::Release);
        // PAIR(latch.sleep): the latch is free before waiters are looked for.
        self.fence.light();
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.wake_one();
        }
    }

    #[cold]
    fn wake_one(&self) {
        drop(self.sleep_lock.lock());
        self.wake.notify_one();
    }
}
