// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that in all interleavings of takes, gives, and the opening and closing of stocks, the
//! bounded counter keeps its bound and refuses no amount that is left. A model has one stock for
//! all threads; a batch is 2, and a stock opens while 8 are left.

use crate::model;
use loom::thread;
use openpath_sync::BoundedCounter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter, and outside of the model a count of what callers certainly hold.
struct Watched {
    all: BoundedCounter<1>,
    held: AtomicU64,
}

impl Watched {
    fn new(max: u64) -> Arc<Self> {
        let (all, held) = (BoundedCounter::new([max]), AtomicU64::new(0));
        Arc::new(Self { all, held })
    }

    /// Takes, and checks the bound (G1).
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

    /// With no other thread running: what is used is what is held, what is left can be taken,
    /// nothing beyond it can, and all of it can be given back.
    fn at_rest(&self) {
        let held = self.held.load(Ordering::SeqCst);
        let left = self.all.max(0) - held;
        assert_eq!(self.all.used(0), held);
        assert!(self.take(left) && !self.all.fits(0, 1) && !self.take(1));
        self.give(held + left);
        assert_eq!(self.all.used(0), 0);
    }
}

/// Runs both, one of them in its own thread, with a bound of `max` with `held` taken one by one,
/// then checks the result.
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

/// Together they need all there is, and one opens a stock while the other is near the bound: the
/// batch in flight to the stock is no reason to refuse.
#[test]
fn opening_a_stock_causes_no_refusal() {
    race(
        (10, 0),
        |all| assert!(all.take(1)),
        |all| assert!(all.take(9)),
    );
}

/// As above with the stock open: what is given to it, or taken from it, counts.
#[test]
fn amount_in_an_open_stock_causes_no_refusal() {
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

/// What one thread gives back the other may need, and gets if it asks later.
#[test]
fn amount_given_back_can_be_taken() {
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

/// A full stock returns a batch to the common count while another thread closes it.
#[test]
fn overflowing_stock_races_with_its_closing() {
    race(
        (14, 5),
        |all| {
            all.give(2);
            all.give(2);
        },
        |all| assert!(all.take(9)),
    );
}

/// One unit is left for two takers: one gets it.
#[test]
fn one_of_two_takers_gets_the_last_unit() {
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

/// A forced take may be the reason to refuse; its amount is given back like any other.
#[test]
fn forced_amount_is_given_back() {
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

/// Two threads open the stock at once, and a third needs the rest.
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
