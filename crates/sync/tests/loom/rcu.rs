// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that in all interleavings no memory is freed while an RCU read section sees it, and that a
//! grace period outlasts every section that ran at its start.

use crate::{Canary, fault_is_found, model};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use openpath_sync::rcu::{
    Limits, RcuCell, Reader, backlog, configure, defer, drain, flush, retire, synchronize,
};
use std::time::Duration;

fn batch(batch: usize) {
    configure(Limits {
        batch,
        ..Limits::default()
    });
}

/// Two places, and a word that says which one is reachable, if any.
struct Linked {
    at: AtomicUsize,
    canaries: [Canary; 2],
}

impl Linked {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            at: AtomicUsize::new(1),
            canaries: [Canary::new(), Canary::new()],
        })
    }
    fn read(&self) {
        let reader = Reader::new("model");
        let _section = reader.enter();
        if let Some(i) = self.at.load(Ordering::Acquire).checked_sub(1) {
            self.canaries[i].read();
        }
    }
    /// Makes `at` reachable instead of the current place, which is freed after the sections that
    /// saw it.
    fn replace(&self, at: usize) {
        if let Some(i) = self.at.swap(at, Ordering::AcqRel).checked_sub(1) {
            let canary = self.canaries[i].clone();
            defer(1, move || canary.free());
        }
    }
}

fn reader_against_retirer() {
    batch(1);
    let linked = Linked::new();
    let theirs = Arc::clone(&linked);
    let reader = thread::spawn(move || theirs.read());
    linked.replace(0);
    reader.join().unwrap();
    flush();
    assert!(linked.canaries[0].is_freed());
}

#[test]
fn memory_visible_in_a_section_is_not_freed() {
    model(reader_against_retirer);
}

#[test]
fn missing_light_fence_of_readers_is_found() {
    fault_is_found(reader_against_retirer);
}

#[test]
fn nested_and_consecutive_sections_protect_their_reads() {
    model(|| {
        batch(1);
        let linked = Linked::new();
        let theirs = Arc::clone(&linked);
        let reader = thread::spawn(move || {
            let reader = Reader::new("model");
            for _ in 0..2 {
                let _section = reader.enter();
                let _nested = reader.enter();
                if theirs.at.load(Ordering::Acquire) != 0 {
                    theirs.canaries[0].read();
                }
            }
        });
        linked.replace(0);
        reader.join().unwrap();
    });
}

#[test]
fn bags_of_two_threads_wait_for_one_reader() {
    model(|| {
        batch(1);
        let linked = Linked::new();
        let threads: Vec<_> = [true, false]
            .map(|reads| {
                let linked = Arc::clone(&linked);
                thread::spawn(move || {
                    if reads {
                        linked.read()
                    } else {
                        linked.replace(2)
                    }
                })
            })
            .into_iter()
            .collect();
        linked.replace(0);
        threads.into_iter().for_each(|t| t.join().unwrap());
        flush();
        assert!(linked.canaries[0].is_freed());
        assert_eq!(backlog().objects, 0);
    });
}

fn synchronizer() {
    let linked = Linked::new();
    let theirs = Arc::clone(&linked);
    let reader = thread::spawn(move || theirs.read());
    linked.at.store(0, Ordering::Release);
    synchronize();
    linked.canaries[0].free();
    reader.join().unwrap();
}

#[test]
fn synchronize_outlasts_every_running_section() {
    model(synchronizer);
}

#[test]
fn missing_light_fence_is_found_by_synchronize() {
    fault_is_found(synchronizer);
}

/// Written before it is published, and freed with its box.
struct Value(Canary);

impl Drop for Value {
    fn drop(&mut self) {
        self.0.free();
    }
}

#[test]
fn cell_shows_complete_values_and_drops_each_after_its_readers() {
    model(|| {
        batch(1);
        let first = Canary::new();
        let cell = Arc::new(RcuCell::new(Box::new(Value(first.clone()))));
        let (read, write) = (Arc::clone(&cell), Arc::clone(&cell));
        let reader = thread::spawn(move || {
            let reader = Reader::new("model");
            let section = reader.enter();
            read.read(&section).expect("never emptied").0.read();
        });
        let writer = thread::spawn(move || {
            write.replace(Some(Box::new(Value(Canary::new()))));
        });
        let last = Canary::new();
        cell.replace(Some(Box::new(Value(last.clone()))));
        writer.join().unwrap();
        reader.join().unwrap();
        drop(cell);
        flush();
        assert!(first.is_freed() && last.is_freed());
        assert_eq!(backlog().objects, 0);
    });
}

#[test]
fn a_drain_waits_for_what_another_thread_is_dropping() {
    model(|| {
        batch(1);
        let canary = Canary::new();
        let theirs = canary.clone();
        let other = thread::spawn(move || {
            defer(1, move || theirs.free());
        });
        retire(Box::new(0u8));
        other.join().unwrap();
        assert!(drain(Duration::from_secs(3600)));
        assert!(canary.is_freed());
    });
}

#[test]
fn slot_changes_its_reader_during_a_scan() {
    model(|| {
        batch(1);
        let linked = Linked::new();
        drop(Reader::new("left a slot behind"));
        let theirs = Arc::clone(&linked);
        let reader = thread::spawn(move || {
            theirs.read();
            theirs.read();
        });
        linked.replace(0);
        reader.join().unwrap();
    });
}
