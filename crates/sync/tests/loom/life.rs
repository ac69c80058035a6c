// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that in all interleavings a sequence-checked read sees one state, and that changes exclude
//! each other.

use crate::{Canary, model};
use loom::sync::Arc;
use loom::thread;
use openpath_sync::{Life, Word};

const FLAG: u64 = 8;

/// Two words that are always equal, except inside a change.
#[derive(Default)]
struct Item {
    life: Life,
    words: [Word; 2],
}

impl Item {
    fn write(&self, value: u64) {
        let mut change = self.life.change();
        self.words[0].set(value);
        self.words[1].set(value);
        change.set(FLAG);
    }
    /// The value of both words, if the read is confirmed.
    fn read(&self) -> Option<u64> {
        let was = self.life.sample();
        if was.is_busy() {
            return None;
        }
        let (a, b) = (self.words[0].get(), self.words[1].get());
        self.life.is_unchanged(was).then(|| {
            assert_eq!(a, b, "words of two states");
            assert_eq!(
                was.has(FLAG),
                a != 0,
                "a flag of another state than the words"
            );
            a
        })
    }
}

#[test]
fn a_confirmed_read_belongs_to_one_state() {
    model(|| {
        let item = Arc::new(Item::default());
        let theirs = Arc::clone(&item);
        let writer = thread::spawn(move || {
            theirs.write(1);
            theirs.write(2);
        });
        let seen = [item.read(), item.read()];
        if let [Some(first), Some(second)] = seen {
            assert!(first <= second, "went back in time");
        }
        writer.join().unwrap();
        assert_eq!(item.read(), Some(2));
    });
}

#[test]
fn changes_exclude_each_other() {
    model(|| {
        let item = Arc::new(Item::default());
        let inside = Canary::new();
        let threads = [0; 2].map(|_| {
            let (item, inside) = (Arc::clone(&item), inside.clone());
            thread::spawn(move || {
                let _change = item.life.change();
                inside.free();
            })
        });
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(item.life.sample().sequence(), 2);
    });
}

#[test]
fn a_conditional_change_happens_only_in_the_state_that_was_seen() {
    model(|| {
        let item = Arc::new(Item::default());
        let was = item.life.sample();
        let threads = [0; 2].map(|_| {
            let item = Arc::clone(&item);
            thread::spawn(move || item.life.change_if(was).is_some())
        });
        let won = threads
            .into_iter()
            .filter(|_| true)
            .map(|t| t.join().unwrap());
        assert_eq!(won.filter(|&w| w).count(), 1);
    });
}

#[test]
fn reader_sees_one_state_beside_two_writers() {
    model(|| {
        let item = Arc::new(Item::default());
        let writers = [1, 2].map(|value| {
            let item = Arc::clone(&item);
            thread::spawn(move || item.write(value))
        });
        item.read();
        writers.into_iter().for_each(|t| t.join().unwrap());
        assert!(item.read().is_some());
    });
}

#[test]
fn steady_sample_waits_for_a_change_to_end() {
    model(|| {
        let item = Arc::new(Item::default());
        let theirs = Arc::clone(&item);
        let writer = thread::spawn(move || theirs.write(1));
        let steady = item.life.sample_steady();
        assert!(!steady.is_busy());
        writer.join().unwrap();
    });
}
