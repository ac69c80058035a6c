// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lock of a shared pair: one read-modify-write to take it, plain stores to let it go.
//!
//! # Kernel analogue
//! A queued spin lock, whose unlock is a store as well; here a waiter gives up its processor.
//!
//! # States
//! Free -> held -> free. A waiter spins, then counts itself in `waiting` and sleeps.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | `held` | compare-and-swap to take, the holder to let go | nothing |
//! | `waiting` | `asleep` | nothing |
//!
//! # Rules
//! R1. PAIR(latch.sleep): who lets go stores `held`, light fence, reads `waiting`; who is about to
//!     sleep stores `waiting`, heavy fence, tries `held`. If the first store is first, the try gets
//!     the latch; if the second is first, the holder sees that somebody waits and wakes one.
//! R2. A waiter tries, and goes to sleep, with `asleep` held, and a waker passes through `asleep`,
//!     so nobody is woken between its try and its sleep.
//!
//! # Limits
//! Not fair. Where the system refuses the heavy fence, a waiter naps instead of sleeping.

use crate::asym;
use crate::prim::{AtomicU32, Condvar, Mutex, Ordering, SPINS, nap, relax};

const FREE: u32 = 0;
const HELD: u32 = 1;

/// A lock without a value.
pub(super) struct Latch {
    held: AtomicU32,
    waiting: AtomicU32,
    fence: asym::Fence,
    asleep: Mutex<()>,
    wake: Condvar,
}

impl Latch {
    pub(super) fn new() -> Self {
        Self {
            held: AtomicU32::new(FREE),
            waiting: AtomicU32::new(0),
            fence: asym::Fence::of_process(),
            asleep: Mutex::new(()),
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
            self.lock_slowly();
        }
    }

    #[cold]
    fn lock_slowly(&self) {
        for _ in 0..SPINS {
            relax();
            // Relaxed: a hint, so that waiters share the line until it changes.
            if self.held.load(Ordering::Relaxed) == FREE && self.try_lock() {
                return;
            }
        }
        let mut asleep = self.asleep.lock();
        // Relaxed load: `asleep` is held.
        let others = self.waiting.load(Ordering::Relaxed);
        self.waiting.store(others + 1, Ordering::Relaxed);
        // PAIR(latch.sleep): the count is out before the latch is tried.
        let fenced = asym::try_heavy();
        while !self.try_lock() {
            if fenced {
                asleep = self.wake.wait(asleep);
            } else {
                drop(asleep);
                nap();
                asleep = self.asleep.lock();
            }
        }
        let waiting = self.waiting.load(Ordering::Relaxed);
        self.waiting.store(waiting - 1, Ordering::Relaxed);
        drop(asleep);
    }

    /// Lets the latch go. Only its holder may.
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
        drop(self.asleep.lock());
        self.wake.notify_one();
    }
}
