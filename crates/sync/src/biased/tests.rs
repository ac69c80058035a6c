// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with real threads that handles of a biased lock exclude each other, that every waiter gets
//! the lock, that a panic leaves it unlocked, and that the last handle drops both values.

use super::*;
use crate::lock_classes;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

lock_classes! {
    /// Every class of these tests.
    const CLASSES;
    /// The outer one.
    Outer;
    /// The inner one.
    Inner;
}

type Pair = Biased<&'static str, u64, Outer>;

fn message<T>(f: impl FnOnce() -> T) -> String {
    let caught = catch_unwind(AssertUnwindSafe(f)).err().expect("no panic");
    caught.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn only_handle_locks_repeatedly() {
    let pair = Pair::new("s", 1);
    for n in 1..10 {
        let mut guard = pair.lock();
        assert_eq!((*guard, BiasedGuard::shared(&guard)), (n, &"s"));
        *guard += 1;
    }
    assert!(!pair.is_shared());
    assert_eq!(CLASSES.len(), 2);
}

#[test]
fn second_lock_or_share_under_a_guard_panics() {
    let pair = Pair::new("s", 1);
    for shared in [false, true] {
        let _other = shared.then(|| pair.share());
        let guard = pair.lock();
        assert!(message(|| drop(pair.lock())).contains("Outer locked twice"));
        assert!(message(|| pair.share()).contains("Outer shared while locked"));
        drop(guard);
        drop(pair.lock());
    }
}

#[test]
fn panic_leaves_the_pair_unlocked() {
    let pair = Pair::new("s", 1);
    for shared in [false, true] {
        let other = shared.then(|| pair.share());
        let said = message(|| {
            let _guard = pair.lock();
            panic!("{}", "on purpose");
        });
        assert_eq!(said, "on purpose");
        drop(pair.lock());
        if let Some(other) = other {
            drop(other.lock());
        }
    }
}

#[test]
fn last_handle_sees_all_writes_of_the_others() {
    let pair = Pair::new("s", 0);
    for round in 1..=3 {
        let threads = [0; 4].map(|_| {
            let other = pair.share();
            thread::spawn(move || (0..5000).for_each(|_| *other.lock() += 1))
        });
        (0..5000).for_each(|_| *pair.lock() += 1);
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(!pair.is_shared());
        assert_eq!(*pair.lock(), round * 25_000);
    }
}

#[test]
fn all_waiters_acquire_after_long_holds() {
    let pair = Pair::new("s", 0);
    let threads = [0; 6].map(|_| {
        let other = pair.share();
        thread::spawn(move || {
            for _ in 0..20 {
                let mut guard = other.lock();
                thread::sleep(std::time::Duration::from_micros(200));
                *guard += 1;
            }
        })
    });
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(*pair.lock(), 120);
}

#[test]
fn both_values_are_dropped_once_by_the_last_handle() {
    let (s, t) = (Arc::new(()), Arc::new(()));
    let pair: Biased<_, _, Outer> = Biased::new(Arc::clone(&s), Arc::clone(&t));
    let other = pair.share();
    drop(pair);
    assert_eq!((Arc::strong_count(&s), Arc::strong_count(&t)), (2, 2));
    drop(other.lock());
    drop(other);
    assert_eq!((Arc::strong_count(&s), Arc::strong_count(&t)), (1, 1));
}

#[test]
fn pairs_and_their_parts_share_no_cache_lines() {
    let pair = Pair::new("s", 0);
    let at = |p: *const u8| p as usize;
    let lock = at(pair.pair.as_ptr().cast());
    let shared = at(core::ptr::from_ref::<&str>(&pair).cast());
    assert_eq!((lock % 128, shared % 128), (0, 0));
    assert_ne!(lock / 128, shared / 128);
}

#[cfg(debug_assertions)]
#[test]
fn lock_order_is_checked_with_one_handle() {
    let outer = Pair::new("s", 0);
    let inner: Biased<(), (), Inner> = Biased::new((), ());
    drop((outer.lock(), inner.lock()));
    let held = inner.lock();
    let said = message(|| drop(outer.lock()));
    assert!(said.contains("Outer") && said.contains("Inner"), "{said}");
    drop(held);
    drop(outer.lock());
}
