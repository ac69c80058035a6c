// SPDX-License-Identifier: MIT OR Apache-2.0
//! Faults planted on purpose, to see a gate turn red.
//!
//! They sit in the runner, after each operation: the engine has no hook for them and no cost.

use std::fmt;
use std::hint::black_box;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// Every timed burst of ours runs 64 times.
    Slow,
    /// Every operation allocates.
    Alloc,
    /// Every operation counts itself in a word that all share.
    SharedCounter,
    /// Every hit sets a bit that is set already.
    VisitedBit,
    /// Every operation writes a word of its task, on the line of another task's word.
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

const NAMES: [(&str, Plant); 9] = [
    ("slow", Plant::Slow),
    ("allocation", Plant::Alloc),
    ("shared-counter", Plant::SharedCounter),
    ("visited-bit", Plant::VisitedBit),
    ("false-sharing", Plant::FalseSharing),
    ("adjacent-line", Plant::AdjacentLine),
    ("remote-free", Plant::RemoteFree),
    ("five-percent", Plant::FivePercent),
    ("locked", Plant::Locked),
];

impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, plant)| plant == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for Plant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        found.map(|&(_, plant)| plant).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|&(name, _)| name).collect();
            format!("the faults are {}", names.join(", "))
        })
    }
}

/// Words of the tasks 0 and 1 that the faults write: the first pair shares a line, the second a
/// pair of lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Words([AtomicU64; 16]);

/// Where the faults strike. What shares memory with the tree shows more faults.
#[derive(Debug, Default)]
pub(crate) struct Field {
    words: Box<Words>,
    parcel: Mutex<Option<Box<[u8; 48]>>>,
}

impl Field {
    /// Commits `plant` once, as task 0 or 1.
    #[inline(never)]
    pub(crate) fn strike(&self, plant: Plant, task: usize) {
        let word = |at: usize| &self.words.0[at % 16];
        match plant {
            Plant::Slow | Plant::FivePercent => {}
            Plant::Alloc => drop(black_box(Box::new(task))),
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

/// How many operations are run for `ops` that were asked for.
pub(crate) fn padded(plant: Option<Plant>, ops: u64) -> u64 {
    if plant == Some(Plant::FivePercent) {
        ops + ops / 20
    } else {
        ops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_name_and_some_place() {
        let field = Field::default();
        for (name, plant) in NAMES {
            assert_eq!(name.parse(), Ok(plant));
            assert_eq!(plant.to_string(), name);
            field.strike(plant, 1);
        }
        assert!(
            "other"
                .parse::<Plant>()
                .unwrap_err()
                .contains("remote-free")
        );
        assert_eq!(padded(Some(Plant::FivePercent), 100), 105);
    }

    #[test]
    fn the_words_lie_as_their_faults_want() {
        let words = Box::<Words>::default();
        assert_eq!(std::ptr::from_ref(&*words).addr() % 128, 0);
        assert_eq!(size_of::<Words>(), 128);
    }
}
