// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the order checker panics at each inversion of lock classes and at nothing else, that
//! a pair of locks cannot deadlock, and that a panic poisons no lock.

use super::*;
use std::sync::Arc;
use std::thread;

lock_classes! {
    /// Every class of these tests.
    const CLASSES;
    /// The outer one. In two lines.
    Outer;
    /// The one that nests.
    Middle = "the middle", nests;
    /// The inner one.
    Inner;
}

fn message(f: impl FnOnce() + Send + 'static) -> String {
    let caught = thread::spawn(f).join().expect_err("it did not panic");
    caught.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn classes_are_listed_in_the_order_declared() {
    let names: Vec<_> = CLASSES.iter().map(|c| (c.name, c.rank, c.nests)).collect();
    assert_eq!(
        names,
        [
            ("Outer", 1, false),
            ("the middle", 2, true),
            ("Inner", 3, false)
        ]
    );
    assert_eq!(CLASSES[0].doc, " The outer one. In two lines.");
}

#[test]
fn correct_order_passes_and_guards_drop_in_any_order() {
    let (outer, inner) = (Mutex::<_, Outer>::new(1), RwLock::<_, Inner>::new(2));
    for _ in 0..2 {
        let a = outer.lock();
        let mut b = inner.write();
        drop(a);
        *b += 1;
        drop(b);
    }
    assert_eq!(inner.into_inner(), 4);
}

#[cfg(debug_assertions)]
#[test]
fn an_inversion_panics_with_both_names() {
    let said = message(|| {
        let (outer, inner) = (Mutex::<_, Outer>::new(()), Mutex::<_, Inner>::new(()));
        let _inner = inner.lock();
        let _outer = outer.lock();
    });
    assert!(said.contains("Outer") && said.contains("Inner"), "{said}");
}

#[cfg(debug_assertions)]
#[test]
fn an_inversion_is_found_whichever_guard_is_newest() {
    let said = message(|| {
        let (outer, inner) = (Mutex::<_, Outer>::new(()), RwLock::<_, Inner>::new(()));
        let middle = Mutex::<_, Middle>::new(());
        let middle_held = middle.lock();
        let _inner = inner.read();
        drop(middle_held);
        let tried = middle.try_lock();
        assert!(tried.is_some());
        let _outer = outer.lock();
    });
    assert!(said.contains("Outer") && said.contains("Inner"), "{said}");
}

#[cfg(debug_assertions)]
#[test]
fn second_lock_of_a_class_panics_unless_nested() {
    let said = message(|| {
        let (a, b) = (RwLock::<_, Middle>::new(()), RwLock::<_, Middle>::new(()));
        let _a = a.read();
        let _b = b.read();
    });
    assert!(said.contains("the middle"), "{said}");
    let (a, b) = (RwLock::<_, Middle>::new(()), RwLock::<_, Middle>::new(()));
    let _a = a.write();
    let _b = b.write_nested();
}

#[test]
fn lock_pair_takes_both_locks_and_one_lock_once() {
    let (a, b) = (Mutex::<_, Middle>::new(1), Mutex::<_, Middle>::new(2));
    for (x, y) in [(&a, &b), (&b, &a)] {
        let (first, second) = Mutex::lock_pair(x, y);
        assert_eq!(*first + *second.expect("two locks"), 3);
        assert!(x.try_lock().is_none());
    }
    let (only, none) = Mutex::lock_pair(&a, &a);
    assert!(*only == 1 && none.is_none());
    let (c, d) = (RwLock::<_, Middle>::new(1), RwLock::<_, Middle>::new(2));
    assert!(RwLock::write_pair(&c, &d).1.is_some());
    assert!(RwLock::write_pair(&d, &d).1.is_none());
}

#[test]
fn pairs_taken_from_both_ends_do_not_deadlock() {
    let locks = Arc::new([const { 0 }; 2].map(Mutex::<u32, Middle>::new));
    let threads: Vec<_> = [(0, 1), (1, 0)]
        .into_iter()
        .map(|(i, j)| {
            let locks = Arc::clone(&locks);
            thread::spawn(move || {
                for _ in 0..2000 {
                    let (mut a, b) = Mutex::lock_pair(&locks[i], &locks[j]);
                    *a += 1;
                    *b.expect("two locks") += 1;
                }
            })
        })
        .collect();
    for t in threads {
        t.join().expect("a thread panicked");
    }
    assert!(locks.iter().all(|l| *l.lock() == 4000));
}

#[test]
fn a_panic_while_holding_poisons_nothing() {
    let lock = Arc::new(Mutex::<_, Outer>::new(7));
    let theirs = Arc::clone(&lock);
    message(move || {
        let _held = theirs.lock();
        panic!("{}", String::from("on purpose"));
    });
    assert_eq!(*lock.lock(), 7);
}

#[cfg(not(debug_assertions))]
#[test]
fn a_release_lock_is_no_larger_than_a_bare_one() {
    assert_eq!(
        size_of::<Mutex<u64, Outer>>(),
        size_of::<parking_lot::Mutex<u64>>()
    );
    assert_eq!(
        size_of::<MutexGuard<'static, u64, Outer>>(),
        size_of::<parking_lot::MutexGuard<'static, u64>>()
    );
}
