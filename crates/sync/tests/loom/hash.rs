// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unlocked searches of the table against insertion, removal, splitting and reuse.

use crate::model;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use openpath_sync::{CHAIN_MAX, Chain, Table, Word, Word32};

/// Entries 1, 2, ... with these hashes; a table starts with two buckets here.
struct Entries {
    links: Vec<Word32>,
    hashes: Vec<Word>,
}

impl Chain for Entries {
    fn link(&self, index: u32) -> &Word32 {
        &self.links[index as usize]
    }
    fn hash(&self, index: u32) -> u64 {
        self.hashes[index as usize].get()
    }
}

struct Fixture {
    table: Table,
    entries: Entries,
    /// Set before anything in the table moves or goes.
    changing: AtomicBool,
}

impl Fixture {
    /// With the entries of `inserted` in it; index 0 is nobody's.
    fn new(hashes: &'static [u64], inserted: &[u32]) -> Arc<Self> {
        let links = hashes.iter().map(|_| Word32::default()).collect();
        let hashes = hashes.iter().map(|&h| Word::new(h)).collect();
        let entries = Entries { links, hashes };
        let table = Table::new(4).expect("room");
        for &i in inserted {
            table.lock(entries.hash(i)).insert(&entries, i);
        }
        Arc::new(Self {
            table,
            entries,
            changing: AtomicBool::new(false),
        })
    }
    fn find_unlocked(&self, index: u32) -> bool {
        let mut at = self.table.head(self.entries.hash(index));
        for _ in 0..CHAIN_MAX {
            if at == 0 || at == index {
                break;
            }
            at = self.entries.link(at).get();
        }
        at == index
    }
    fn find_locked(&self, index: u32) -> bool {
        let chain = self.table.lock(self.entries.hash(index));
        chain.find(&self.entries, |i| i == index) == index
    }
    fn insert(&self, index: u32) {
        self.table
            .lock(self.entries.hash(index))
            .insert(&self.entries, index);
    }
    fn remove(&self, index: u32) -> bool {
        self.table
            .lock(self.entries.hash(index))
            .remove(&self.entries, index)
    }
    /// Moves an entry to another chain, as a slot that is used again under another name.
    fn rename(&self, index: u32, hash: u64) {
        self.changing.store(true, Ordering::SeqCst);
        assert!(self.remove(index));
        self.entries.hashes[index as usize].set(hash);
        self.insert(index);
    }
    /// Splits a bucket, if there are more entries than buckets.
    fn split(&self) {
        self.changing.store(true, Ordering::SeqCst);
        self.table.grow(&self.entries);
    }
    /// A stable entry: found, unless something moved; found under the lock in any case.
    fn must_find(&self, index: u32) {
        if !self.find_unlocked(index) {
            assert!(
                self.changing.load(Ordering::SeqCst),
                "missed though nothing changed"
            );
            assert!(self.find_locked(index), "missed under the lock");
        }
    }
}

/// Hashes of one bucket until the table splits; then 1 and 3 stay, 2 and 4 go.
const ONE_BUCKET: &[u64] = &[0, 0, 2, 4, 6];

#[test]
fn insertions_hide_nothing() {
    model(|| {
        let f = Fixture::new(ONE_BUCKET, &[1]);
        let theirs = Arc::clone(&f);
        let inserter = thread::spawn(move || theirs.insert(2));
        f.must_find(1);
        inserter.join().unwrap();
        assert!(f.find_unlocked(2) && f.find_locked(2) && f.find_unlocked(1));
    });
}

#[test]
fn two_insertions_into_one_chain_both_count() {
    model(|| {
        let f = Fixture::new(ONE_BUCKET, &[]);
        let threads = [1, 2].map(|i| {
            let f = Arc::clone(&f);
            thread::spawn(move || f.insert(i))
        });
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(f.find_unlocked(1) && f.find_unlocked(2));
        assert_eq!(f.table.len(), 2);
    });
}

#[test]
fn removing_a_neighbour_hides_nothing() {
    for (gone, stays) in [(1, 2), (2, 1), (2, 3)] {
        model(move || {
            let f = Fixture::new(ONE_BUCKET, &[1, 2, 3]);
            let theirs = Arc::clone(&f);
            let remover = thread::spawn(move || assert!(theirs.remove(gone)));
            f.must_find(stays);
            remover.join().unwrap();
            assert!(!f.find_unlocked(gone) && !f.find_locked(gone));
            assert!(f.find_unlocked(stays));
        });
    }
}

#[test]
fn an_entry_is_removed_once() {
    model(|| {
        let f = Fixture::new(ONE_BUCKET, &[1, 2]);
        let threads = [0; 2].map(|_| {
            let f = Arc::clone(&f);
            thread::spawn(move || f.remove(1))
        });
        let removed = threads.map(|t| t.join().unwrap());
        assert!(removed[0] != removed[1]);
        assert!(f.find_unlocked(2) && f.table.len() == 1);
    });
}

#[test]
fn a_split_hides_entries_from_the_unlocked_only() {
    for index in [1, 2, 3] {
        model(move || {
            let f = Fixture::new(ONE_BUCKET, &[1, 2, 3]);
            let theirs = Arc::clone(&f);
            let grower = thread::spawn(move || theirs.split());
            f.must_find(index);
            grower.join().unwrap();
            assert!(
                [1, 2, 3]
                    .into_iter()
                    .all(|i| f.find_unlocked(i) && f.find_locked(i))
            );
        });
    }
}

#[test]
fn an_insertion_during_a_split_lands_where_it_is_found() {
    for index in [3, 4] {
        model(move || {
            let f = Fixture::new(ONE_BUCKET, &[1, 2, 7 - index]);
            let theirs = Arc::clone(&f);
            let grower = thread::spawn(move || theirs.split());
            f.insert(index);
            assert!(f.find_locked(index));
            grower.join().unwrap();
            f.table.grow(&f.entries);
            assert!((1..=4).all(|i| f.find_unlocked(i) && f.find_locked(i)));
        });
    }
}

#[test]
fn a_removal_during_a_split_takes_the_entry_out() {
    for index in [1, 2] {
        model(move || {
            let f = Fixture::new(ONE_BUCKET, &[1, 2, 3]);
            let theirs = Arc::clone(&f);
            let grower = thread::spawn(move || theirs.split());
            assert!(f.remove(index));
            grower.join().unwrap();
            assert!(!f.find_unlocked(index) && !f.find_locked(index));
            assert!(f.find_unlocked(3) && f.find_unlocked(3 - index));
        });
    }
}

#[test]
fn a_reader_led_into_another_chain_comes_to_an_end() {
    for (goes, stays) in [(2, 1), (1, 2), (1, 3)] {
        model(move || {
            let f = Fixture::new(&[0, 0, 2, 1], &[1, 2, 3]);
            let theirs = Arc::clone(&f);
            let renamer = thread::spawn(move || theirs.rename(goes, 1));
            f.must_find(stays);
            renamer.join().unwrap();
            assert!((1..=3).all(|i| f.find_unlocked(i) && f.find_locked(i)));
        });
    }
}
