// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements an array of words that grows in place, so that readers need no lock and never wait.
//!
//! # Kernel analogue
//! The `fd` array of `struct fdtable`, which grows by copying into a larger one and frees the old
//! one after a grace period. Here nothing is copied, and a reader need not check the table again.
//!
//! # States of a segment
//! Absent -> present, once; present until the array is dropped. The first is part of the array;
//! each later one is as long as all before it together.
//!
//! # Fields
//! | field | written under | read under | published by | freed after |
//! |---|---|---|---|---|
//! | word | the caller's lock | no lock | release-store | the array's drop |
//! | segment pointer | the caller's lock | no lock | compare-and-swap, once | the array's drop |
//!
//! # Rules
//! R1. A writer holds a lock of the caller's. Two concurrent writers are safe, but one may
//!     overwrite the other.
//! R2. PAIR(slots.grow): a segment is zeroed before its pointer is published. A reader that sees
//!     the pointer sees zeroes or what was stored since. One that does not sees 0, as if it had
//!     come before the store that made the segment necessary.
//!
//! # Guarantees
//! G1. `get` is total: 0 where nothing was ever stored, also beyond the limit.
//! G2. `get` neither waits nor retries; below [`INLINE`] it is a test and a load.
//! G3. A reader of a value sees all that its writer did before storing it.
//!
//! # Limits
//! Memory is returned only when the array is dropped. A segment is allocated with the caller's lock
//! held.

use crate::primitive::{AtomicPtr, Ordering, free_zeroed, new_zeroed};
use crate::region::NoSpace;
use crate::word::Word32;
use core::ptr::{NonNull, null_mut};

/// How many words are part of the array itself.
const INLINE: u32 = 1 << INLINE_LOG;
const INLINE_LOG: u32 = if cfg!(loom) { 1 } else { 6 };
const SEGMENTS: usize = (u32::BITS - INLINE_LOG) as usize;

/// An array of words that grows in place. See the module head.
pub struct Slots {
    first: [Word32; INLINE as usize],
    /// Segment `k` holds `INLINE << k` words, from that index on.
    later: [AtomicPtr<Word32>; SEGMENTS],
    limit: u32,
}

/// The segment of a word at or after `INLINE`, and its index there.
#[inline(always)]
fn locate(index: u32) -> (usize, usize) {
    let top = index.ilog2();
    ((top - INLINE_LOG) as usize, (index ^ 1 << top) as usize)
}

/// The number of words in segment `k`.
fn length(k: usize) -> usize {
    (INLINE as usize) << k
}

impl Slots {
    /// An array with indices below `limit`, all words 0.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        Self {
            first: core::array::from_fn(|_| Word32::new(0)),
            later: core::array::from_fn(|_| AtomicPtr::new(null_mut())),
            limit,
        }
    }

    /// Loads the word at `index`; no later read moves before it.
    #[inline(always)]
    pub fn get(&self, index: u32) -> u32 {
        self.word(index).map_or(0, Word32::get)
    }

    /// Stores `value` at `index`; no earlier write moves after it. Storing 0 where 0 is never
    /// allocates.
    ///
    /// # Errors
    /// [`NoSpace`] at or beyond the limit, or without memory for the segment; never after
    /// [`Slots::reserve`] of the same or a greater index.
    #[inline]
    pub fn set(&self, index: u32, value: u32) -> Result<(), NoSpace> {
        if index >= self.limit {
            return Err(NoSpace);
        }
        match self.word(index) {
            Some(word) => word.set(value),
            None if value == 0 => {}
            None => self.grow(index)?.set(value),
        }
        Ok(())
    }

    /// Allocates up to `index`, so that [`Slots::set`] cannot fail there.
    ///
    /// # Errors
    /// [`NoSpace`] at or beyond the limit, or without memory.
    pub fn reserve(&self, index: u32) -> Result<(), NoSpace> {
        if index >= self.limit {
            return Err(NoSpace);
        }
        if index < INLINE {
            return Ok(());
        }
        (0..=locate(index).0)
            .filter(|&k| self.later[k].load(Ordering::Acquire).is_null())
            .try_for_each(|k| self.grow(INLINE << k).map(drop))
    }

    /// Bytes allocated besides the array itself.
    pub fn bytes(&self) -> usize {
        (0..SEGMENTS)
            .filter(|&k| !self.later[k].load(Ordering::Acquire).is_null())
            .map(|k| length(k) * size_of::<Word32>())
            .sum()
    }

    /// The word at `index`, if its segment exists.
    #[inline(always)]
    pub(crate) fn word(&self, index: u32) -> Option<&Word32> {
        if let Some(word) = self.first.get(index as usize) {
            return Some(word);
        }
        let (k, at) = locate(index);
        // PAIR(slots.grow): see R2.
        let segment = NonNull::new(self.later[k].load(Ordering::Acquire))?;
        // SAFETY: a non-null pointer at `k` was published by `grow` with `length(k)` words, which
        // stay until `self` is dropped; `locate` keeps `at` below that length.
        Some(unsafe { segment.add(at).as_ref() })
    }

    /// Allocates the segment of an index at or after `INLINE`, and returns the word.
    #[cold]
    fn grow(&self, index: u32) -> Result<&Word32, NoSpace> {
        let (k, _) = locate(index);
        let new = new_zeroed::<Word32>(length(k)).ok_or(NoSpace)?;
        // PAIR(slots.grow): release, so the zeroes are visible before the pointer.
        let was = self.later[k].compare_exchange(
            null_mut(),
            new.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if was.is_err() {
            // SAFETY: made above with this length, and not published.
            unsafe { free_zeroed(new, length(k)) };
        }
        self.word(index).ok_or(NoSpace)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        for k in 0..SEGMENTS {
            if let Some(segment) = NonNull::new(self.later[k].load(Ordering::Relaxed)) {
                // SAFETY: made by `grow` with this length; no borrow of a word is left.
                unsafe { free_zeroed(segment, length(k)) };
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn segments_are_contiguous() {
        assert_eq!(locate(64), (0, 0));
        assert_eq!(locate(127), (0, 63));
        assert_eq!(locate(128), (1, 0));
        assert_eq!(locate(u32::MAX), (SEGMENTS - 1, (1 << 31) - 1));
        for k in 0..SEGMENTS - 1 {
            let start = INLINE << k;
            assert_eq!(locate(start), (k, 0));
            assert_eq!(locate(start + (start - 1)), (k, length(k) - 1));
        }
    }

    #[test]
    fn stored_words_are_read_back_and_others_are_zero() {
        let slots = Slots::new(1 << 20);
        let spread = [0, 63, 64, 127, 128, 4095, 4096, (1 << 20) - 1];
        for (n, &i) in (1..).zip(&spread) {
            slots.set(i, n).unwrap();
        }
        for (n, &i) in (1..).zip(&spread) {
            assert_eq!(slots.get(i), n);
        }
        for i in [1, 65, 129, 2048, 1 << 20, u32::MAX] {
            assert_eq!(slots.get(i), 0);
        }
    }

    #[test]
    fn storing_zero_allocates_nothing() {
        let slots = Slots::new(1 << 20);
        slots.set(5000, 0).unwrap();
        slots.set(63, 1).unwrap();
        assert_eq!(slots.bytes(), 0);
        slots.set(64, 1).unwrap();
        assert_eq!(slots.bytes(), 256);
        slots.set(64, 0).unwrap();
        assert_eq!((slots.get(64), slots.bytes()), (0, 256));
    }

    #[test]
    fn limit_holds_in_every_segment() {
        for limit in [0, 10, 64, 100, 5000] {
            let slots = Slots::new(limit);
            assert_eq!(slots.set(limit, 1), Err(NoSpace));
            assert_eq!(slots.reserve(limit), Err(NoSpace));
            if let Some(last) = limit.checked_sub(1) {
                slots.set(last, 7).unwrap();
                assert_eq!(slots.set(limit, 1), Err(NoSpace));
                assert_eq!(slots.get(last), 7);
            }
        }
    }

    #[test]
    fn set_below_a_reserved_index_allocates_nothing() {
        let slots = Slots::new(10_000);
        slots.reserve(5000).unwrap();
        let bytes = slots.bytes();
        (0..=5000).for_each(|i| slots.set(i, i + 1).unwrap());
        assert!((0..=5000).all(|i| slots.get(i) == i + 1));
        assert_eq!(slots.bytes(), bytes);
    }

    #[test]
    fn reader_during_growth_sees_only_stored_words() {
        let slots = std::sync::Arc::new(Slots::new(1 << 16));
        let theirs = std::sync::Arc::clone(&slots);
        let reader = std::thread::spawn(move || {
            let mut next = 0;
            while next < 1 << 16 {
                match theirs.get(next) {
                    0 => core::hint::spin_loop(),
                    seen => {
                        assert_eq!(seen, next + 1);
                        next += 1;
                    }
                }
            }
        });
        (0..1 << 16).for_each(|i| slots.set(i, i + 1).unwrap());
        reader.join().unwrap();
    }
}
