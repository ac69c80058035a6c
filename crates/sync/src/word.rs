// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements words that threads share, with a method for each use instead of memory orderings.
//!
//! | verb | ordering | use |
//! |---|---|---|
//! | `get` | acquire | data read under a sequence: no later read moves before it |
//! | `set` | release | data written inside a change: no earlier write moves after it |
//! | `peek`, `poke`, `bump` | relaxed | statistics and hints that nothing depends on |
//!
//! Reading with acquire and writing with release makes a sequence-checked read correct without a
//! stand-alone fence: a reader that saw new data also sees the sequence word that was made busy
//! before it (see [`crate::Life`]).

use crate::primitive::{AtomicU32, AtomicU64, Ordering, no_fault_injection};
use crate::zero_valid::ZeroValid;

macro_rules! word {
    ($(#[$doc:meta])* $name:ident, $atomic:ident, $int:ty) => {
        $(#[$doc])*
        #[derive(Default, Debug)]
        #[repr(transparent)]
        pub struct $name($atomic);

        impl $name {
            /// A word holding `value`.
            #[must_use]
            pub fn new(value: $int) -> Self {
                Self($atomic::new(value))
            }
            /// Loads; no later read moves before it.
            #[inline(always)]
            pub fn get(&self) -> $int {
                self.0.load(Ordering::Acquire)
            }
            /// Stores; no earlier write moves after it.
            #[inline(always)]
            pub fn set(&self, value: $int) {
                self.0.store(value, Ordering::Release);
            }
            /// Loads a hint: unordered.
            #[inline(always)]
            pub fn peek(&self) -> $int {
                self.0.load(Ordering::Relaxed)
            }
            /// Stores a hint that only this thread writes: unordered.
            #[inline(always)]
            pub fn poke(&self, value: $int) {
                let _step = no_fault_injection();
                self.0.store(value, Ordering::Relaxed);
            }
            /// Increments a counter that only this thread writes.
            #[inline(always)]
            pub fn bump(&self) {
                let _step = no_fault_injection();
                let next = self.0.load(Ordering::Relaxed).wrapping_add(1);
                self.0.store(next, Ordering::Relaxed);
            }
            /// Adds and returns the old value; a shared store, so never on a cached path.
            #[inline]
            pub fn add(&self, value: $int) -> $int {
                self.0.fetch_add(value, Ordering::AcqRel)
            }
            /// Subtracts and returns the old value; a shared store, so never on a cached path.
            #[inline]
            pub fn sub(&self, value: $int) -> $int {
                self.0.fetch_sub(value, Ordering::AcqRel)
            }
            /// Sets the bits of `mask` and returns the old value.
            #[inline]
            pub fn set_bits(&self, mask: $int) -> $int {
                self.0.fetch_or(mask, Ordering::AcqRel)
            }
            /// Clears the bits of `mask` and returns the old value.
            #[inline]
            pub fn clear_bits(&self, mask: $int) -> $int {
                self.0.fetch_and(!mask, Ordering::AcqRel)
            }
            /// Replaces `from` by `to`; returns whether it did.
            #[inline]
            pub fn swap_if(&self, from: $int, to: $int) -> bool {
                self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
            }
        }

        // SAFETY: a transparent wrapper of a zero-valid atomic.
        unsafe impl ZeroValid for $name {}
    };
}

word!(
    /// A shared 64-bit word.
    Word,
    AtomicU64,
    u64
);
word!(
    /// A shared 32-bit word; also the link type of the index-based lists.
    Word32,
    AtomicU32,
    u32
);
