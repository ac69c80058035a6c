// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a value that is set at most once and then only read.
//!
//! # Why not `std::sync::OnceLock`
//! * Loom and shuttle cannot see into it, and models exercise what is built on this cell.
//! * Its initialisation is compiled into the standard library without the thread sanitizer, which
//!   then reports a race on every value.
//! * `OnceLock::set` and `get_or_init` may block while another thread initialises. Here a set never
//!   waits: of two concurrent ones the first stays and the second value is dropped.
//! * It holds its value in place. [`crate::Shards`] needs a cell of one word, so that absent values
//!   take no memory. `once_cell::race::OnceBox` is the same algorithm, but not under loom.

use crate::primitive::{AtomicPtr, Ordering};
use core::marker::PhantomData;
use std::boxed::Box;

/// A slot for a value that stays as long as the slot, once it is set.
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
        // when the slot is dropped; the release in `set` orders the contents of the box before it.
        unsafe { value.as_ref() }
    }

    /// Sets the value if there is none yet, and returns the one that stays.
    pub fn set(&self, value: T) -> &T {
        let new = Box::into_raw(Box::new(value));
        let null = core::ptr::null_mut();
        match self
            .value
            .compare_exchange(null, new, Ordering::AcqRel, Ordering::Acquire)
        {
            // SAFETY: just stored, and kept as long as `self`.
            Ok(_) => unsafe { &*new },
            Err(first) => {
                // SAFETY: `new` came from a box above and was not stored.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: not null, since the exchange failed; kept as long as `self`.
                unsafe { &*first }
            }
        }
    }
}

impl<T> Drop for WriteOnce<T> {
    fn drop(&mut self) {
        if cfg!(loom) && std::thread::panicking() {
            // A model that has found a fault is over, and with it its atomics.
            return;
        }
        let value = self.value.load(Ordering::Acquire);
        if !value.is_null() {
            // SAFETY: it came from a box in `set`, and no borrow of the slot is left.
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
