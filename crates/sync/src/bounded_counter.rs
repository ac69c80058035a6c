// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a counter with an upper bound, sharded so that many threads charge and uncharge it
//! without writing one shared cache line each time.
//!
//! Far from the bound each group of threads has a stock, which it refills from the common count and
//! drains to it, a [`BATCH`] at a time. Near the bound there are no stocks: every thread charges
//! the common count, and that is exact.
//!
//! # Kernel analogue
//! `percpu_counter` with `percpu_counter_limited_add`, and `memcg_stock_pcp` of a memory control
//! group. Those may refuse or admit wrongly by as much as the stocks hold; this counter does not.
//!
//! # States of a stock
//! | state | word | transition |
//! |---|---|---|
//! | absent | none; counts as closed | made by the first thread of the group that refills |
//! | closed | 0 | by a thread about to be refused; holds `refill`, closes all stocks |
//! | open | 1 + what it holds | by a thread of the group, if [`OPEN_MIN`] is left; holds `refill` |
//!
//! # Fields
//! | field | written under |
//! |---|---|
//! | taken: what is used plus what the stocks hold | no lock: one atomic step |
//! | a stock | no lock: one atomic step, which fails if the stock was closed meanwhile |
//!
//! # Guarantees
//! G1. The amount in use never exceeds the bound, except after [`BoundedCounter::force`].
//! G2. A refusal is exact: at one moment of the call, granting it would have passed the bound.

use crate::primitive::{Mutex, SHARDS, no_fault_injection};
use crate::shards::Shards;
use crate::word::Word;

/// The amount that a stock is refilled with, and the most that one call may take from a stock.
const BATCH: u64 = if cfg!(any(loom, shuttle)) { 2 } else { 64 };
/// With less left no stock is opened: twice what all stocks may hold.
const OPEN_MIN: u64 = 4 * BATCH * SHARDS as u64;

/// `N` counters, each with its bound. See the module head.
pub struct BoundedCounter<const N: usize> {
    max: [u64; N],
    stocks: Shards<Stocks<N>>,
    common: Common<N>,
}

/// Written by all groups, so it has cache lines of its own: no read-mostly data shares them,
/// neither in this structure nor in its neighbour on the heap.
#[repr(align(64))]
struct Common<const N: usize> {
    taken: [Word; N],
    /// Held to open, refill or close stocks.
    refill: Mutex<()>,
}

/// The stock of a group of threads: 0 if closed, else 1 more than it holds.
struct Stock(Word);

impl Stock {
    /// What it holds, if it is open.
    fn held(&self) -> Option<u64> {
        self.0.get().checked_sub(1)
    }

    /// Replaces the amount `from` by `to`; fails if it holds another amount or is closed.
    fn replace(&self, from: u64, to: u64) -> bool {
        self.0.swap_if(from + 1, to + 1)
    }

    fn open(&self) {
        self.0.swap_if(0, 1);
    }

    /// Closes it and returns what it held.
    fn close(&self) -> u64 {
        loop {
            let word = self.0.get();
            if word == 0 || self.0.swap_if(word, 0) {
                return word.saturating_sub(1);
            }
        }
    }
}

/// The stocks of one group, all closed at first.
struct Stocks<const N: usize>([Stock; N]);

impl<const N: usize> Default for Stocks<N> {
    fn default() -> Self {
        Self(core::array::from_fn(|_| Stock(Word::new(0))))
    }
}

impl<const N: usize> BoundedCounter<N> {
    /// Counters at 0 with the bounds `max`.
    #[must_use]
    pub fn new(max: [u64; N]) -> Self {
        Self {
            max,
            stocks: Shards::default(),
            common: Common {
                taken: core::array::from_fn(|_| Word::new(0)),
                refill: Mutex::new(()),
            },
        }
    }

    /// The bound.
    #[inline]
    pub fn max(&self, which: usize) -> u64 {
        self.max[which]
    }

    /// The amount in use. Exact while no other thread takes or gives; never too low while none
    /// takes.
    pub fn used(&self, which: usize) -> u64 {
        // Read first: what moves from a stock to the common count in between is counted as used.
        let taken = self.common.taken[which].get();
        let stocks = self.stocks.all().filter_map(|stock| stock.0[which].held());
        taken.saturating_sub(stocks.sum())
    }

    /// The stock of this thread's group.
    #[inline]
    fn stock(&self, which: usize) -> Option<&Stock> {
        self.stocks.mine_if_any().map(|stocks| &stocks.0[which])
    }

    /// Takes `n` or nothing; returns whether it did.
    #[inline]
    pub fn take(&self, which: usize, n: u64) -> bool {
        let _step = no_fault_injection();
        while let Some(stock) = self.stock(which)
            && let Some(held) = stock.held()
            && held >= n
        {
            if stock.replace(held, held - n) {
                return true;
            }
        }
        self.take_slow(which, n)
    }

    /// Takes `n` even if that exceeds the bound.
    #[inline]
    pub fn force(&self, which: usize, n: u64) {
        if !self.take(which, n) {
            self.common.taken[which].add(n);
        }
    }

    /// Whether `n` could be taken now.
    #[inline]
    pub fn fits(&self, which: usize, n: u64) -> bool {
        let held = self.stock(which).and_then(Stock::held);
        held.is_some_and(|held| held >= n)
            || self.fits_common(which, n)
            || self.close(which, |all| all.fits_common(which, n))
    }

    /// Gives `n` back.
    #[inline]
    pub fn give(&self, which: usize, n: u64) {
        let _step = no_fault_injection();
        while let Some(stock) = self.stock(which)
            && let Some(held) = stock.held()
            && held.saturating_add(n) <= 2 * BATCH
        {
            if stock.replace(held, held + n) {
                return;
            }
        }
        self.give_slow(which, n);
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

    /// [`Self::take`] when the stock holds too little.
    #[cold]
    fn take_slow(&self, which: usize, n: u64) -> bool {
        let left = self.max[which].saturating_sub(self.common.taken[which].get());
        // G2: a call that is refused held this lock, so no refill was in flight then.
        if n <= BATCH
            && left >= OPEN_MIN
            && let Some(_lock) = self.common.refill.try_lock()
            && self.take_common(which, n + BATCH)
        {
            self.refill_stock(which);
            return true;
        }
        self.take_common(which, n) || self.close(which, |all| all.take_common(which, n))
    }

    /// Adds a batch that was taken to this thread's stock. `refill` is held.
    fn refill_stock(&self, which: usize) {
        let stock = &self.stocks.mine().0[which];
        stock.open();
        loop {
            let held = stock.held().unwrap_or(0);
            if stock.replace(held, held + BATCH) {
                return;
            }
        }
    }

    /// Closes all stocks, then calls `ask` while the common count is exact.
    #[cold]
    fn close(&self, which: usize, ask: impl FnOnce(&Self) -> bool) -> bool {
        let _lock = self.common.refill.lock();
        let stocks: u64 = self.stocks.all().map(|stock| stock.0[which].close()).sum();
        self.common.taken[which].sub(stocks);
        ask(self)
    }

    /// [`Self::give`] when the stock is closed or full; a full one also returns a batch.
    #[cold]
    fn give_slow(&self, which: usize, n: u64) {
        let mut more = 0;
        if let Some(_lock) = self.common.refill.try_lock() {
            if let Some(stock) = self.stock(which)
                && let Some(held) = stock.held()
                && held >= BATCH
                && stock.replace(held, held - BATCH)
            {
                more = BATCH;
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
    fn take_beyond_the_bound_takes_nothing() {
        let all = BoundedCounter::new([10]);
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
        assert!(BoundedCounter::new([u64::MAX]).take(0, u64::MAX));
    }

    #[test]
    fn amounts_in_stocks_cause_no_refusal() {
        let all = BoundedCounter::new([0, 3 * OPEN_MIN]);
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
        assert!(all.common.taken[1].get() > used, "stocks have some");
        assert!(all.fits(1, 3 * OPEN_MIN - used) && !all.fits(1, 3 * OPEN_MIN - used + 1));
        assert!(all.take(1, 3 * OPEN_MIN - used));
        assert!(!all.take(1, 1));
        all.give(1, 3 * OPEN_MIN);
        assert_eq!((all.used(1), all.common.taken[1].get()), (0, 0));
    }

    /// Takes by `step` until refused, giving some back now and then; returns what it kept.
    fn greedy(all: &BoundedCounter<1>, step: u64) -> u64 {
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
    fn threads_reach_the_bound_and_never_exceed_it() {
        let max = 2 * OPEN_MIN + 7;
        let all = BoundedCounter::new([max]);
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
