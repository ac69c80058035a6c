// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench walk`: the rows of the contract that are times.

mod cold;
mod threads;
mod warm;
mod writers;

use crate::Plant;
use crate::bars;
use crate::error::Error;
use crate::harness::{Effort, Steal};
use crate::host::Host;
use crate::row::Row;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much to measure.
    pub effort: Effort,
    /// Only rows whose name contains this.
    pub filter: Option<String>,
    /// Size of the big trees.
    pub dentries: usize,
    /// A fault to plant.
    pub plant: Option<Plant>,
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|part| name.contains(part.as_str()))
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

/// Runs every wanted row of the contract, and those for information.
///
/// # Errors
/// `NotPermitted` or `Setup` if a side cannot be built, `Wrong` if it answers wrongly.
pub fn run(options: &Options) -> Result<Vec<Row>, Error> {
    let mut host = Host::new()?;
    let steal = Steal::open();
    let mut rows = warm::rows(options, &host, &steal)?;
    rows.extend(cold::rows(options, &mut host, &steal)?);
    host.leave()?;
    rows.extend(threads::rows(options, &steal)?);
    rows.extend(writers::rows(options, &steal)?);
    for bar in bars::WALK {
        if options.wants(bar.name) && rows.iter().all(|row| row.name != bar.name) {
            rows.push(Row::missing(bar.name, "nothing measures it"));
        }
    }
    Ok(rows)
}
