// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the bitmaps of a descriptor table: which descriptors are claimed, which close on exec, and
//! which is the lowest free one.
//!
//! # Kernel analogue
//! The bitmaps of `struct fdtable`, with `alloc_fd`, `put_unused_fd` and `expand_files`. A claimed
//! descriptor without a file in its slot is reserved; the map does not know the difference.
//!
//! # Fields
//! Bits lie in words of 64. Level 0 has a pair of words for each 64 descriptors, side by side so
//! that a claim touches one cache line: claimed bits, and close-on-exec bits. In each level above,
//! a bit says that the word below it is all ones; bits without a word below are one. The top level
//! is one word: 4 levels for a million descriptors. Tables of 64 lie in the map itself.
//!
//! # Locks
//! None: the map is plain memory behind its table's lock.
//!
//! # Rules
//! R1 no descriptor below `next` is free; `next` itself may be taken. A claim by [`FdMap::alloc`]
//! from a start at or below `next` makes `next` the number after it, a free below `next` makes
//! `next` that number, and nothing else moves it up.
//! R2 a summary bit is written only when the word below becomes full or stops being full, unless
//! `conditional_summary` is off: then every free writes one bit in every level.
//! R3 an [`FdMap::alloc`] from a start at or below `next` reads at most one word a level, and the
//! one that holds `next`; from above it, less than twice as many.
//! R4 close-on-exec bits of descriptors that are not claimed mean nothing; a claim sets its own.
//! R5 nothing at or above `top` is claimed.
//! R6 the map never shrinks; descriptors at or past [`FdMap::capacity`] are free.

mod grow;
mod range;

use openpath_abi::Errno;

/// Descriptors of one word.
const WORD: u32 = u64::BITS;
/// Levels of the largest map: 64^6 descriptors.
const LEVELS_MAX: usize = 6;
/// The most descriptors any map can hold (`sysctl_nr_open_max`).
const CAPACITY_MAX: u32 = (1 << 31) - WORD;

/// Where the words are.
#[derive(Clone, Debug)]
enum Words {
    /// One pair, no summary.
    Few([u64; 2]),
    /// The pairs, then each level of summaries.
    Many(Box<[u64]>),
}

impl Words {
    #[inline]
    fn all(&self) -> &[u64] {
        match self {
            Self::Few(pair) => pair,
            Self::Many(words) => words,
        }
    }

    #[inline]
    fn all_mut(&mut self) -> &mut [u64] {
        match self {
            Self::Few(pair) => pair,
            Self::Many(words) => words,
        }
    }
}

/// The bitmaps of one descriptor table. See the module head.
#[derive(Clone, Debug)]
pub struct FdMap {
    words: Words,
    /// Where each level begins.
    at: [u32; LEVELS_MAX],
    levels: u32,
    capacity: u32,
    nr_open: u32,
    next: u32,
    top: u32,
    count: u32,
    word_peek: bool,
    conditional_summary: bool,
}

impl FdMap {
    /// An empty map for 64 descriptors that grows to `nr_open` (`fs.nr_open`), itself rounded up
    /// as Linux's tables are. The switches are those of [`crate::Tuning`]; they change no result.
    #[must_use]
    pub fn new(nr_open: u32, word_peek: bool, conditional_summary: bool) -> Self {
        Self {
            words: Words::Few([0; 2]),
            at: [0; LEVELS_MAX],
            levels: 1,
            capacity: WORD,
            nr_open: nr_open.clamp(WORD, CAPACITY_MAX),
            next: 0,
            top: 0,
            count: 0,
            word_peek,
            conditional_summary,
        }
    }

    /// Claims the lowest free descriptor at or above `start` and below `end` (`alloc_fd`).
    ///
    /// # Errors
    /// `EMFILE` when there is none, or none below `nr_open`; `ENOMEM` when the map cannot grow.
    #[inline(always)]
    pub fn alloc(&mut self, start: u32, end: u32, cloexec: bool) -> Result<u32, Errno> {
        let from = start.max(self.next);
        if self.word_peek
            && let Some([claimed, exec]) = self.pair_mut(from)
        {
            let free = !*claimed & above(from);
            let fd = from / WORD * WORD + free.trailing_zeros();
            if free != 0 && fd < end {
                *claimed |= bit(fd);
                *exec = *exec & !bit(fd) | u64::from(cloexec) << (fd % WORD);
                let full = *claimed == u64::MAX;
                if start <= self.next {
                    self.next = fd + 1;
                }
                self.claimed(fd, full);
                return Ok(fd);
            }
        }
        self.alloc_searching(start, end, cloexec)
    }

    /// As [`FdMap::alloc`], by the summaries.
    #[inline(never)]
    fn alloc_searching(&mut self, start: u32, end: u32, cloexec: bool) -> Result<u32, Errno> {
        let fd = self.search(start, &mut || ());
        if fd >= end {
            return Err(Errno::EMFILE);
        }
        if fd >= self.capacity {
            self.grow(fd)?;
        }
        if start <= self.next {
            self.next = fd + 1;
        }
        self.set(fd, cloexec);
        Ok(fd)
    }

    /// Claims `fd` if it is free; false, and nothing changes, if it is not (`do_dup2`).
    ///
    /// # Errors
    /// `EMFILE` at or past `nr_open`, which dup2(2) reports as `EBADF`; `ENOMEM`.
    pub fn claim(&mut self, fd: u32, cloexec: bool) -> Result<bool, Errno> {
        if self.is_open(fd) {
            return Ok(false);
        }
        if fd >= self.capacity {
            self.grow(fd)?;
        }
        self.set(fd, cloexec);
        Ok(true)
    }

    /// Frees `fd`; false if it was not claimed (`__put_unused_fd`).
    #[inline(always)]
    pub fn free(&mut self, fd: u32) -> bool {
        let Some([claimed, _]) = self.pair_mut(fd) else {
            return false;
        };
        let was = *claimed;
        if was & bit(fd) == 0 {
            return false;
        }
        *claimed = was & !bit(fd);
        if was == u64::MAX || !self.conditional_summary {
            self.drain(fd, was == u64::MAX);
        }
        self.count -= 1;
        if fd < self.next {
            self.next = fd;
        }
        true
    }

    /// Whether `fd` is claimed.
    #[inline]
    #[must_use]
    pub fn is_open(&self, fd: u32) -> bool {
        fd < self.capacity && self.pair(fd)[0] & bit(fd) != 0
    }

    /// Whether `fd` closes on exec, if it is claimed.
    #[must_use]
    pub fn cloexec(&self, fd: u32) -> bool {
        fd < self.capacity && self.pair(fd)[1] & bit(fd) != 0
    }

    /// Sets whether `fd` closes on exec; without effect past the capacity.
    pub fn set_cloexec(&mut self, fd: u32, on: bool) {
        if fd >= self.capacity || self.cloexec(fd) == on {
            return;
        }
        let place = pair_at(fd) + 1;
        self.words_mut()[place] ^= bit(fd);
    }

    /// Whether [`FdMap::alloc`] from 0 would find a descriptor below `end`. One comparison unless
    /// descriptors at or above `end` are claimed, or all below it.
    #[inline]
    #[must_use]
    pub fn has_free_below(&self, end: u32) -> bool {
        let end = end.min(self.capacity.max(self.nr_open));
        self.count < end || (self.next < end && self.lowest_free(0, || ()) < end)
    }

    /// How many descriptors are claimed.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Descriptors there is room for now: what the table of slots has to hold.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The lowest free descriptor at or above `start`, perhaps past the capacity. Calls `seen` for
    /// each word it reads.
    #[inline]
    fn lowest_free(&self, start: u32, mut seen: impl FnMut()) -> u32 {
        let from = start.max(self.next);
        if from >= self.capacity {
            return from;
        }
        if self.word_peek {
            seen();
            let free = !self.words()[pair_at(from)] & above(from);
            if free != 0 {
                return from / WORD * WORD + free.trailing_zeros();
            }
        }
        self.search(start, &mut seen)
    }

    /// The same by the summaries.
    #[inline]
    fn search(&self, start: u32, seen: &mut impl FnMut()) -> u32 {
        let from = start.max(self.next);
        if from >= self.capacity {
            return from;
        }
        let found = if start <= self.next {
            // No free bit lies below `from`: every way down leads to one above it.
            self.descend(self.words(), self.levels, 0, seen)
        } else {
            self.climb(from, seen)
        };
        found.unwrap_or(self.capacity)
    }

    /// The lowest free descriptor below word `index` of the level under `level`.
    #[inline]
    fn descend(
        &self,
        words: &[u64],
        level: u32,
        mut index: u32,
        seen: &mut impl FnMut(),
    ) -> Option<u32> {
        for level in (1..level).rev() {
            seen();
            let free = !words[(self.at[level as usize] + index) as usize];
            if free == 0 {
                return None;
            }
            index = index * WORD + free.trailing_zeros();
        }
        if level > 0 {
            seen();
            let free = !words[pair_at(index * WORD)];
            if free == 0 {
                return None;
            }
            index = index * WORD + free.trailing_zeros();
        }
        Some(index)
    }

    /// The lowest free descriptor at or above `from`: up until a level knows of one to the right,
    /// then down to it.
    fn climb(&self, from: u32, seen: &mut impl FnMut()) -> Option<u32> {
        let mut from = from;
        for level in 0..self.levels {
            let word = from / WORD;
            if word >= self.len(level) {
                return None;
            }
            seen();
            let free = !self.word(level, word) & above(from);
            if free != 0 {
                let found = word * WORD + free.trailing_zeros();
                return self.descend(self.words(), level, found, seen);
            }
            from = word + 1;
        }
        None
    }

    /// Makes `fd`, which is free and below the capacity, claimed.
    #[inline]
    fn set(&mut self, fd: u32, cloexec: bool) {
        if let Some([claimed, exec]) = self.pair_mut(fd) {
            *claimed |= bit(fd);
            *exec = *exec & !bit(fd) | u64::from(cloexec) << (fd % WORD);
            let full = *claimed == u64::MAX;
            self.claimed(fd, full);
        }
    }

    /// Notes that `fd` was claimed, and whether its word is `full` now.
    #[inline(always)]
    fn claimed(&mut self, fd: u32, full: bool) {
        self.count += 1;
        self.top = self.top.max(fd + 1);
        if full {
            self.fill_up(fd);
        }
    }

    /// Tells the summaries that the word of `fd` is full.
    #[cold]
    fn fill_up(&mut self, fd: u32) {
        let words = self.words.all_mut();
        let (mut level, mut index, mut full) = (1, fd / WORD, true);
        while full && level < self.levels {
            let word = &mut words[(self.at[level as usize] + index / WORD) as usize];
            *word |= bit(index);
            full = *word == u64::MAX;
            (level, index) = (level + 1, index / WORD);
        }
    }

    /// Tells the summaries that the word of `fd` is not full.
    #[cold]
    fn drain(&mut self, fd: u32, mut was_full: bool) {
        let always = !self.conditional_summary;
        let words = self.words.all_mut();
        let (mut level, mut index) = (1, fd / WORD);
        while (was_full || always) && level < self.levels {
            let word = &mut words[(self.at[level as usize] + index / WORD) as usize];
            was_full = *word == u64::MAX;
            *word &= !bit(index);
            (level, index) = (level + 1, index / WORD);
        }
    }

    #[inline]
    fn words(&self) -> &[u64] {
        self.words.all()
    }

    #[inline]
    fn words_mut(&mut self) -> &mut [u64] {
        self.words.all_mut()
    }

    /// The words of `fd`, if it is below the capacity: claimed, close on exec.
    #[inline(always)]
    fn pair_mut(&mut self, fd: u32) -> Option<&mut [u64; 2]> {
        if fd >= self.capacity {
            return None;
        }
        match &mut self.words {
            Words::Few(pair) => Some(pair),
            Words::Many(words) => words.get_mut(pair_at(fd)..)?.first_chunk_mut(),
        }
    }

    /// The words of `fd`, which is below the capacity: claimed, close on exec.
    #[inline]
    fn pair(&self, fd: u32) -> [u64; 2] {
        let (words, place) = (self.words(), pair_at(fd));
        [words[place], words[place + 1]]
    }

    /// A word of `level` that says which descriptors or words are taken.
    #[inline]
    fn word(&self, level: u32, index: u32) -> u64 {
        let words = self.words();
        match level {
            0 => words[2 * index as usize],
            _ => words[(self.at[level as usize] + index) as usize],
        }
    }

    /// How many words `level` has.
    fn len(&self, level: u32) -> u32 {
        (0..=level).fold(self.capacity, |below, _| below.div_ceil(WORD))
    }
}

/// The bit of `index` in its word.
fn bit(index: u32) -> u64 {
    1 << (index % WORD)
}

/// The bits at and above `index` in its word.
fn above(index: u32) -> u64 {
    u64::MAX << (index % WORD)
}

/// Where the pair of `fd` is.
fn pair_at(fd: u32) -> usize {
    2 * (fd / WORD) as usize
}

#[cfg(test)]
mod tests;
