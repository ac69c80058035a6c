// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that in all interleavings the handles of a biased lock exclude each other, no waiter
//! misses its wake-up, and a single handle that is left can lock and drop the pair again.

use crate::{Canary, fault_with, model};
use loom::thread;
use openpath_sync::{Biased, lock_classes};
use std::mem::ManuallyDrop;

lock_classes! {
    /// Every class of these models.
    const CLASSES;
    /// The class of the pair.
    Class;
}

type Pair = Biased<Owned, Owned, Class>;

/// Either half of a pair; its drop is a use as well.
struct Owned {
    inside: Canary,
    turns: u32,
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.inside.free();
    }
}

fn pair() -> Pair {
    let [shared, locked] = [0; 2].map(|turns| Owned {
        inside: Canary::new(),
        turns,
    });
    Pair::new(shared, locked)
}

/// A use of the locked value: a write that the model sees.
fn turn(pair: &Pair) {
    let mut guard = pair.lock();
    guard.inside.touch();
    guard.turns += 1;
}

#[test]
fn owner_keeps_locking_while_it_shares() {
    model(|| {
        assert_eq!(CLASSES.len(), 1);
        let mine = pair();
        turn(&mine);
        let other = mine.share();
        let theirs = thread::spawn(move || {
            turn(&other);
            other.inside.read();
        });
        turn(&mine);
        mine.inside.read();
        theirs.join().unwrap();
        assert!(!mine.is_shared());
        assert_eq!(mine.lock().turns, 3);
    });
}

#[test]
fn owner_is_unlatched_again_once_the_other_handle_is_dropped() {
    model(|| {
        let mine = pair();
        let other = mine.share();
        let theirs = thread::spawn(move || turn(&other));
        turn(&mine);
        turn(&mine);
        // Not joined yet: if the owner sees itself alone, it sees all that was done before.
        if !mine.is_shared() {
            assert_eq!(mine.lock().turns, 3);
        }
        theirs.join().unwrap();
        drop(mine);
    });
}

#[test]
fn three_handles_exclude_each_other() {
    model(|| {
        let mine = pair();
        let threads = [0; 2].map(|_| {
            let other = mine.share();
            thread::spawn(move || turn(&other))
        });
        turn(&mine);
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(mine.lock().turns, 3);
    });
}

#[test]
fn handle_shared_by_a_shared_handle_counts() {
    model(|| {
        let mine = pair();
        let other = mine.share();
        let theirs = thread::spawn(move || {
            let third = other.share();
            drop(other);
            turn(&third);
        });
        turn(&mine);
        theirs.join().unwrap();
        assert!(!mine.is_shared());
        assert_eq!(mine.lock().turns, 2);
    });
}

#[test]
fn the_last_handle_frees_after_every_use() {
    model(|| {
        let mine = pair();
        let halves = [mine.inside.clone(), mine.lock().inside.clone()];
        let other = mine.share();
        let theirs = thread::spawn(move || {
            turn(&other);
            drop(other);
        });
        drop(mine);
        theirs.join().unwrap();
        assert!(halves.iter().all(Canary::is_freed));
    });
}

/// Without the lock, only the decrement at a handle's drop orders its reads before the pair's drop.
#[test]
fn reads_of_a_dropped_handle_precede_the_drop_of_the_pair() {
    model(|| {
        let mine = pair();
        let other = mine.share();
        let theirs = thread::spawn(move || {
            other.inside.read();
            drop(other);
        });
        drop(mine);
        theirs.join().unwrap();
    });
}

#[test]
fn lost_wake_up_of_a_waiter_is_found() {
    // A handle is not dropped in a model that has failed already.
    let body = || {
        let mine = ManuallyDrop::new(pair());
        let other = ManuallyDrop::new(mine.share());
        let theirs = thread::spawn(move || turn(&other));
        turn(&mine);
        theirs.join().unwrap();
    };
    fault_with("deadlock", body);
}
