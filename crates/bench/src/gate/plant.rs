// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plants faults on purpose, to show that a gate turns red.
//!
//! They are in the runner, after each operation: the engine has no hook for them and no cost.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plant {
    /// Every timed burst of ours runs 64 times.
    Slow,
    /// Every operation allocates.
    Allocation,
    /// Every operation counts itself in a word that all tasks share.
    SharedCounter,
    /// Every hit sets a bit that is set already.
    VisitedBit,
    /// Every operation writes a word of its task, in the line of another task's word.
    FalseSharing,
    /// The same with the words on two lines that processors fetch together.
    AdjacentLine,
    /// Every operation frees what the other task allocated, and leaves it something to free.
    RemoteFree,
    /// Every twentieth operation is done twice.
    FivePercent,
    /// Every operation has one locked instruction, on a word of its task.
    Locked,
}

/// Words of tasks 0 and 1 that the faults write: the first pair shares a line, the second a pair of
/// lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Words([AtomicU64; 16]);

/// The memory that the faults write. If it is in the tree's shared memory, more faults apply.
#[derive(Debug, Default)]
pub(crate) struct Target {
    words: Box<Words>,
    parcel: Mutex<Option<Box<[u8; 48]>>>,
}

impl Target {
    /// Executes `plant` once, as task 0 or 1.
    #[inline(never)]
    pub(crate) fn commit_fault(&self, plant: Plant, task: usize) {
        let word = |at: usize| &self.words.0[at % 16];
        match plant {
            Plant::Slow | Plant::FivePercent => {}
            Plant::Allocation => drop(black_box(Box::new(task))),
            Plant::SharedCounter => drop(word(0).fetch_add(1, Relaxed)),
            Plant::VisitedBit => word(0).store(1, Relaxed),
            Plant::FalseSharing => word(task).store(1, Relaxed),
            Plant::AdjacentLine => word(8 * task).store(1, Relaxed),
            Plant::RemoteFree => {
                let parcel = black_box(Box::new([0; 48]));
                let old = self.parcel.lock().map(|mut place| place.replace(parcel));
                drop(black_box(old));
            }
            Plant::Locked => drop(black_box(&AtomicU64::new(0)).fetch_add(1, Relaxed)),
        }
    }
}
