// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that in all interleavings a set of mounts is frozen completely or not at all, that no pin
//! is taken on a frozen mount, and that mounts become live again unless they are freed.

use crate::store::{Dentry, Mount};
use crate::{Canary, fault_is_found, model};
use loom::thread;
use openpath_sync::{Item, PinSet, Store};
use std::sync::Arc;

/// A pin as a walk takes it, against a freeze of that mount and another.
fn pinner_against_freezer() {
    let store: Arc<Store<Mount, Dentry>> = Arc::new(Store::new(2, 2, 4).expect("room"));
    let canaries = [Canary::new(), Canary::new()];
    let mounts = canaries.clone().map(|canary| {
        let (mount, _) = store.new_mount(|m, _| m.word.set(1)).expect("a free slot");
        assert!(store.set_mount_payload(mount, Arc::new(canary)).is_ok());
        mount
    });
    let pins = PinSet::new(Arc::clone(&store)).expect("a block");
    let second = mounts[1];
    let pinner = thread::spawn(move || {
        let store = pins.store();
        let (dentry, mount) = (store.dentry(0), store.mount(second));
        let (was, of) = (dentry.life().sample(), mount.life().sample());
        if let Some(pin) = pins.try_pin(second, of, 0, was) {
            store.mount_payload(&pin).expect("a payload").read();
            pins.release(pin);
        }
    });
    let mut freed = 0;
    if let Some(frozen) = store.freeze_mounts(mounts.to_vec()) {
        frozen.free(|_, payload| {
            payload.expect("a payload").free();
            freed += 1;
        });
    }
    pinner.join().unwrap();
    // Either both are freed, or none is.
    let gone = canaries.map(|canary| canary.is_freed());
    assert_eq!(gone, [freed == 2; 2]);
    for mount in mounts {
        assert_eq!(store.mount(mount).life().sample().is_steady(), freed == 0);
    }
}

#[test]
fn frozen_mounts_are_not_pinned() {
    model(pinner_against_freezer);
}

#[test]
fn missing_light_fence_of_pins_is_found_by_freeze() {
    fault_is_found(pinner_against_freezer);
}

#[test]
fn frozen_mounts_not_freed_become_live_again() {
    model(|| {
        let store: Arc<Store<Mount, Dentry>> = Arc::new(Store::new(2, 2, 4).expect("room"));
        let (mount, _) = store.new_mount(|m, _| m.word.set(1)).expect("a free slot");
        let frozen = store.freeze_mounts(vec![mount]).expect("nobody pins it");
        assert!(store.mount(mount).life().sample().is_dying());
        // Neither a frozen mount nor a free one can be frozen.
        assert!(store.freeze_mounts(vec![mount]).is_none());
        drop(frozen);
        assert!(store.mount(mount).life().sample().is_steady());
        assert!(store.freeze_mounts(vec![mount, 2]).is_none());
        assert!(store.mount(mount).life().sample().is_steady());
    });
}
