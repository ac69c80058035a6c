// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a mutex of one byte around no value, for items of a [`crate::Region`]: zero is free.

use super::LockClass;
use crate::lockdep::{self, Ask, Held};
use crate::primitive::no_fault_injection;
use crate::zero_valid::ZeroValid;
use core::marker::PhantomData;

#[cfg(not(any(loom, shuttle)))]
use native::Raw;
#[cfg(any(loom, shuttle))]
use spin::Raw;

/// A lock of class `C`; its owner defines what it protects.
pub struct RawLock<C: LockClass> {
    raw: Raw,
    class: PhantomData<fn() -> C>,
}

impl<C: LockClass> Default for RawLock<C> {
    fn default() -> Self {
        Self {
            raw: Raw::default(),
            class: PhantomData,
        }
    }
}

// SAFETY: one zero-valid word (`Raw`) and a marker without size.
unsafe impl<C: LockClass> ZeroValid for RawLock<C> {}

impl<C: LockClass> RawLock<C> {
    /// Waits for the lock.
    ///
    /// # Panics
    /// In debug builds, if a lock of an inner class is held.
    #[track_caller]
    pub fn lock(&self) -> RawGuard<'_, C> {
        let ask = if C::NESTS { Ask::Nested } else { Ask::Wait };
        lockdep::check(C::RANK, C::NAME, ask);
        self.raw.lock();
        RawGuard {
            lock: self,
            _held: lockdep::taken(C::RANK, C::NAME),
        }
    }
}

/// A held [`RawLock`].
#[must_use]
pub struct RawGuard<'a, C: LockClass> {
    lock: &'a RawLock<C>,
    _held: Held,
}

impl<C: LockClass> Drop for RawGuard<'_, C> {
    fn drop(&mut self) {
        let _step = no_fault_injection();
        self.lock.raw.unlock();
    }
}

/// parking_lot's raw lock.
#[cfg(not(any(loom, shuttle)))]
mod native {
    use parking_lot::lock_api::RawMutex as _;

    /// One byte, zero when free.
    #[repr(transparent)]
    pub(super) struct Raw(parking_lot::RawMutex);

    impl Default for Raw {
        fn default() -> Self {
            Self(parking_lot::RawMutex::INIT)
        }
    }

    impl Raw {
        pub(super) fn lock(&self) {
            self.0.lock();
        }
        pub(super) fn unlock(&self) {
            // SAFETY: only a guard unlocks, and a guard exists only while the lock is held.
            unsafe { self.0.unlock() };
        }
    }

    #[test]
    fn a_free_lock_is_all_zero() {
        // SAFETY: a value of one byte that is initialised.
        let byte: u8 = unsafe { core::mem::transmute_copy(&Raw::default()) };
        assert_eq!((byte, size_of::<Raw>()), (0, 1));
    }
}

/// A spin lock that yields, where the scheduler is the model's.
#[cfg(any(loom, shuttle))]
mod spin {
    use crate::primitive::{AtomicU32, Ordering, relax};

    #[derive(Default)]
    pub(super) struct Raw(AtomicU32);

    impl Raw {
        pub(super) fn lock(&self) {
            let take = || {
                self.0
                    .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            };
            while take().is_err() {
                relax();
            }
        }
        pub(super) fn unlock(&self) {
            self.0.store(0, Ordering::Release);
        }
    }
}
