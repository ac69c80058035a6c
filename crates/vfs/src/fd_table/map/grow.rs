// SPDX-License-Identifier: MIT OR Apache-2.0
//! Grows and copies the bitmaps of a descriptor table.
//!
//! # Kernel analogue
//! `expand_fdtable`, `alloc_fdtable`, `copy_fd_bitmaps`, `dup_fd`. Sizes are Linux's, because one
//! is visible: a descriptor at or past `nr_open` is refused only if the table would have to grow.

use super::{FdMap, LEVELS_MAX, WORD, Words, above, pair_at};
use openpath_abi::Errno;

impl FdMap {
    /// Grows until `fd` fits (`expand_files`).
    ///
    /// # Errors
    /// `EMFILE` at or past `nr_open`; `ENOMEM`.
    #[cold]
    pub(super) fn grow(&mut self, fd: u32) -> Result<(), Errno> {
        if fd >= self.nr_open {
            return Err(Errno::EMFILE);
        }
        let mut grown = self.empty(fd)?;
        let pairs = pair_at(self.capacity);
        grown.words_mut()[..pairs].copy_from_slice(&self.words()[..pairs]);
        grown.summarize();
        (grown.next, grown.top, grown.count) = (self.next, self.top, self.count);
        *self = grown;
        Ok(())
    }

    /// A copy of the claimed descriptors below `end` that `keep` wants, with their close-on-exec
    /// flags (`dup_fd`): `keep` is asked once each in ascending order, after the memory is there.
    /// The copy has room for no more than the highest of them needs.
    ///
    /// # Errors
    /// `ENOMEM`, before `keep` is asked.
    pub fn copy_upto(
        &mut self,
        end: u32,
        mut keep: impl FnMut(u32) -> bool,
    ) -> Result<Self, Errno> {
        let end = self.highest().map_or(0, |fd| fd + 1).min(end);
        let mut copy = self.empty(end.saturating_sub(1))?;
        copy.next = self.next.min(end);
        let (from, to) = (self.words(), copy.words_mut());
        let (mut count, mut top, mut hole) = (0, 0, u32::MAX);
        for first in (0..end).step_by(WORD as usize) {
            let place = pair_at(first);
            let mut claimed = from[place];
            if end - first < WORD {
                claimed &= !above(end);
            }
            let mut kept = claimed;
            while claimed != 0 {
                let low = claimed & claimed.wrapping_neg();
                claimed ^= low;
                let fd = first + low.trailing_zeros();
                if keep(fd) {
                    top = fd + 1;
                } else {
                    kept ^= low;
                    hole = hole.min(fd);
                }
            }
            to[place] = kept;
            to[place + 1] = from[place + 1] & kept;
            count += kept.count_ones();
        }
        copy.summarize();
        (copy.next, copy.top, copy.count) = (copy.next.min(hole), top, count);
        Ok(copy)
    }

    /// An empty map with the same switches that has room for `fd`.
    fn empty(&self, fd: u32) -> Result<Self, Errno> {
        let mut map = Self::new(self.nr_open, self.word_peek, self.conditional_summary);
        let roof = self.nr_open.next_multiple_of(WORD);
        map.capacity = (fd + 1).next_power_of_two().clamp(WORD, roof);
        let mut total = 2 * map.len(0);
        if total == 2 {
            return Ok(map);
        }
        map.at = [0; LEVELS_MAX];
        while map.len(map.levels - 1) > 1 {
            map.at[map.levels as usize] = total;
            total += map.len(map.levels);
            map.levels += 1;
        }
        let mut words = Vec::new();
        words
            .try_reserve_exact(total as usize)
            .map_err(|_| Errno::ENOMEM)?;
        words.resize(total as usize, 0);
        map.words = Words::Many(words.into_boxed_slice());
        Ok(map)
    }

    /// Writes every summary anew.
    fn summarize(&mut self) {
        for level in 1..self.levels {
            let below = self.len(level - 1);
            for index in 0..self.len(level) {
                let mut full = u64::MAX;
                for bit in 0..WORD.min(below - index * WORD) {
                    let taken = self.word(level - 1, index * WORD + bit);
                    full ^= u64::from(taken != u64::MAX) << bit;
                }
                let place = (self.at[level as usize] + index) as usize;
                self.words_mut()[place] = full;
            }
        }
    }
}
