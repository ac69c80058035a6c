// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that in all interleavings an entry is found or leads to a search under the lock, and is
//! never proved absent. Unlocked searches meet insertions, removals, splits, reuse of entries, and
//! changes of the key.

use crate::model;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use openpath_sync::{CHAIN_MAX, Chain, ChainRelief, HashKey, Miss, Table, Word, Word32};

/// Entries 1, 2, ... with these hashes; here a table starts with two buckets.
struct Entries {
    links: Vec<Word32>,
    hashes: Vec<Word>,
}

impl Chain for Entries {
    fn link(&self, index: u32) -> &Word32 {
        &self.links[index as usize]
    }
    /// Two hashes are in one bucket under the first key, and in two under others.
    fn hash(&self, index: u32, key: HashKey) -> u64 {
        let hash = self.hashes[index as usize].get();
        if key.mix(0, 0) == first_key().mix(0, 0) {
            hash
        } else {
            hash >> 1
        }
    }
}

fn first_key() -> HashKey {
    HashKey::new([1, 2])
}

struct Fixture {
    table: Table,
    entries: Entries,
    /// Set before anything in the table moves or is removed.
    changing: AtomicBool,
}

impl Fixture {
    /// With the entries of `inserted` in it; index 0 is unused.
    fn new(hashes: &'static [u64], inserted: &[u32]) -> Arc<Self> {
        let links = hashes.iter().map(|_| Word32::default()).collect();
        let hashes = hashes.iter().map(|&h| Word::new(h)).collect();
        let entries = Entries { links, hashes };
        let table = Table::new(4, first_key()).expect("room");
        for &i in inserted {
            table.lock(|key| entries.hash(i, key)).insert(&entries, i);
        }
        Arc::new(Self {
            table,
            entries,
            changing: AtomicBool::new(false),
        })
    }
    /// The result of an unlocked search: found, proved absent, or nothing.
    fn search(&self, index: u32) -> Option<bool> {
        let view = self.table.view();
        let hash = |key| self.entries.hash(index, key);
        let mut probe = self.table.probe(&view, hash(view.key()));
        loop {
            let mut at = probe.head();
            for _ in 0..CHAIN_MAX {
                if at == 0 || at == index {
                    break;
                }
                at = self.entries.link(at).get();
            }
            if at == index {
                return Some(true);
            }
            match self.table.missed(&view, probe, hash) {
                Miss::Proved => return Some(false),
                Miss::Open => return None,
                Miss::Elsewhere(next) => probe = next,
            }
        }
    }
    fn find_unlocked(&self, index: u32) -> bool {
        self.search(index) == Some(true)
    }
    fn find_locked(&self, index: u32) -> bool {
        let chain = self.table.lock(|key| self.entries.hash(index, key));
        chain.find(&self.entries, |i| i == index) == index
    }
    fn insert(&self, index: u32) {
        self.table
            .lock(|key| self.entries.hash(index, key))
            .insert(&self.entries, index);
    }
    fn remove(&self, index: u32) -> bool {
        self.table
            .lock(|key| self.entries.hash(index, key))
            .remove(&self.entries, index)
    }
    /// Moves an entry to another chain, as a slot that is reused under another name.
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
    /// Moves one more bucket to another key.
    fn rekey(&self) {
        self.changing.store(true, Ordering::SeqCst);
        assert_eq!(
            self.table.relieve(&self.entries, || [5, 6]),
            ChainRelief::Changed
        );
    }
    /// A stable entry is found unless something moved, and under the lock in any case.
    fn must_find(&self, index: u32) {
        let answer = self.search(index);
        assert_ne!(answer, Some(false), "proved not to be there");
        if answer.is_none() {
            assert!(
                self.changing.load(Ordering::SeqCst),
                "missed though nothing changed"
            );
            assert!(self.find_locked(index), "missed under the lock");
        }
    }
}

/// Hashes of one bucket until the table splits; then 1 and 3 stay, 2 and 4 move.
const ONE_BUCKET: &[u64] = &[0, 0, 2, 4, 6];

#[test]
fn insertion_hides_no_entry() {
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
fn removing_a_neighbour_hides_no_entry() {
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
fn split_hides_entries_only_from_unlocked_searches() {
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
fn entry_inserted_during_a_split_is_found() {
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
fn entry_removed_during_a_split_is_absent() {
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
fn search_led_into_another_chain_ends() {
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

#[test]
fn rekey_hides_entries_only_from_unlocked_searches() {
    for index in [1, 2] {
        model(move || {
            let f = Fixture::new(&[0, 0, 2], &[1, 2]);
            let theirs = Arc::clone(&f);
            let mover = thread::spawn(move || {
                theirs.rekey();
                theirs.rekey();
            });
            f.must_find(index);
            mover.join().unwrap();
            assert_eq!(f.table.census().rekeys, 1);
            assert!((1..=2).all(|i| f.find_unlocked(i) && f.find_locked(i)));
        });
    }
}

#[test]
fn insertion_and_removal_during_a_rekey_use_the_right_half() {
    for hash in [2, 3] {
        model(move || {
            let hashes: &'static [u64] = if hash == 2 { &[0, 0, 2] } else { &[0, 0, 3] };
            let f = Fixture::new(hashes, &[1]);
            let theirs = Arc::clone(&f);
            let mover = thread::spawn(move || {
                theirs.rekey();
                theirs.rekey();
            });
            f.insert(2);
            assert_ne!(f.search(2), Some(false));
            assert!(f.find_locked(2) && f.remove(1));
            assert_ne!(f.search(1), Some(true));
            mover.join().unwrap();
            assert_eq!((f.search(1), f.search(2)), (Some(false), Some(true)));
        });
    }
}

#[test]
fn inserted_entry_is_never_proved_absent() {
    model(|| {
        let f = Fixture::new(ONE_BUCKET, &[1, 2]);
        let theirs = Arc::clone(&f);
        let done = Arc::new(AtomicBool::new(false));
        let said = Arc::clone(&done);
        let inserter = thread::spawn(move || {
            theirs.insert(3);
            said.store(true, Ordering::Release);
            theirs.split();
        });
        let before = done.load(Ordering::Acquire);
        let answer = f.search(3);
        assert!(!before || answer != Some(false));
        inserter.join().unwrap();
        assert_eq!((f.search(3), f.search(4)), (Some(true), Some(false)));
    });
}

#[test]
fn renamed_entry_always_has_one_of_its_names() {
    // Under the name 0 in the one bucket, then under the name 1 in the other.
    model(|| {
        let f = Fixture::new(&[0, 0, 2], &[1, 2]);
        let theirs = Arc::clone(&f);
        let renamer = thread::spawn(move || {
            let f = &theirs;
            let (mut old, new) = f.table.lock_two(|_| 0, |_| 1);
            assert!(old.remove(&f.entries, 1));
            f.entries.hashes[1].set(1);
            new.expect("another bucket").insert(&f.entries, 1);
        });
        let absent = |name: u64| {
            let view = f.table.view();
            let mut probe = f.table.probe(&view, name);
            let mut at = probe.head();
            for _ in 0..CHAIN_MAX {
                if at == 0 || at == 1 && f.entries.hashes[1].get() == name {
                    break;
                }
                at = f.entries.link(at).get();
            }
            probe = if at == 0 { probe } else { return false };
            matches!(f.table.missed(&view, probe, |_| name), Miss::Proved)
        };
        assert!(!(absent(0) && absent(1)), "neither of its names");
        renamer.join().unwrap();
        assert!(absent(0) && !absent(1));
    });
}

#[test]
fn two_pairs_of_chains_are_locked_in_any_order() {
    model(|| {
        let f = Fixture::new(&[0, 0, 1], &[1, 2]);
        let theirs = Arc::clone(&f);
        let other = thread::spawn(move || drop(theirs.table.lock_two(|_| 0, |_| 1)));
        drop(f.table.lock_two(|_| 1, |_| 0));
        other.join().unwrap();
    });
}
