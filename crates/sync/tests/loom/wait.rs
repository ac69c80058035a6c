// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that in all interleavings of waits with wake-ups and interrupts no wake-up is lost, and an
//! interrupt ends a wait or stays pending.

use crate::{fault_with, model};
use loom::thread;
use openpath_sync::{Mutex, WaitError, WaitQueue, Waiter, lock_classes};
use std::sync::Arc;

lock_classes! {
    const CLASSES;
    /// Protects the counter.
    Counter;
}

type Units = Mutex<(u32, WaitQueue), Counter>;

/// Takes one unit, and wakes the next sleeper if another is left for it.
fn take(units: &Units, sleeper: &Waiter, hands_on: bool) -> Result<(), WaitError> {
    let mut held = units.lock();
    while held.0 == 0 {
        held = match units.wait(held, |units| &mut units.1, sleeper, None) {
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

fn put(units: &Units, count: u32) {
    let mut held = units.lock();
    held.0 += count;
    let wake = held.1.wake_one();
    drop(held);
    drop(wake);
}

#[test]
fn no_wake_up_is_lost() {
    assert_eq!(CLASSES.len(), 1);
    model(|| {
        let units = Arc::new(Units::default());
        let taker = Arc::clone(&units);
        let taker = thread::spawn(move || take(&taker, &Waiter::default(), true));
        put(&units, 1);
        assert_eq!(taker.join().expect("a thread"), Ok(()));
        assert!(units.lock().1.is_empty());
    });
}

/// Two sleepers, and one wake-up for two units.
fn two_for_one(hands_on: bool) {
    let units = Arc::new(Units::default());
    let takers = [(); 2].map(|()| {
        let units = Arc::clone(&units);
        thread::spawn(move || take(&units, &Waiter::default(), hands_on))
    });
    put(&units, 2);
    for taker in takers {
        assert_eq!(taker.join().expect("a thread"), Ok(()));
    }
    assert_eq!(units.lock().0, 0);
}

#[test]
fn woken_sleeper_wakes_the_next() {
    model(|| two_for_one(true));
}

#[test]
fn missing_wake_up_of_the_next_sleeper_is_found() {
    fault_with("deadlock", || two_for_one(false));
}

#[test]
fn wake_up_before_the_change_is_found() {
    fault_with("deadlock", || {
        let units = Arc::new(Units::default());
        let taker = Arc::clone(&units);
        let taker = thread::spawn(move || take(&taker, &Waiter::default(), true));
        drop(units.lock().1.wake_all());
        units.lock().0 += 1;
        assert_eq!(taker.join().expect("a thread"), Ok(()));
    });
}

#[test]
fn interrupt_ends_a_wait_or_stays_pending() {
    model(|| {
        let (units, me) = (Arc::new(Units::default()), Waiter::default());
        let other = me.clone();
        let interrupter = thread::spawn(move || other.interrupt());
        let giver = Arc::clone(&units);
        let giver = thread::spawn(move || put(&giver, 1));
        let taken = take(&units, &me, true);
        interrupter.join().expect("a thread");
        giver.join().expect("a thread");
        assert_eq!(units.lock().0, u32::from(taken.is_err()), "nothing is lost");
        assert_eq!(me.withdraw(), taken.is_ok(), "it counts once");
        assert!(units.lock().1.is_empty());
    });
}
