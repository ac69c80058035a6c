// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests RCU with real threads: a retired value outlives the read sections that saw it and is
//! dropped after them, and a retirement beyond the limits waits and reports pressure.

use super::*;
use crate::asymmetric_fence::Fence;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(20);

/// There is one domain: a test that stalls a reader must run alone.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn counter() -> (Arc<AtomicUsize>, impl Fn() -> Box<Counted>) {
    let drops = Arc::new(AtomicUsize::new(0));
    let made = Arc::clone(&drops);
    (drops, move || Box::new(Counted(Arc::clone(&made))))
}

#[test]
fn a_retired_value_outlives_the_sections_that_saw_it() {
    let _alone = alone();
    let (drops, make) = counter();
    let cell = RcuCell::new(make());
    let reader = Reader::new("holds on");
    let outer = reader.enter();
    assert!(cell.read(&outer).is_some());
    cell.replace(None);
    let inner = reader.enter();
    drop(outer);
    assert!(!drain(Duration::from_millis(20)));
    assert_eq!(
        drops.load(SeqCst),
        0,
        "the inner guard still holds the section"
    );
    drop(inner);
    assert!(drain(LONG));
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn section_entered_after_retire_delays_no_drop() {
    let _alone = alone();
    let (drops, make) = counter();
    retire(make());
    flush();
    let reader = Reader::new("came later");
    let _section = reader.enter();
    assert!(drain(LONG));
    assert_eq!(drops.load(SeqCst), 1);
}

#[test]
fn synchronize_waits_for_sections_not_for_idle_readers() {
    let _alone = alone();
    let reader = Reader::new("short");
    synchronize();
    let section = reader.enter();
    assert!(reader.in_section());
    assert!(!synchronize_within(Duration::from_millis(5)));
    drop(section);
    assert!(synchronize_within(LONG));
}

#[cfg(debug_assertions)]
#[test]
fn synchronize_in_a_section_panics_in_debug_builds() {
    let _alone = alone();
    let caught = thread::spawn(|| {
        let reader = Reader::new("waits for itself");
        let _section = reader.enter();
        synchronize();
    });
    assert!(caught.join().is_err());
}

#[test]
fn full_bag_is_sealed_and_dropped_without_a_flush() {
    let _alone = alone();
    assert!(drain(LONG));
    let (drops, make) = counter();
    let batch = Limits::default().batch;
    for _ in 0..batch - 1 {
        assert_eq!(retire(make()), Pressure::Normal);
    }
    assert_eq!((drops.load(SeqCst), backlog().objects), (0, batch - 1));
    retire(make());
    assert_eq!((drops.load(SeqCst), backlog().objects), (batch, 0));
    retire_sized(make(), Limits::default().batch_bytes);
    assert_eq!(drops.load(SeqCst), batch + 1, "bytes fill a bag as well");
}

#[test]
fn retire_past_the_limits_waits_and_reports_pressure() {
    let _alone = alone();
    assert!(drain(LONG));
    let before = backlog().overruns;
    let patience = Duration::from_millis(5);
    let old = configure(Limits {
        batch: 4,
        max: 8,
        patience,
        ..Limits::default()
    });
    let (drops, make) = counter();
    let reader = Reader::new("culprit");
    let section = reader.enter();
    let start = Instant::now();
    let pressure: Vec<_> = (0..12).map(|_| retire(make())).collect();
    assert!(start.elapsed() >= patience && start.elapsed() < LONG);
    assert!(pressure[..11].iter().all(|&p| p == Pressure::Normal));
    assert_eq!(pressure[11], Pressure::Over);
    assert!(!admit());
    assert_eq!((drops.load(SeqCst), backlog().objects), (0, 12));
    assert_eq!(backlog().overruns, before + 1);
    let named = stalled(Duration::ZERO);
    assert!(named.iter().any(|s| s.name == "culprit"), "{named:?}");
    drop(section);
    assert!(drain(LONG));
    assert!(admit() && drops.load(SeqCst) == 12);
    configure(old);
}

#[test]
fn stalled_names_only_readers_that_stay_in_one_section() {
    let _alone = alone();
    let (stays, comes_back) = (Reader::new("stays"), Reader::new("comes back"));
    let _long = stays.enter();
    let short = comes_back.enter();
    assert!(
        stalled(Duration::ZERO).is_empty(),
        "the first look meets everybody first"
    );
    drop(short);
    let _another = comes_back.enter();
    thread::sleep(Duration::from_millis(2));
    let named = stalled(Duration::from_millis(1));
    assert_eq!(
        named.iter().map(|s| &*s.name).collect::<Vec<_>>(),
        ["stays"]
    );
    assert!(stalled(LONG).is_empty());
}

#[test]
fn slots_are_reused_and_a_forgotten_guard_ends_with_its_reader() {
    let _alone = alone();
    let count = || reader::READERS.slots().count();
    drop((Reader::new("a"), Reader::new("b")));
    let before = count();
    for _ in 0..10 {
        let reader = Reader::new("forgets");
        core::mem::forget(reader.enter());
        assert!(!synchronize_within(Duration::from_millis(1)));
    }
    assert_eq!(count(), before);
    assert!(synchronize_within(LONG));
}

#[test]
fn panicking_thread_leaves_its_section() {
    let _alone = alone();
    let panics = thread::spawn(|| {
        let reader = Reader::new("panics");
        let _section = reader.enter();
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panics.join().is_err());
    assert!(synchronize_within(LONG));
}

#[test]
fn panicking_drop_loses_no_other_value_and_no_count() {
    let _alone = alone();
    assert!(drain(LONG));
    let (drops, make) = counter();
    retire(make());
    defer(8, || std::panic::resume_unwind(Box::new("on purpose")));
    retire(make());
    assert!(std::panic::catch_unwind(flush).is_err());
    assert!(drain(LONG));
    assert_eq!(
        (drops.load(SeqCst), backlog().objects, backlog().bytes),
        (2, 0, 0)
    );
}

/// A list in which each node retires the next one.
struct Part(Option<Box<Part>>, Arc<AtomicUsize>);

impl Drop for Part {
    fn drop(&mut self) {
        self.1.fetch_add(1, SeqCst);
        if let Some(next) = self.0.take() {
            retire(next);
        }
    }
}

#[test]
fn nested_retirement_terminates() {
    let _alone = alone();
    let drops = Arc::new(AtomicUsize::new(0));
    let list = (0..2_000).fold(None, |list, _| {
        Some(Box::new(Part(list, Arc::clone(&drops))))
    });
    retire(list.expect("parts"));
    while drops.load(SeqCst) < 2_000 {
        assert!(drain(LONG));
    }
}

/// A value that can tell whether it is read after its drop.
struct Canary {
    dead: AtomicBool,
    twice: [u64; 2],
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.dead.store(true, SeqCst);
        self.twice = [1, 2];
    }
}

fn stress(fence: Fence) {
    let cell = Arc::new(RcuCell::empty());
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (cell, stop) = (Arc::clone(&cell), Arc::clone(&stop));
            thread::spawn(move || {
                let reader = Reader::with_fence("stress", fence);
                let mut seen = 0u64;
                while !stop.load(SeqCst) {
                    for _ in 0..64 {
                        let section = reader.enter();
                        let Some(c): Option<&Canary> = cell.read(&section) else {
                            continue;
                        };
                        assert_eq!(c.twice[0], c.twice[1]);
                        core::hint::spin_loop();
                        assert!(!c.dead.load(SeqCst) && c.twice[0] == c.twice[1]);
                        seen += 1;
                    }
                }
                seen
            })
        })
        .collect();
    let writers: Vec<_> = (0..2)
        .map(|w| {
            let (cell, stop) = (Arc::clone(&cell), Arc::clone(&stop));
            thread::spawn(move || {
                for i in 0u64.. {
                    let dead = AtomicBool::new(false);
                    cell.replace(Some(Box::new(Canary {
                        dead,
                        twice: [i ^ w; 2],
                    })));
                    if stop.load(SeqCst) {
                        return;
                    }
                }
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(300));
    stop.store(true, SeqCst);
    for w in writers {
        w.join().expect("a writer panicked");
    }
    let seen: u64 = readers
        .into_iter()
        .map(|r| r.join().expect("a reader panicked"))
        .sum();
    assert!(seen > 0);
    assert!(drain(LONG));
}

#[test]
fn readers_never_see_a_dropped_value() {
    let _alone = alone();
    stress(Fence::of_process());
}

#[test]
fn readers_with_a_full_fence_never_see_a_dropped_value() {
    let _alone = alone();
    stress(Fence::full());
}
