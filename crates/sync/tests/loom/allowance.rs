// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takings against givings, against the opening and the closing of parts. In a model there is one
//! part for all threads; a lot is 2, and a part opens while 8 are left.

use crate::model;
use loom::thread;
use openpath_sync::Allowance;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An allowance, and beside the model what of it is surely in somebody's hands.
struct Watched {
    all: Allowance<1>,
    held: AtomicU64,
}

impl Watched {
    fn new(max: u64) -> Arc<Self> {
        let (all, held) = (Allowance::new([max]), AtomicU64::new(0));
        Arc::new(Self { all, held })
    }

    /// Takes, and sees that the bound is kept (G1).
    fn take(&self, n: u64) -> bool {
        let taken = self.all.take(0, n);
        if taken {
            let held = self.held.fetch_add(n, Ordering::SeqCst) + n;
            assert!(held <= self.all.max(0), "{held} are held");
        }
        taken
    }

    fn give(&self, n: u64) {
        self.held.fetch_sub(n, Ordering::SeqCst);
        self.all.give(0, n);
    }

    /// With nobody else about: what is used is what is held, what is left can be taken, nothing
    /// beyond it can, and all of it can be given back.
    fn at_rest(&self) {
        let held = self.held.load(Ordering::SeqCst);
        let left = self.all.max(0) - held;
        assert_eq!(self.all.used(0), held);
        assert!(self.take(left) && !self.all.fits(0, 1) && !self.take(1));
        self.give(held + left);
        assert_eq!(self.all.used(0), 0);
    }
}

/// Runs both, one of them in a thread of its own, on an allowance of `max` with `held` taken one
/// by one, and looks what is left.
fn race(
    (max, held): (u64, u64),
    one: impl Fn(&Watched) + Send + Sync + Copy + 'static,
    other: impl Fn(&Watched) + Send + Sync + Copy + 'static,
) {
    model(move || {
        let all = Watched::new(max);
        (0..held).for_each(|_| assert!(all.take(1)));
        let theirs = Arc::clone(&all);
        let thread = thread::spawn(move || one(&theirs));
        other(&all);
        thread.join().expect("a thread");
        all.at_rest();
    });
}

/// Together they need all there is, and one opens a part while the other is near the bound: the
/// lot on its way to the part is no reason to refuse.
#[test]
fn a_part_that_opens_is_no_reason_to_refuse() {
    race(
        (10, 0),
        |all| assert!(all.take(1)),
        |all| assert!(all.take(9)),
    );
}

/// As above where the part is open, and what was given to it, or is taken from it, counts.
#[test]
fn what_lies_in_the_part_is_no_reason_to_refuse() {
    race(
        (10, 1),
        |all| {
            assert!(all.take(1));
            all.give(1);
            assert!(all.take(1));
        },
        |all| assert!(all.take(8)),
    );
}

/// What one of them gives back the other may need, and gets if it asks after that.
#[test]
fn what_is_given_back_can_be_taken() {
    race(
        (10, 2),
        |all| {
            all.give(1);
            assert!(all.take(1));
        },
        |all| {
            let taken = all.take(8);
            assert!(taken);
            all.give(8);
        },
    );
    // Nine are left once that one is given back.
    race(
        (10, 2),
        |all| all.give(1),
        |all| {
            if !all.take(9) {
                assert!(all.take(8));
            }
        },
    );
}

/// A full part goes back to the common count by a lot, while somebody else closes it.
#[test]
fn a_part_that_overflows_meets_who_closes_it() {
    race(
        (14, 5),
        |all| {
            all.give(2);
            all.give(2);
        },
        |all| assert!(all.take(9)),
    );
}

/// One is left for two: one gets it.
#[test]
fn of_two_who_ask_for_the_last_one_gets_it() {
    model(|| {
        let all = Watched::new(10);
        assert!(all.take(1) && all.take(8));
        let theirs = Arc::clone(&all);
        let other = thread::spawn(move || theirs.take(1));
        let mine = all.take(1);
        assert_ne!(mine, other.join().expect("a thread"));
        all.at_rest();
    });
}

/// Who takes beyond the bound may be the reason to refuse; what it took is given back like any
/// other.
#[test]
fn what_was_forced_is_given_back() {
    model(|| {
        let all = Watched::new(10);
        assert!(all.take(1) && all.take(8));
        let theirs = Arc::clone(&all);
        let other = thread::spawn(move || {
            theirs.all.force(0, 2);
            theirs.all.give(0, 2);
        });
        let taken = all.take(1);
        other.join().expect("a thread");
        assert!(taken || all.take(1));
        all.at_rest();
    });
}

/// Two that open the part at once, and a third who needs the rest.
#[test]
fn three_fit_if_their_sum_does() {
    model(|| {
        let all = Watched::new(11);
        let others = [1, 2].map(|n| {
            let all = Arc::clone(&all);
            thread::spawn(move || assert!(all.take(n)))
        });
        assert!(all.take(8));
        for other in others {
            other.join().expect("a thread");
        }
        all.at_rest();
    });
}
