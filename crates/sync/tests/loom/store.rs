// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that in all interleavings of pins with reclaim no pinned item is freed, each item is freed
//! once, and a slot that is reused is not pinned by mistake.

use crate::{Canary, fault_is_found, model, model_with};
use loom::thread;
use openpath_sync::{PinSet, Sample, Store, Word, slab_item};
use std::sync::Arc;

slab_item! {
    /// A dentry.
    pub(crate) struct Dentry: Canary { pub(crate) word: Word }
}
slab_item! {
    /// A mount.
    pub(crate) struct Mount: Canary { pub(crate) word: Word }
}

type Pins = PinSet<Mount, Dentry>;

/// A store with one live dentry that has a canary.
fn store() -> (Arc<Store<Mount, Dentry>>, u32, Canary) {
    let store: Arc<Store<Mount, Dentry>> = Arc::new(Store::new(2, 2, 4).expect("room"));
    let (dentry, _) = store
        .new_dentry(|_, d, _| d.word.set(1))
        .expect("a free slot");
    let canary = Canary::new();
    assert!(
        store
            .set_dentry_payload(dentry, Arc::new(canary.clone()))
            .is_ok()
    );
    (store, dentry, canary)
}

/// Frees the dentry if it is not pinned; returns whether it did.
fn reclaim(store: &Store<Mount, Dentry>, dentry: u32) -> bool {
    let mut victims = vec![dentry];
    store.reclaim_dentries(
        &mut victims,
        |_| true,
        |_| false,
        |_, _, payload| payload.expect("a payload").free(),
    );
    victims.is_empty()
}

/// Pins as a walk does, and uses the payload.
fn pin_and_use(pins: &Pins, dentry: u32) {
    let was = pins.store().dentry(dentry).life_sample();
    let Some(pin) = pins.try_pin(0, Sample::default(), dentry, was) else {
        return;
    };
    pins.store().dentry_payload(&pin).expect("a payload").read();
    pins.release(pin);
}

trait LifeSample {
    fn life_sample(&self) -> Sample;
}

impl LifeSample for Dentry {
    fn life_sample(&self) -> Sample {
        openpath_sync::Item::life(self).sample()
    }
}

fn pinner_against_reclaimer() {
    let (store, dentry, canary) = store();
    let pins = Pins::new(Arc::clone(&store)).expect("a block");
    let pinner = thread::spawn(move || pin_and_use(&pins, dentry));
    let freed = reclaim(&store, dentry);
    // Both may fail: the scan meets the word of a pin that is about to see the mark.
    pinner.join().unwrap();
    assert_eq!(canary.is_freed(), freed);
    assert_eq!(store.dentry(dentry).life_sample().is_steady(), !freed);
}

#[test]
fn a_pinned_payload_is_not_dropped() {
    model(pinner_against_reclaimer);
}

#[test]
fn missing_light_fence_of_pins_is_found() {
    fault_is_found(pinner_against_reclaimer);
}

#[test]
fn every_scan_meets_a_copied_pin() {
    model(|| {
        let (store, dentry, canary) = store();
        let pins = Pins::new(Arc::clone(&store)).expect("a block");
        let was = store.dentry(dentry).life_sample();
        let first = pins
            .try_pin(0, Sample::default(), dentry, was)
            .expect("nobody else");
        let pinner = thread::spawn(move || {
            let second = pins.dup(&first).expect("room");
            pins.release(first);
            pins.store()
                .dentry_payload(&second)
                .expect("a payload")
                .read();
            pins.release(second);
        });
        let freed = reclaim(&store, dentry);
        pinner.join().unwrap();
        assert_eq!(canary.is_freed(), freed);
    });
}

#[test]
fn pin_released_by_another_thread_is_released_once() {
    model(|| {
        let (store, dentry, canary) = store();
        let pins = Pins::new(Arc::clone(&store)).expect("a block");
        let was = store.dentry(dentry).life_sample();
        let pin = pins
            .try_pin(0, Sample::default(), dentry, was)
            .expect("nobody else");
        let other = Arc::clone(&store);
        let releaser = thread::spawn(move || {
            other.dentry_payload(&pin).expect("a payload").read();
            other.release(pin);
        });
        let freed = reclaim(&store, dentry);
        releaser.join().unwrap();
        assert!(freed || reclaim(&store, dentry));
        assert!(canary.is_freed());
        assert_eq!(store.pins_held(), 0);
    });
}

#[test]
fn stale_sample_does_not_pin_a_reused_slot() {
    model(|| {
        let (store, dentry, _) = store();
        let pins = Pins::new(Arc::clone(&store)).expect("a block");
        let was = store.dentry(dentry).life_sample();
        let reclaimer = {
            let store = Arc::clone(&store);
            thread::spawn(move || {
                if reclaim(&store, dentry) {
                    let (again, _) = store
                        .new_dentry(|_, d, _| d.word.set(2))
                        .expect("a free slot");
                    assert_eq!(again, dentry);
                }
            })
        };
        if let Some(pin) = pins.try_pin(0, Sample::default(), dentry, was) {
            assert_eq!(store.dentry(dentry).word.get(), 1);
            pins.release(pin);
        }
        reclaimer.join().unwrap();
    });
}

#[test]
fn two_reclaimers_free_an_item_once() {
    model(|| {
        let (store, dentry, canary) = store();
        let other = Arc::clone(&store);
        let second = thread::spawn(move || {
            let mut victims = vec![dentry];
            let mut freed = 0;
            other.reclaim_dentries(&mut victims, |_| true, |_| false, |_, _, _| freed += 1);
            freed
        });
        let mut freed = 0;
        store.reclaim_dentries(&mut vec![dentry], |_| true, |_| false, |_, _, _| freed += 1);
        assert_eq!(freed + second.join().unwrap(), 1);
        assert_eq!(store.in_use(), (0, 0));
        drop(canary);
    });
}

#[test]
fn release_through_another_set_keeps_pin_words_separate() {
    model(|| {
        let (store, dentry, _) = store();
        let sets = [0; 2].map(|_| Pins::new(Arc::clone(&store)).expect("a block"));
        let was = store.dentry(dentry).life_sample();
        let pin = move |pins: &Pins| pins.try_pin(0, Sample::default(), dentry, was);
        let [a, b] = sets;
        b.release(pin(&a).expect("nobody else"));
        let other = thread::spawn(move || (pin(&b).expect("nobody reclaims"), b));
        let mine = pin(&a).expect("nobody reclaims");
        let (theirs, b) = other.join().unwrap();
        assert_eq!(store.pins_held(), 2, "two pins in one word");
        a.release(mine);
        b.release(theirs);
    });
}

#[test]
fn scan_meets_a_mark_that_moves_to_a_new_block() {
    // With two forced switches a scan that takes its bound once passes.
    model_with(3, || {
        let (store, dentry, _) = store();
        let pins = Pins::new(Arc::clone(&store)).expect("a block");
        let was = store.dentry(dentry).life_sample();
        let pin = || pins.try_pin(0, Sample::default(), dentry, was);
        let first = pin().expect("nobody else");
        pins.mark_writing(&first);
        // The block is full: the next pin is in an unused block.
        let filler = pin().expect("room");
        let writer = thread::spawn(move || {
            let second = pins.dup(&first).expect("room");
            pins.mark_writing(&second);
            pins.release(first);
            (pins, second)
        });
        assert_eq!(store.has_writers(|_, d| d == dentry), Some(true));
        let (pins, second) = writer.join().unwrap();
        pins.release(second);
        pins.release(filler);
    });
}
