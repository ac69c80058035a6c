// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements Linux's descriptor bitmaps for comparison: the claimed bits, the close-on-exec bits
//! and one level of summary, searched word by word.
//!
//! # Kernel analogue
//! `alloc_fd` and `put_unused_fd` before 6.13, and with the three patches of that version.
//! `PATCHES` of them are applied, in their order:
//! 1. the size of the table is checked only when the number does not fit, and the slot of a number
//!    just found is no longer checked;
//! 2. a free clears the summary bit only if it is set;
//! 3. the word of the hint is searched before the summary.

const WORD: usize = 64;

/// The bitmaps and slots of one table.
pub(super) struct TwoLevels<const PATCHES: u32> {
    claimed: Vec<u64>,
    cloexec: Vec<u64>,
    full: Vec<u64>,
    slots: Vec<usize>,
    next: usize,
    nr_open: usize,
}

impl<const PATCHES: u32> TwoLevels<PATCHES> {
    pub(super) fn new(nr_open: u32) -> Self {
        let mut map = Self {
            claimed: Vec::new(),
            cloexec: Vec::new(),
            full: Vec::new(),
            slots: Vec::new(),
            next: 0,
            nr_open: nr_open as usize,
        };
        map.resize(WORD);
        map
    }

    /// Claims the lowest free number from `start` on and below `end`.
    #[inline]
    pub(super) fn alloc(&mut self, start: u32, end: u32, cloexec: bool) -> Option<u32> {
        let (start, end) = (start as usize, end as usize);
        let fd = loop {
            let mut fd = start.max(self.next);
            if fd < self.slots.len() {
                fd = self.find(fd);
            }
            if fd >= end {
                return None;
            }
            if (PATCHES >= 1 && fd < self.slots.len()) || !self.make_room(fd)? {
                break fd;
            }
        };
        if start <= self.next {
            self.next = fd + 1;
        }
        self.claimed[fd / WORD] |= 1 << (fd % WORD);
        if self.claimed[fd / WORD] == u64::MAX {
            self.full[fd / WORD / WORD] |= 1 << (fd / WORD % WORD);
        }
        if cloexec {
            self.cloexec[fd / WORD] |= 1 << (fd % WORD);
        } else if self.cloexec[fd / WORD] & (1 << (fd % WORD)) != 0 {
            self.cloexec[fd / WORD] &= !(1 << (fd % WORD));
        }
        if PATCHES == 0 && self.slots[fd] != 0 {
            self.slots[fd] = 0;
        }
        Some(fd as u32)
    }

    /// Frees a number; false if it was free.
    #[inline]
    pub(super) fn free(&mut self, fd: u32) -> bool {
        let fd = fd as usize;
        let (word, bit) = (&mut self.claimed[fd / WORD], 1 << (fd % WORD));
        let was = *word & bit != 0;
        *word &= !bit;
        let (summary, bit) = (&mut self.full[fd / WORD / WORD], 1 << (fd / WORD % WORD));
        if PATCHES < 2 || *summary & bit != 0 {
            *summary &= !bit;
        }
        self.next = self.next.min(fd);
        was
    }

    #[inline]
    fn find(&self, mut from: usize) -> usize {
        if PATCHES >= 3 {
            let free = !self.claimed[from / WORD] & (u64::MAX << (from % WORD));
            if free != 0 {
                return from / WORD * WORD + free.trailing_zeros() as usize;
            }
        }
        let words = self.claimed.len();
        let word = first_zero(&self.full, words, from / WORD);
        if word >= words {
            return self.slots.len();
        }
        from = from.max(word * WORD);
        first_zero(&self.claimed, self.slots.len(), from)
    }

    /// Whether the table had to grow for `fd`; None if it may not.
    fn make_room(&mut self, fd: usize) -> Option<bool> {
        if fd < self.slots.len() {
            return Some(false);
        }
        if fd >= self.nr_open {
            return None;
        }
        let most = self.nr_open.next_multiple_of(WORD);
        self.resize((fd + 1).next_power_of_two().min(most));
        Some(true)
    }

    #[cold]
    fn resize(&mut self, len: usize) {
        self.slots.resize(len, 0);
        self.claimed.resize(len / WORD, 0);
        self.cloexec.resize(len / WORD, 0);
        self.full.resize(len.div_ceil(WORD * WORD), 0);
    }
}

/// The first bit at or after `from` that is not set, or `bits`.
#[inline]
fn first_zero(words: &[u64], bits: usize, from: usize) -> usize {
    let mut these = u64::MAX << (from % WORD);
    for (at, word) in words.iter().enumerate().skip(from / WORD) {
        let free = !word & these;
        if free != 0 {
            return (at * WORD + free.trailing_zeros() as usize).min(bits);
        }
        these = u64::MAX;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Random;
    use super::TwoLevels;
    use openpath_vfs::FdMap;

    /// Makes the same random calls on ours and on Linux's with so many patches.
    fn compare<const PATCHES: u32>() {
        let mut ours = FdMap::new(1 << 20, true, true);
        let mut linux = TwoLevels::<PATCHES>::new(1 << 20);
        let mut random = Random::new(5);
        for _ in 0..200_000 {
            let fd = random.below(9000);
            if random.below(5) < 2 {
                assert!(!ours.free(fd) || linux.free(fd));
            } else {
                let start = if random.below(3) == 0 { fd } else { 0 };
                let got = ours.alloc(start, 9000, true).ok();
                assert_eq!(linux.alloc(start, 9000, true), got);
            }
        }
        assert!(ours.count() > 4500);
    }

    #[test]
    fn ours_and_linux_return_same_numbers() {
        compare::<0>();
        compare::<1>();
        compare::<2>();
        compare::<3>();
    }
}
