// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that in all interleavings an array of words ([`Slots`]) that grows loses no stored word,
//! and that readers see old words or new ones. Built for loom, its first segment has two words
//! instead of 64, so that few stores make it grow.

use crate::{Canary, model};
use loom::sync::Arc;
use loom::thread;
use openpath_sync::Slots;

#[test]
fn reader_races_with_growth() {
    model(|| {
        let slots = Arc::new(Slots::new(8));
        let (theirs, told) = (Arc::clone(&slots), Canary::new());
        let written = told.clone();
        let writer = thread::spawn(move || {
            written.touch();
            theirs.set(1, 1).unwrap();
            theirs.set(3, 2).unwrap();
            theirs.set(5, 3).unwrap();
        });
        let seen = [5, 3, 1, 6].map(|i| slots.get(i));
        match seen {
            [0, 0, 0 | 1, 0] | [0, 2, 1, 0] | [3, 2, 1, 0] => {}
            other => panic!("{other:?}"),
        }
        if seen[0] != 0 {
            told.read();
        }
        writer.join().unwrap();
        assert_eq!([1, 3, 5].map(|i| slots.get(i)), [1, 2, 3]);
    });
}

#[test]
fn writers_that_grow_at_once_keep_one_segment() {
    model(|| {
        let slots = Arc::new(Slots::new(8));
        let theirs = Arc::clone(&slots);
        let other = thread::spawn(move || theirs.set(2, 1).unwrap());
        slots.set(3, 2).unwrap();
        let before = slots.get(2);
        assert!(before <= 1);
        other.join().unwrap();
        assert_eq!([2, 3].map(|i| slots.get(i)), [1, 2]);
    });
}

#[test]
fn cleared_word_reads_as_its_old_value_or_zero() {
    model(|| {
        let slots = Arc::new(Slots::new(4));
        slots.set(2, 1).unwrap();
        let theirs = Arc::clone(&slots);
        let writer = thread::spawn(move || {
            theirs.set(2, 0).unwrap();
            theirs.set(3, 2).unwrap();
            theirs.set(2, 3).unwrap();
        });
        if slots.get(2) == 3 {
            assert_eq!(slots.get(3), 2);
        }
        writer.join().unwrap();
    });
}
