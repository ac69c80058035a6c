// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests with real threads that no pinned payload is dropped. Tests also what is too large for a
//! model: an index that wraps, and blocks that a set of pins takes and returns.
#![cfg(not(loom))]

use openpath_sync::{Item, PINS_PER_BLOCK, PinSet, Sample, Store, Word, slab_item};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// A payload that records its drop, in memory that outlives it.
struct Tracked(Arc<AtomicBool>);

impl Drop for Tracked {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

slab_item! {
    /// A dentry.
    struct Dentry: Tracked { word: Word }
}
slab_item! {
    /// A mount.
    struct Mount: Tracked { word: Word }
}

type Pins = PinSet<Mount, Dentry>;

fn store(dentries: u32) -> Arc<Store<Mount, Dentry>> {
    Arc::new(Store::new(8, dentries, 1024).expect("address space"))
}

fn add(store: &Store<Mount, Dentry>) -> u32 {
    let (dentry, _) = store
        .new_dentry(|_, d, _| d.word.set(7))
        .expect("a free slot");
    let payload = Arc::new(Tracked(Arc::new(AtomicBool::new(false))));
    assert!(store.set_dentry_payload(dentry, payload).is_ok());
    dentry
}

fn reclaim(store: &Store<Mount, Dentry>, dentry: u32) -> Vec<u32> {
    let mut victims = vec![dentry];
    store.reclaim_dentries(
        &mut victims,
        |_| true,
        |_| false,
        |_, _, payload| drop(payload),
    );
    victims
}

fn pin(pins: &Pins, dentry: u32) -> Option<openpath_sync::Pin> {
    pins.try_pin(
        0,
        Sample::default(),
        dentry,
        pins.store().dentry(dentry).life().sample(),
    )
}

#[test]
fn reclaim_by_a_wrapping_index_is_refused() {
    let store = store(63);
    let dentry = add(&store);
    let wraps = dentry + 64;
    let pins = Pins::new(Arc::clone(&store)).expect("a block");
    let held = pin(&pins, wraps).expect("live under any name");
    assert_eq!(held.dentry(), dentry);
    assert!(reclaim(&store, wraps).is_empty(), "refused");
    assert_eq!(reclaim(&store, dentry), [dentry]);
    assert!(
        !store
            .dentry_payload(&held)
            .expect("a payload")
            .0
            .load(SeqCst)
    );
    pins.release(held);
}

#[test]
fn pin_set_takes_blocks_on_demand_and_returns_them() {
    let store = store(64);
    let dentry = add(&store);
    let pins = Pins::new(Arc::clone(&store)).expect("a block");
    let held: Vec<_> = (0..PINS_PER_BLOCK * 2 + 1)
        .map(|_| pin(&pins, dentry))
        .collect();
    assert!(held.iter().all(Option::is_some));
    for p in held.into_iter().flatten() {
        store.release(p);
    }
    assert_eq!(store.pins_held(), 0);
    drop(pins);
    let sets: Vec<_> = (0..1024 / PINS_PER_BLOCK)
        .map(|_| Pins::new(Arc::clone(&store)).expect("every block is free again"))
        .collect();
    assert!(
        Pins::new(Arc::clone(&store)).is_none(),
        "{} sets take all",
        sets.len()
    );
}

#[test]
fn pinned_payloads_are_never_dropped() {
    let store = store(256);
    let dentries: Arc<Vec<u32>> = Arc::new((0..32).map(|_| add(&store)).collect());
    let stop = Arc::new(AtomicBool::new(false));
    let used = Arc::new(AtomicU64::new(0));
    let freed = Arc::new(AtomicU64::new(0));
    let pinners: Vec<_> = (0..2)
        .map(|t| {
            let (store, dentries) = (Arc::clone(&store), Arc::clone(&dentries));
            let (stop, used) = (Arc::clone(&stop), Arc::clone(&used));
            thread::spawn(move || {
                let pins = Pins::new(store).expect("a block");
                let mut n = t;
                while !stop.load(SeqCst) {
                    n = (n + 7) % dentries.len();
                    let Some(first) = pin(&pins, dentries[n]) else {
                        continue;
                    };
                    let second = pins.dup(&first).expect("room");
                    pins.release(first);
                    if let Some(payload) = pins.store().dentry_payload(&second) {
                        assert!(!payload.0.load(SeqCst), "dropped while pinned");
                        used.fetch_add(1, SeqCst);
                    }
                    pins.release(second);
                }
            })
        })
        .collect();
    let reclaimer = {
        let (store, dentries) = (Arc::clone(&store), Arc::clone(&dentries));
        let (stop, freed) = (Arc::clone(&stop), Arc::clone(&freed));
        thread::spawn(move || {
            while !stop.load(SeqCst) {
                let mut victims = dentries.to_vec();
                store.reclaim_dentries(&mut victims, |_| true, |_| false, |_, _, p| drop(p));
                // Reuses the slots at once.
                for _ in 0..dentries.len() - victims.len() {
                    add(&store);
                    freed.fetch_add(1, SeqCst);
                }
            }
        })
    };
    thread::sleep(Duration::from_millis(300));
    // On a busy machine one of them may not have run yet.
    let begun = Instant::now();
    let is_idle = || used.load(SeqCst) == 0 || freed.load(SeqCst) == 0;
    while is_idle() && begun.elapsed() < Duration::from_secs(60) {
        thread::sleep(Duration::from_millis(10));
    }
    stop.store(true, SeqCst);
    pinners
        .into_iter()
        .for_each(|p| p.join().expect("a pinner panicked"));
    reclaimer.join().expect("the reclaimer panicked");
    assert!(freed.load(SeqCst) > 0);
    assert!(used.load(SeqCst) > 0);
    assert_eq!(store.pins_held(), 0);
}
