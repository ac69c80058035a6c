// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests all interleavings of calls on open files: no lookup returns an ended file, the last of
//! several puts ends a file once, and a lookup beside a change of the table finds a complete file.
//! Where one thread writes or opens a file while another denies writing or takes a lease, one of
//! the two sees the other.

use crate::store::{Dentry, Mount};
use crate::{Canary, fault_is_found, model};
use loom::thread;
use openpath_sync::{
    Biased, FileRef, FileSlots, LastRef, PinSet, Sample, Store, Word, file_item, lock_classes,
};
use std::sync::Arc;

file_item! {
    /// A file with a canary that its end frees.
    struct File: Canary { number: Word }
}
lock_classes! {
    /// Every class of these models.
    const CLASSES;
    /// The table.
    Table;
}

type Files = Store<Mount, Dentry, File>;
type Pins = PinSet<Mount, Dentry, File>;

fn store() -> Arc<Files> {
    Arc::new(Store::new(2, 2, 8).expect("room"))
}

fn pins(store: &Arc<Files>) -> Pins {
    Pins::new(Arc::clone(store)).expect("a block")
}

/// An open file with this number, and its canary.
fn open(pins: &Pins, shared: bool, number: u64) -> (FileRef, Canary) {
    let pin = pins.reserve().expect("a free word");
    let file = pins.open_file(pin, shared, |body| body.number.poke(number));
    let canary = Canary::new();
    let set = pins
        .store()
        .set_file_payload(&file, Arc::new(canary.clone()));
    assert!(set.is_ok(), "the place of a file that has ended is empty");
    (file, canary)
}

/// Uses a file that a reference is held to.
fn look(store: &Files, file: &FileRef) -> u64 {
    store.file_payload(file).expect("a payload").read();
    store.file(file.id()).number.peek()
}

/// Ends a file.
fn end(pins: &Pins, last: Option<LastRef>) -> bool {
    let Some(last) = last else { return false };
    pins.store().last_payload(&last).expect("a payload").free();
    pins.end_file(last);
    true
}

fn put(pins: &Pins, file: FileRef) -> bool {
    end(pins, pins.put_file(file))
}

/// A late lookup returns a live file or none; also after the owner has reused the slot, for a local
/// file or a shared one.
#[test]
fn late_lookup_never_returns_an_ended_file() {
    for again in [false, true] {
        model(move || {
            let store = store();
            let mine = pins(&store);
            let (file, first) = open(&mine, true, 1);
            let id = file.id();
            let theirs = pins(&store);
            let late = thread::spawn(move || {
                let Some(file) = theirs.get_file(id) else {
                    return (None, false);
                };
                // Without reading the number again where it was found, this may be a file that is
                // still being made; but it is one that has not ended.
                if let Some(canary) = theirs.store().file_payload(&file) {
                    canary.read();
                }
                let number = theirs.store().file(file.id()).number.peek();
                (Some(number), put(&theirs, file))
            });
            let ended = put(&mine, file);
            let (next, second) = open(&mine, again, 2);
            let ended_next = next.id() == id && put(&mine, next);
            let (seen, ended_late) = late.join().unwrap();
            if seen == Some(2) {
                assert!(again, "another's own file");
            }
            if seen.is_none() {
                assert!(ended && !ended_late);
            }
            assert_eq!(first.is_freed(), ended || ended_late);
            assert!(!ended_next || second.is_freed());
        });
    }
}

/// The slot of a file is reused only after the thread that put it last has ended it.
#[test]
fn slot_is_reused_only_after_its_file_has_ended() {
    model(|| {
        // One block for each, and one of the owner's two words is in use.
        let store: Arc<Files> = Arc::new(Store::new(2, 2, 4).expect("room"));
        let mine = pins(&store);
        let kept = mine.reserve().expect("a free word");
        let (file, first) = open(&mine, true, 1);
        let (id, theirs, copy) = (file.id(), pins(&store), store.dup_file(&file));
        let other = thread::spawn(move || {
            put(&theirs, copy);
            // Alive, so that its block is not available.
            theirs
        });
        put(&mine, file);
        while !mine.has_room() {
            thread::yield_now();
        }
        let (next, second) = open(&mine, true, 2);
        assert_eq!(next.id(), id);
        assert_eq!(look(&store, &next), 2);
        drop(other.join().unwrap());
        assert!(first.is_freed() && !second.is_freed());
        mine.release(kept);
    });
}

/// Of all threads that put a shared file, one ends it.
#[test]
fn a_shared_file_ends_once() {
    model(|| {
        let store = store();
        let mine = pins(&store);
        let (file, canary) = open(&mine, true, 1);
        let threads = [0; 2].map(|_| {
            let (theirs, file) = (pins(&store), store.dup_file(&file));
            thread::spawn(move || {
                look(theirs.store(), &file);
                put(&theirs, file)
            })
        });
        let ended = usize::from(put(&mine, file));
        let others = threads.into_iter().filter(|_| true);
        let ended = others.fold(ended, |n, t| n + usize::from(t.join().unwrap()));
        assert_eq!(ended, 1);
        assert!(canary.is_freed());
        assert_eq!(store.pins_held(), 0);
    });
}

/// A file is local until it is handed over; references that the owner made until then count.
#[test]
fn file_is_handed_over_with_its_count() {
    model(|| {
        let store = store();
        let mine = pins(&store);
        let (file, canary) = open(&mine, false, 1);
        let second = mine.get_file(file.id()).expect("mine");
        mine.share_file(&file);
        let (other, passed) = (pins(&store), store.dup_file(&file));
        let other = thread::spawn(move || {
            look(other.store(), &passed);
            put(&other, passed)
        });
        let ended = [put(&mine, second), put(&mine, file)];
        let ended = [ended[0], ended[1], other.join().unwrap()];
        assert_eq!(ended.iter().filter(|&&e| e).count(), 1);
        assert!(canary.is_freed());
        assert_eq!(store.pins_held(), 0);
    });
}

/// A late lookup of another set's local file finds none, until the file is shared, and then a
/// complete one.
#[test]
fn late_lookup_of_a_file_being_shared_is_complete_or_none() {
    model(|| {
        let store = store();
        let mine = pins(&store);
        let (before, _) = open(&mine, false, 0);
        let (theirs, id) = (pins(&store), before.id());
        put(&mine, before);
        let late = thread::spawn(move || {
            theirs.get_file(id).is_some_and(|file| {
                assert_eq!(look(theirs.store(), &file), 1);
                put(&theirs, file)
            })
        });
        let (file, canary) = open(&mine, false, 1);
        assert_eq!(file.id(), id);
        let second = mine.get_file(id).expect("mine");
        mine.share_file(&file);
        let ended = [put(&mine, file), put(&mine, second), late.join().unwrap()];
        assert_eq!(ended.iter().filter(|&&e| e).count(), 1);
        assert!(canary.is_freed());
    });
}

type Shared = Biased<FileSlots, (), Table>;

/// The file at slot 0, as a lookup without the lock finds it.
fn lookup(pins: &Pins, table: &Shared) -> Option<FileRef> {
    loop {
        let id = table.get(0);
        if id == 0 {
            return None;
        }
        match pins.get_file(id) {
            None => thread::yield_now(),
            Some(file) if table.get(0) == id => return Some(file),
            Some(file) => {
                put(pins, file);
            }
        }
    }
}

fn shared_table(store: &Arc<Files>, pins: &Pins) -> (Shared, Canary) {
    assert_eq!(CLASSES.len(), 1);
    let table = Shared::new(FileSlots::new(store), ());
    let (file, canary) = open(pins, true, 1);
    assert!(table.lock().put_in(0, file).is_ok());
    (table, canary)
}

/// A lookup finds a complete file, the old or the new one, and never none.
#[test]
fn lookup_during_replace_finds_the_old_or_new_file() {
    model(|| {
        let store = store();
        let mine = pins(&store);
        let (table, first) = shared_table(&store, &mine);
        let (theirs, other) = (pins(&store), table.share());
        let reader = thread::spawn(move || {
            let file = lookup(&theirs, &other).expect("something is always there");
            assert!(matches!(look(theirs.store(), &file), 1 | 2));
            put(&theirs, file);
        });
        let (file, second) = open(&mine, true, 2);
        let was = table.lock().replace(&store, 0, file);
        put(&mine, was.ok().flatten().expect("the first"));
        reader.join().unwrap();
        assert!(first.is_freed() && !second.is_freed());
    });
}

/// A lookup while the file is closed, and its slot reused elsewhere.
#[test]
fn lookup_during_close_finds_the_file_or_none() {
    model(|| {
        let store = store();
        let mine = pins(&store);
        let (table, first) = shared_table(&store, &mine);
        let (theirs, other) = (pins(&store), table.share());
        let reader = thread::spawn(move || {
            if let Some(file) = lookup(&theirs, &other) {
                assert_eq!(look(theirs.store(), &file), 1);
                put(&theirs, file);
            }
        });
        let file = table.lock().take_out(&store, 0).expect("the first");
        put(&mine, file);
        let (_next, second) = open(&mine, true, 2);
        reader.join().unwrap();
        assert!(first.is_freed() && !second.is_freed());
    });
}

/// Either a writer sees that writing is denied, or the denier sees the writer.
fn writer_against_denier() {
    let store = store();
    let (dentry, live) = store
        .new_dentry(|_, d, _| d.word.set(0))
        .expect("a free slot");
    let data = Canary::new();
    let (writer, theirs) = (pins(&store), data.clone());
    let writer = thread::spawn(move || {
        let pin = writer.try_pin(0, Sample::default(), dentry, live);
        let pin = pin.expect("nobody reclaims");
        writer.mark_writing(&pin);
        let denied = writer.store().dentry(dentry).word.get() != 0;
        if !denied {
            theirs.touch();
        }
        writer.release(pin);
        denied
    });
    store.dentry(dentry).word.set(1);
    let writes = store.has_writers(|_, d| d == dentry);
    if writes == Some(false) {
        data.touch();
    }
    let denied = writer.join().unwrap();
    assert!(denied || writes != Some(false) || !data.is_freed());
}

#[test]
fn writer_and_denier_never_miss_each_other() {
    model(writer_against_denier);
}

#[test]
fn missing_light_fence_of_writers_is_found() {
    fault_is_found(writer_against_denier);
}

/// Either an opener sees that there is a lease, or its taker sees the opener; whether the opener's
/// pin is marked from the start or later.
fn opener_against_taker(late: bool) {
    let store = store();
    let (dentry, live) = store
        .new_dentry(|_, d, _| d.word.set(0))
        .expect("a free slot");
    let data = Canary::new();
    let (opener, theirs) = (pins(&store), data.clone());
    let mine = pins(&store);
    let own = mine.try_pin_opened(0, Sample::default(), dentry, live);
    let own = own.expect("nobody reclaims");
    let opener = thread::spawn(move || {
        let pin = if late {
            let pin = opener.try_pin(0, Sample::default(), dentry, live);
            let pin = pin.expect("nobody reclaims");
            opener.mark_opened(&pin);
            pin
        } else {
            let pin = opener.try_pin_opened(0, Sample::default(), dentry, live);
            pin.expect("nobody reclaims")
        };
        let leased = opener.store().dentry(dentry).word.get() != 0;
        if !leased {
            theirs.touch();
        }
        opener.release(pin);
    });
    store.dentry(dentry).word.set(1);
    let opens = store.find_opens(&own, |d| d == dentry).map(|o| o.others);
    if opens == Some(false) {
        data.touch();
    }
    // Both touched it only if one was done before the other began: otherwise the model reports it.
    opener.join().unwrap();
    mine.release(own);
}

#[test]
fn opener_and_lease_taker_never_miss_each_other() {
    for late in [false, true] {
        model(move || opener_against_taker(late));
    }
}

#[test]
fn missing_light_fence_of_openers_is_found() {
    for late in [false, true] {
        fault_is_found(move || opener_against_taker(late));
    }
}
