// SPDX-License-Identifier: MIT OR Apache-2.0
//! A quantity with a bound, taken and given back by many threads that seldom write one line.
//!
//! Far from the bound each group of threads takes from a part of its own, which it fills and
//! empties at the common count a [`LOT`] at a time. Near the bound there are no parts:
//! everybody takes from the common count, and that is exact.
//!
//! # Kernel analogue
//! `percpu_counter` with `percpu_counter_limited_add`, and the stock of a memory control group; but
//! these may refuse, or let pass, what differs by what lies in the parts.
//!
//! # States of a part
//! | state | word | who moves it |
//! |---|---|---|
//! | absent | none; as closed | who opens it |
//! | closed | 0 | whoever would be refused, holding `moving`; all parts at once |
//! | open | 1 and what it has | its threads, where [`OPEN_MIN`] is left, holding `moving` |
//!
//! # Fields
//! | field | written under |
//! |---|---|
//! | taken: what is used and what parts have | nothing: one atomic step |
//! | a part | nothing: one atomic step, which fails if it was closed meanwhile |
//!
//! # Guarantees
//! G1. What is used is never more than the bound, but for [`Allowance::force`].
//! G2. Who is refused would have passed the bound, at one moment of the call.

use crate::prim::{Mutex, SHARDS, unfailing};
use crate::shards::Shards;
use crate::word::Word;

/// What a part takes at once, and the most that one call takes of it.
const LOT: u64 = if cfg!(any(loom, shuttle)) { 2 } else { 64 };
/// With less left no part is opened: twice what all parts may have.
const OPEN_MIN: u64 = 4 * LOT * SHARDS as u64;

/// `N` quantities, each with a bound. See the module head.
pub struct Allowance<const N: usize> {
    max: [u64; N],
    parts: Shards<Parts<N>>,
    common: Common<N>,
}

/// What all groups write, on a line of its own: nothing that is only read lies beside it, neither
/// of this nor of its neighbour in the heap.
#[repr(align(64))]
struct Common<const N: usize> {
    taken: [Word; N],
    /// Held by who opens or closes parts.
    moving: Mutex<()>,
}

/// What a group of threads has: 0 closed, or 1 more than it has.
struct Part(Word);

impl Part {
    /// What it has, if it is open.
    fn has(&self) -> Option<u64> {
        self.0.get().checked_sub(1)
    }

    /// Changes what it has from `from` to `to`; whether it had that.
    fn change(&self, from: u64, to: u64) -> bool {
        self.0.swap_if(from + 1, to + 1)
    }

    fn open(&self) {
        self.0.swap_if(0, 1);
    }

    /// Closes it; what it had.
    fn close(&self) -> u64 {
        loop {
            let word = self.0.get();
            if word == 0 || self.0.swap_if(word, 0) {
                return word.saturating_sub(1);
            }
        }
    }
}

/// The parts of one group, all closed at first.
struct Parts<const N: usize>([Part; N]);

impl<const N: usize> Default for Parts<N> {
    fn default() -> Self {
        Self(core::array::from_fn(|_| Part(Word::new(0))))
    }
}

impl<const N: usize> Allowance<N> {
    /// Nothing is used, and `max` may be.
    #[must_use]
    pub fn new(max: [u64; N]) -> Self {
        Self {
            max,
            parts: Shards::default(),
            common: Common {
                taken: core::array::from_fn(|_| Word::new(0)),
                moving: Mutex::new(()),
            },
        }
    }

    /// The bound.
    #[inline]
    pub fn max(&self, which: usize) -> u64 {
        self.max[which]
    }

    /// How much is used: exact while nobody takes or gives, and never less than it is while nobody
    /// takes.
    pub fn used(&self, which: usize) -> u64 {
        // First: what goes from a part to the common count in between is counted as used.
        let taken = self.common.taken[which].get();
        let parts = self.parts.all().filter_map(|part| part.0[which].has());
        taken.saturating_sub(parts.sum())
    }

    /// The part of this thread.
    #[inline]
    fn part(&self, which: usize) -> Option<&Part> {
        self.parts.mine_if_any().map(|parts| &parts.0[which])
    }

    /// Takes `n`, all or nothing; whether it did.
    #[inline]
    pub fn take(&self, which: usize, n: u64) -> bool {
        let _step = unfailing();
        while let Some(part) = self.part(which)
            && let Some(has) = part.has()
            && has >= n
        {
            if part.change(has, has - n) {
                return true;
            }
        }
        self.take_more(which, n)
    }

    /// Takes `n` even where that passes the bound.
    #[inline]
    pub fn force(&self, which: usize, n: u64) {
        if !self.take(which, n) {
            self.common.taken[which].add(n);
        }
    }

    /// Whether `n` could be taken now.
    #[inline]
    pub fn fits(&self, which: usize, n: u64) -> bool {
        let has = self.part(which).and_then(Part::has);
        has.is_some_and(|has| has >= n)
            || self.fits_common(which, n)
            || self.close(which, |all| all.fits_common(which, n))
    }

    /// Gives `n` back.
    #[inline]
    pub fn give(&self, which: usize, n: u64) {
        let _step = unfailing();
        while let Some(part) = self.part(which)
            && let Some(has) = part.has()
            && has.saturating_add(n) <= 2 * LOT
        {
            if part.change(has, has + n) {
                return;
            }
        }
        self.give_common(which, n);
    }

    fn fits_common(&self, which: usize, n: u64) -> bool {
        let after = self.common.taken[which].get().checked_add(n);
        after.is_some_and(|after| after <= self.max[which])
    }

    /// Takes `n` from the common count.
    fn take_common(&self, which: usize, n: u64) -> bool {
        loop {
            let now = self.common.taken[which].get();
            let after = now.checked_add(n).filter(|&after| after <= self.max[which]);
            let Some(after) = after else {
                return false;
            };
            if self.common.taken[which].swap_if(now, after) {
                return true;
            }
        }
    }

    /// As [`Self::take`] where the part has too little.
    #[cold]
    fn take_more(&self, which: usize, n: u64) -> bool {
        let left = self.max[which].saturating_sub(self.common.taken[which].get());
        // G2: who is refused holds the lock, so no lot is on its way then.
        if n <= LOT
            && left >= OPEN_MIN
            && let Some(_alone) = self.common.moving.try_lock()
            && self.take_common(which, n + LOT)
        {
            self.fill(which);
            return true;
        }
        self.take_common(which, n) || self.close(which, |all| all.take_common(which, n))
    }

    /// Puts a lot that was taken into the part of this thread. `moving` is held.
    fn fill(&self, which: usize) {
        let part = &self.parts.mine().0[which];
        part.open();
        loop {
            let has = part.has().unwrap_or(0);
            if part.change(has, has + LOT) {
                return;
            }
        }
    }

    /// Asks with all parts closed, when the common count is what is used.
    #[cold]
    fn close(&self, which: usize, ask: impl FnOnce(&Self) -> bool) -> bool {
        let _alone = self.common.moving.lock();
        let parts: u64 = self.parts.all().map(|part| part.0[which].close()).sum();
        self.common.taken[which].sub(parts);
        ask(self)
    }

    /// As [`Self::give`] where the part is closed, or full: then a lot goes too.
    #[cold]
    fn give_common(&self, which: usize, n: u64) {
        let mut more = 0;
        if let Some(_alone) = self.common.moving.try_lock() {
            if let Some(part) = self.part(which)
                && let Some(has) = part.has()
                && has >= LOT
                && part.change(has, has - LOT)
            {
                more = LOT;
            }
            self.common.taken[which].sub(n + more);
        } else {
            self.common.taken[which].sub(n);
        }
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_charge_beyond_the_bound_charges_nothing() {
        let all = Allowance::new([10]);
        assert!(all.take(0, 10) && !all.fits(0, 1));
        assert!(!all.take(0, 1) && !all.take(0, u64::MAX));
        assert_eq!(all.used(0), 10);
        all.give(0, 4);
        assert!(all.fits(0, 4) && all.take(0, 4) && !all.take(0, 1));
        all.force(0, 3);
        assert_eq!(all.used(0), 13);
        all.give(0, 3);
        assert!(!all.fits(0, 1));
        all.give(0, 10);
        assert_eq!(all.used(0), 0);
        assert!(Allowance::new([u64::MAX]).take(0, u64::MAX));
    }

    #[test]
    fn what_lies_in_parts_is_no_reason_to_refuse() {
        let all = Allowance::new([0, 3 * OPEN_MIN]);
        std::thread::scope(|scope| {
            for _ in 0..2 * SHARDS {
                scope.spawn(|| {
                    assert!(all.take(1, 1));
                    assert!(!all.take(0, 1));
                });
            }
        });
        let used = 2 * SHARDS as u64;
        assert_eq!(all.used(1), used);
        assert!(all.common.taken[1].get() > used, "parts have some");
        assert!(all.fits(1, 3 * OPEN_MIN - used) && !all.fits(1, 3 * OPEN_MIN - used + 1));
        assert!(all.take(1, 3 * OPEN_MIN - used));
        assert!(!all.take(1, 1));
        all.give(1, 3 * OPEN_MIN);
        assert_eq!((all.used(1), all.common.taken[1].get()), (0, 0));
    }

    /// Takes by `step` until that is refused, giving back now and then; what it has.
    fn greedy(all: &Allowance<1>, step: u64) -> u64 {
        let mut held = 0;
        while all.take(0, step) {
            held += step;
            assert!(all.used(0) <= all.max(0));
            if held % 7 == 0 {
                all.give(0, step);
                held -= step;
                if !all.take(0, step) {
                    break;
                }
                held += step;
            }
        }
        held
    }

    #[test]
    fn threads_come_to_the_bound_and_no_further() {
        let max = 2 * OPEN_MIN + 7;
        let all = Allowance::new([max]);
        for _ in 0..20 {
            let mut held = std::thread::scope(|scope| {
                let threads = [1, 1, 3].map(|step| {
                    scope.spawn({
                        let all = &all;
                        move || greedy(all, step)
                    })
                });
                threads.map(|t| t.join().expect("a thread")).iter().sum()
            });
            while all.take(0, 1) {
                held += 1;
            }
            assert_eq!((held, all.used(0)), (max, max));
            (0..held).for_each(|_| all.give(0, 1));
            assert_eq!(all.used(0), 0);
        }
    }
}
