// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits against wake-ups, and both against interrupts.

use crate::{fault_with, model};
use loom::thread;
use openpath_sync::{Ended, Mutex, Sleeper, WaitQueue, lock_classes};
use std::sync::Arc;

lock_classes! {
    const CLASSES;
    /// What is waited for.
    Shelf;
}

type Goods = Mutex<(u32, WaitQueue), Shelf>;

/// Takes one, and wakes the next if another is left for it.
fn take(shelf: &Goods, sleeper: &Sleeper, hands_on: bool) -> Result<(), Ended> {
    let mut held = shelf.lock();
    while held.0 == 0 {
        held = match shelf.wait(held, |goods| &mut goods.1, sleeper, None) {
            Ok(held) => held,
            Err((_, why)) => return Err(why),
        };
    }
    held.0 -= 1;
    let next = (hands_on && held.0 > 0).then(|| held.1.wake_one());
    drop(held);
    drop(next);
    Ok(())
}

fn put(shelf: &Goods, count: u32) {
    let mut held = shelf.lock();
    held.0 += count;
    let wake = held.1.wake_one();
    drop(held);
    drop(wake);
}

#[test]
fn no_wake_up_is_lost() {
    assert_eq!(CLASSES.len(), 1);
    model(|| {
        let shelf = Arc::new(Goods::default());
        let taker = Arc::clone(&shelf);
        let taker = thread::spawn(move || take(&taker, &Sleeper::default(), true));
        put(&shelf, 1);
        assert_eq!(taker.join().expect("a thread"), Ok(()));
        assert!(shelf.lock().1.is_empty());
    });
}

/// Two who wait, and one wake-up for two things.
fn two_for_one(hands_on: bool) {
    let shelf = Arc::new(Goods::default());
    let takers = [(); 2].map(|()| {
        let shelf = Arc::clone(&shelf);
        thread::spawn(move || take(&shelf, &Sleeper::default(), hands_on))
    });
    put(&shelf, 2);
    for taker in takers {
        assert_eq!(taker.join().expect("a thread"), Ok(()));
    }
    assert_eq!(shelf.lock().0, 0);
}

#[test]
fn who_was_woken_wakes_the_next() {
    model(|| two_for_one(true));
}

#[test]
fn a_wake_up_that_is_not_handed_on_is_found() {
    fault_with("deadlock", || two_for_one(false));
}

#[test]
fn waking_before_the_change_is_found() {
    fault_with("deadlock", || {
        let shelf = Arc::new(Goods::default());
        let taker = Arc::clone(&shelf);
        let taker = thread::spawn(move || take(&taker, &Sleeper::default(), true));
        drop(shelf.lock().1.wake_all());
        shelf.lock().0 += 1;
        assert_eq!(taker.join().expect("a thread"), Ok(()));
    });
}

#[test]
fn an_interrupt_ends_a_wait_or_is_left_over() {
    model(|| {
        let (shelf, me) = (Arc::new(Goods::default()), Sleeper::default());
        let other = me.clone();
        let interrupter = thread::spawn(move || other.interrupt());
        let giver = Arc::clone(&shelf);
        let giver = thread::spawn(move || put(&giver, 1));
        let taken = take(&shelf, &me, true);
        interrupter.join().expect("a thread");
        giver.join().expect("a thread");
        assert_eq!(shelf.lock().0, u32::from(taken.is_err()), "nothing is lost");
        assert_eq!(me.withdraw(), taken.is_ok(), "it counts once");
        assert!(shelf.lock().1.is_empty());
    });
}
