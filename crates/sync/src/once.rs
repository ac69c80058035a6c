// SPDX-License-Identifier: MIT OR Apache-2.0
//! A value that is set once and then only read.
//!
//! The standard library's cell does the same, but hides its synchronisation from the thread
//! sanitizer; and a set here never waits for another: of two that are set at the same time, the
//! first stays and the second is dropped.

use crate::prim::{AtomicPtr, Ordering};
use core::marker::PhantomData;
use std::boxed::Box;

/// A slot for a value that, once set, stays as long as the slot.
pub struct WriteOnce<T> {
    value: AtomicPtr<T>,
    _owns: PhantomData<Box<T>>,
}

impl<T> Default for WriteOnce<T> {
    fn default() -> Self {
        Self {
            value: AtomicPtr::new(core::ptr::null_mut()),
            _owns: PhantomData,
        }
    }
}

impl<T: Send + Sync> WriteOnce<T> {
    /// The value, if it was set.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: a non-null pointer came from a box in `set`, is never replaced, and is freed only
        // when the slot is dropped; the release there orders what the box holds before it.
        unsafe { value.as_ref() }
    }

    /// Sets the value if there is none yet, and gives the one that stays.
    pub fn set(&self, value: T) -> &T {
        let new = Box::into_raw(Box::new(value));
        let null = core::ptr::null_mut();
        match self
            .value
            .compare_exchange(null, new, Ordering::AcqRel, Ordering::Acquire)
        {
            // SAFETY: just stored, and now kept as long as `self`.
            Ok(_) => unsafe { &*new },
            Err(first) => {
                // SAFETY: `new` came from a box above and was not stored.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: not null, or the exchange had not failed; kept as long as `self`.
                unsafe { &*first }
            }
        }
    }
}

impl<T> Drop for WriteOnce<T> {
    fn drop(&mut self) {
        if cfg!(loom) && std::thread::panicking() {
            // A model that found something is over, and with it the words that it knows.
            return;
        }
        let value = self.value.load(Ordering::Acquire);
        if !value.is_null() {
            // SAFETY: it came from a box in `set`, and nobody can borrow the slot any more.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_first_value_stays_and_every_value_is_dropped_once() {
        let (one, two) = (Arc::new(1), Arc::new(2));
        let slot = WriteOnce::default();
        assert!(slot.get().is_none());
        assert_eq!(**slot.set(Arc::clone(&one)), 1);
        assert_eq!(**slot.set(Arc::clone(&two)), 1);
        assert_eq!(slot.get().map(|v| **v), Some(1));
        assert_eq!((Arc::strong_count(&one), Arc::strong_count(&two)), (2, 1));
        drop(slot);
        assert_eq!(Arc::strong_count(&one), 1);
    }
}
