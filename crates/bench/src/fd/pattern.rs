// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the orders in which descriptors are opened and closed, the same for every side.
//!
//! Before and after a burst, all numbers below `count` are open, unless the pattern says otherwise.
//! One operation is one allocation and one release. A burst returns how many numbers were wrong.

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::*;

/// A generator of random numbers, the same in every run (a multiply-add, of which the high half is
/// used).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (((self.0 >> 32) * u64::from(bound)) >> 32) as u32
    }
}

/// A table under test. A failed call returns a number that no pattern expects.
pub(super) trait Table {
    /// The lowest free number at or above `start`.
    fn alloc(&mut self, start: u32) -> u32;
    /// Releases a number; false if it was not open.
    fn free(&mut self, fd: u32) -> bool;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Open the lowest free number, which is above all, and close it.
    Top,
    /// Close a random one, open.
    Random,
    /// Close 64 random ones, open as many (of fewer than 128, half).
    Batch,
    /// Close 3 and the highest, open both: the second is far from the hint.
    Hole,
    /// Keep 3 free: open at or above 4, which gives the highest, and close it (`F_DUPFD` with a
    /// minimum).
    AboveHole,
}

impl Pattern {
    pub(super) const ALL: [(Self, &'static str); 5] = [
        (Self::Top, "top"),
        (Self::Random, "random"),
        (Self::Batch, "batch"),
        (Self::Hole, "hole"),
        (Self::AboveHole, "above-hole"),
    ];

    /// Prepares a full table, or (`into` off) undoes that; returns the number of wrong results.
    fn change(self, table: &mut impl Table, at: Span, into: bool) -> u64 {
        if self != Self::AboveHole {
            return 0;
        }
        let of = |fd| match into {
            true => u64::from(!table.free(fd)),
            false => u64::from(table.alloc(0) != fd),
        };
        [at.hole(), at.count - 1].map(of).into_iter().sum()
    }

    /// Operations that bring the caches into their final state.
    pub(super) fn warm_up(self, at: Span) -> u64 {
        match self {
            Self::Random | Self::Batch => u64::from(at.count / 64).clamp(64, 16_384),
            Self::Top | Self::Hole | Self::AboveHole => 64,
        }
    }

    /// Runs `ops` operations (rounded to the pattern's step).
    #[inline]
    pub(super) fn burst<T: Table>(
        self,
        table: &mut T,
        at: Span,
        random: &mut Random,
        ops: u64,
    ) -> u64 {
        match self {
            Self::Top => (0..ops).map(|_| turn(table, 0, at.count)).sum(),
            Self::Random => (0..ops).map(|_| swap(table, at.pick(random))).sum(),
            Self::Batch => {
                let batch = u64::from((at.count - at.base) / 2).min(64);
                let (mut wrong, mut left) = (0, ops);
                while left > 0 {
                    wrong += many(table, at, random, batch.min(left));
                    left -= batch.min(left);
                }
                wrong
            }
            Self::Hole => (0..ops / 2).map(|_| hole(table, at)).sum(),
            Self::AboveHole => {
                let (from, top) = (at.hole() + 1, at.count - 1);
                (0..ops).map(|_| turn(table, from, top)).sum()
            }
        }
    }
}

/// The numbers that a burst may use: from `base` up to `count`, which is the first free one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) base: u32,
    pub(super) count: u32,
}

impl Span {
    #[inline]
    fn pick(self, random: &mut Random) -> u32 {
        self.base + random.below(self.count - self.base)
    }

    fn hole(self) -> u32 {
        self.base.max(3)
    }
}

/// A full table that is prepared for a pattern until it is dropped.
struct Prepared<T: Table> {
    table: T,
    pattern: Pattern,
    at: Span,
}

impl<T: Table> Prepared<T> {
    fn new(mut table: T, (pattern, at): (Pattern, Span), name: &str) -> Result<Self, Error> {
        all_right(pattern.change(&mut table, at, true), name)?;
        Ok(Self { table, pattern, at })
    }
}

impl<T: Table> Drop for Prepared<T> {
    fn drop(&mut self) {
        // The next pattern checks every number again.
        let _ = self.pattern.change(&mut self.table, self.at, false);
    }
}

/// Adds bursts of a pattern to a plan, each of which runs `repeats` times, on the full table that
/// `setup` makes.
pub(super) fn add<'a, T: Table + 'a>(
    plan: &mut Plan<'a>,
    label: String,
    (pattern, at, repeats): (Pattern, Span, u64),
    setup: impl FnOnce() -> Result<T, Error> + 'a,
) -> Id {
    let name = label.clone();
    plan.set_up(&label, Heat::Warm, move || {
        let prepared = Prepared::new(setup()?, (pattern, at), &name)?;
        let table = Rc::new(RefCell::new((prepared, Random::new(SEED))));
        let warm = Rc::clone(&table);
        let enter = move || {
            let (Prepared { table, .. }, random) = &mut *warm.borrow_mut();
            all_right(pattern.burst(table, at, random, pattern.warm_up(at)), &name)
        };
        let burst = move |ops| {
            let (Prepared { table, .. }, random) = &mut *table.borrow_mut();
            let once = |_| pattern.burst(table, at, random, ops);
            (0..repeats).map(once).sum()
        };
        Ok((Box::new(enter), Box::new(burst)))
    })
}

/// Opens, expecting `want`, and closes that.
#[inline]
fn turn(table: &mut impl Table, from: u32, want: u32) -> u64 {
    let got = table.alloc(from);
    u64::from(got != want) + u64::from(!table.free(got))
}

/// Closes `fd` and opens, expecting the same.
#[inline]
fn swap(table: &mut impl Table, fd: u32) -> u64 {
    u64::from(!table.free(fd)) + u64::from(table.alloc(0) != fd)
}

/// Closes `count` random ones and opens as many: the same numbers, ascending.
#[inline]
fn many(table: &mut impl Table, at: Span, random: &mut Random, count: u64) -> u64 {
    let mut sum = 0;
    for _ in 0..count {
        let fd = loop {
            let fd = at.pick(random);
            if table.free(fd) {
                break fd;
            }
        };
        sum += u64::from(fd);
    }
    let (mut last, mut wrong) = (None, 0);
    for _ in 0..count {
        let fd = table.alloc(0);
        wrong += u64::from(last >= Some(fd));
        sum = sum.wrapping_sub(u64::from(fd));
        last = Some(fd);
    }
    wrong + u64::from(sum != 0)
}

/// Closes a low one and the highest, opens both.
#[inline]
fn hole(table: &mut impl Table, at: Span) -> u64 {
    let (low, top) = (at.hole(), at.count - 1);
    let closed = u64::from(!table.free(low)) + u64::from(!table.free(top));
    closed + u64::from(table.alloc(0) != low) + u64::from(table.alloc(0) != top)
}
