// SPDX-License-Identifier: MIT OR Apache-2.0
//! An array of words that grows without moving, so that readers need no lock and never wait.
//!
//! # Kernel analogue
//! The `fd` array of `struct fdtable`, which grows by copying into a larger one and frees the old
//! one after a grace period; here nothing is copied, and a reader needs no second look at the
//! table.
//!
//! # States of a segment
//! Absent -> present, once; present until the array is dropped. The first is part of the array;
//! each later one is as long as all before it together.
//!
//! # Fields
//! | field | written under | read under | published by | freed after |
//! |---|---|---|---|---|
//! | word | the caller's lock | nothing | release-store | the array's drop |
//! | segment pointer | the caller's lock | nothing | compare-and-swap, once | the array's drop |
//!
//! # Rules
//! R1. Who writes holds a lock of the caller's; two writers at once are safe, but one may win.
//! R2. PAIR(slots.grow): a segment is zeroed before its pointer is out. A reader that sees the
//!     pointer sees zeroes or what was stored since; one that does not sees 0, as if it had come
//!     before the store that made the segment necessary.
//!
//! # Guarantees
//! G1. `get` is total: 0 where nothing was ever stored, beyond the limit too.
//! G2. `get` neither waits nor retries; below [`INLINE`] it is a test and a load.
//! G3. Who reads a value sees all that its writer did before storing it.
//!
//! # Limits
//! Memory is only given back when the array is dropped. A segment is asked from the allocator with
//! the caller's lock held.

use crate::prim::{AtomicPtr, Ordering, free_zeroed, new_zeroed};
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
    /// Segment `k` holds the words from `INLINE << k` on, as many again.
    later: [AtomicPtr<Word32>; SEGMENTS],
    limit: u32,
}

/// Where a word at or after `INLINE` lies: its segment, and its place there.
#[inline(always)]
fn place(index: u32) -> (usize, usize) {
    let top = index.ilog2();
    ((top - INLINE_LOG) as usize, (index ^ 1 << top) as usize)
}

/// How many words segment `k` has.
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

    /// The word at `index`; nothing that follows is read earlier.
    #[inline(always)]
    pub fn get(&self, index: u32) -> u32 {
        self.word(index).map_or(0, Word32::get)
    }

    /// Stores `value` at `index`; nothing that precedes is written later. 0 is stored where it
    /// stands already without asking for memory.
    ///
    /// # Errors
    /// [`NoSpace`] at or beyond the limit, or where there is no memory for the segment; never
    /// after [`Slots::reserve`] of the same or a greater index.
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

    /// Makes room up to `index`, so that [`Slots::set`] cannot fail there.
    ///
    /// # Errors
    /// [`NoSpace`] at or beyond the limit, or where there is no memory.
    pub fn reserve(&self, index: u32) -> Result<(), NoSpace> {
        if index >= self.limit {
            return Err(NoSpace);
        }
        if index < INLINE {
            return Ok(());
        }
        (0..=place(index).0)
            .filter(|&k| self.later[k].load(Ordering::Acquire).is_null())
            .try_for_each(|k| self.grow(INLINE << k).map(drop))
    }

    /// What the array takes besides itself.
    pub fn bytes(&self) -> usize {
        (0..SEGMENTS)
            .filter(|&k| !self.later[k].load(Ordering::Acquire).is_null())
            .map(|k| length(k) * size_of::<Word32>())
            .sum()
    }

    /// The word at `index`, if its segment is there.
    #[inline(always)]
    pub(crate) fn word(&self, index: u32) -> Option<&Word32> {
        if let Some(word) = self.first.get(index as usize) {
            return Some(word);
        }
        let (k, at) = place(index);
        // PAIR(slots.grow): see R2.
        let segment = NonNull::new(self.later[k].load(Ordering::Acquire))?;
        // SAFETY: a non-null pointer at `k` was published by `grow` with `length(k)` words, which
        // stay until `self` is dropped; `place` keeps `at` below that length.
        Some(unsafe { segment.add(at).as_ref() })
    }

    /// Makes the segment of an index at or after `INLINE`, and gives the word.
    #[cold]
    fn grow(&self, index: u32) -> Result<&Word32, NoSpace> {
        let (k, _) = place(index);
        let new = new_zeroed::<Word32>(length(k)).ok_or(NoSpace)?;
        // PAIR(slots.grow): release, so the zeroes are out before the pointer.
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
                // SAFETY: made by `grow` with this length; nobody can borrow a word any more.
                unsafe { free_zeroed(segment, length(k)) };
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn segments_follow_each_other_without_gap_or_overlap() {
        assert_eq!(place(64), (0, 0));
        assert_eq!(place(127), (0, 63));
        assert_eq!(place(128), (1, 0));
        assert_eq!(place(u32::MAX), (SEGMENTS - 1, (1 << 31) - 1));
        for k in 0..SEGMENTS - 1 {
            let start = INLINE << k;
            assert_eq!(place(start), (k, 0));
            assert_eq!(place(start + (start - 1)), (k, length(k) - 1));
        }
    }

    #[test]
    fn what_is_stored_is_read_and_the_rest_is_zero() {
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
    fn a_zero_asks_for_no_memory() {
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
    fn the_limit_is_kept_in_every_segment() {
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
    fn after_reserve_there_is_room_all_the_way() {
        let slots = Slots::new(10_000);
        slots.reserve(5000).unwrap();
        let bytes = slots.bytes();
        (0..=5000).for_each(|i| slots.set(i, i + 1).unwrap());
        assert!((0..=5000).all(|i| slots.get(i) == i + 1));
        assert_eq!(slots.bytes(), bytes);
    }

    #[test]
    fn a_reader_meets_growth_and_sees_only_what_was_stored() {
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
