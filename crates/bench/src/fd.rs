// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench fd`: what the lowest free descriptor costs, by how many are open.
//!
//! Two layers. The bitmaps alone (`maps`): ours, and Linux's two levels as they were before three
//! patches and with each of them on top (`linux`). The whole calls (`calls`): dup and close of a
//! task against the host kernel's, both with as many descriptors open.

mod calls;
mod linux;
mod maps;
mod page;
mod pattern;

use crate::bars;
use crate::error::Error;
use crate::harness::Steal;
use crate::row::Row;
use crate::{Ask, Plant};

pub use page::{matrix, others};

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which rows.
    pub ask: Ask,
    /// A fault to plant.
    pub plant: Option<Plant>,
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.ask.wants(name)
    }

    /// How often one of our bursts runs.
    fn turns(&self) -> u64 {
        if self.plant == Some(Plant::Slow) {
            64
        } else {
            1
        }
    }
}

/// How many descriptors are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    count: u32,
    name: &'static str,
}

const OPEN: [Open; 4] = [
    Open {
        count: 10,
        name: "10",
    },
    Open {
        count: 1000,
        name: "1k",
    },
    Open {
        count: 100_000,
        name: "100k",
    },
    Open {
        count: 1_000_000,
        name: "1M",
    },
];

/// Runs every wanted row.
///
/// # Errors
/// `Setup` or `NotPermitted` if a side cannot be built, `Wrong` if it answers wrongly.
pub fn run(options: &Options) -> Result<Vec<Row>, Error> {
    let steal = Steal::open();
    let mut rows = maps::rows(options, &steal)?;
    rows.extend(calls::rows(options, &steal)?);
    for bar in bars::FD {
        if options.wants(bar.name) && rows.iter().all(|row| row.name != bar.name) {
            rows.push(Row::missing(bar.name, "nothing measures it"));
        }
    }
    Ok(rows)
}
