// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the claimed or close-on-exec descriptors in a range, and marks a range as close-on-exec,
//! 64 descriptors at a time.
//!
//! # Kernel analogue
//! What `close_range`, `do_close_on_exec` and `count_open_files` do with the bitmaps.

use super::{FdMap, WORD, above, bit, pair_at};

impl FdMap {
    /// The lowest claimed descriptor at or above `from`.
    #[must_use]
    pub fn next_open(&self, from: u32) -> Option<u32> {
        self.next_where(from, |pair| pair[0])
    }

    /// The lowest claimed descriptor at or above `from` that closes on exec.
    #[must_use]
    pub fn next_cloexec(&self, from: u32) -> Option<u32> {
        self.next_where(from, |pair| pair[0] & pair[1])
    }

    /// The claimed descriptors from `first` to `last`, ascending.
    pub fn open_in(&self, first: u32, last: u32) -> impl Iterator<Item = u32> + '_ {
        self.within(first, last, |pair| pair[0])
    }

    /// The claimed descriptors from `first` to `last` that close on exec, ascending.
    pub fn cloexec_in(&self, first: u32, last: u32) -> impl Iterator<Item = u32> + '_ {
        self.within(first, last, |pair| pair[0] & pair[1])
    }

    /// Marks every slot from `first` to `last` as closing on exec, reserved and free ones as well,
    /// up to the capacity (`__range_cloexec`).
    pub fn set_cloexec_range(&mut self, first: u32, last: u32) {
        let last = last.min(self.capacity - 1);
        if first > last {
            return;
        }
        let words = self.words_mut();
        for word in first / WORD..=last / WORD {
            let mut these = u64::MAX;
            if word == first / WORD {
                these &= above(first);
            }
            if word == last / WORD {
                these &= bit(last) | !above(last);
            }
            words[pair_at(word * WORD) + 1] |= these;
        }
    }

    /// The highest claimed descriptor.
    #[must_use]
    pub fn highest(&mut self) -> Option<u32> {
        let pairs = &self.words()[..pair_at(self.top.next_multiple_of(WORD))];
        let last = pairs.iter().step_by(2).rposition(|&word| word != 0);
        let found = last.map(|word| {
            let claimed = pairs[2 * word];
            word as u32 * WORD + claimed.ilog2()
        });
        // The next caller need not look above it again.
        self.top = found.map_or(0, |fd| fd + 1);
        found
    }

    #[inline]
    fn next_where(&self, from: u32, of: impl Fn(&[u64]) -> u64) -> Option<u32> {
        if from >= self.top {
            return None;
        }
        let pairs = &self.words()[pair_at(from)..pair_at(self.top.next_multiple_of(WORD))];
        let mut first = from / WORD * WORD;
        let mut these = above(from);
        for pair in pairs.chunks_exact(2) {
            let found = of(pair) & these;
            if found != 0 {
                return Some(first + found.trailing_zeros());
            }
            (first, these) = (first + WORD, u64::MAX);
        }
        None
    }

    fn within<'a>(
        &'a self,
        first: u32,
        last: u32,
        of: impl Fn(&[u64]) -> u64 + 'a,
    ) -> impl Iterator<Item = u32> + 'a {
        let mut from = Some(first);
        std::iter::from_fn(move || {
            let fd = self.next_where(from?, &of).filter(|&fd| fd <= last);
            from = fd.and_then(|fd| fd.checked_add(1));
            fd
        })
    }
}
