// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench wasi`: what a guest of WebAssembly waits for its files, here and under wasmtime's own
//! WASI; what whole programs take; and what very many guests take.
//!
//! One module, compiled once, runs its loops (`guest.wat`) on every side: the same calls with the
//! same paths in the same machine code, so that a ratio is one of hosts. Nothing is timed inside of
//! the guest.
//!
//! # Rules
//! R1. wasmtime's side is measured twice: as it is by default, where each call that may wait goes
//!     to a thread of a pool, and with `allow_blocking_current_thread`.
//! R2. Its files lie on a tmpfs, so that no disk is in any figure; ours are in memory as well.
//! R3. A loop checks every answer; one that is wrong ends the benchmark, and so does a side that
//!     fails.
//! R4. A row of the contract is there, measured or said not to be.

mod calls;
mod guests;
mod inside;
mod meeting;
mod ours;
mod peer;
mod plot;
mod program;
mod real;
mod tree;

pub use plot::plot;

use std::path::PathBuf;

use crate::error::Error;
use crate::row::Row;
use crate::{Ask, bars};

/// What `bench wasi` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much, and which rows.
    pub ask: Ask,
    /// Where the files of wasmtime's side are made: a directory on a tmpfs.
    pub folder: PathBuf,
    /// How many guests live at once.
    pub guests: usize,
    /// Where `cargo xtask wasi-programs` has put real programs, if they are to be run.
    pub programs: Option<PathBuf>,
}

/// Runs every wanted row.
///
/// # Errors
/// `Setup` if a side cannot be built, `Wrong` if it answers wrongly.
pub fn run(options: &Options) -> Result<Vec<Row>, Error> {
    // No thread of a pool may run while stores are counted.
    let (mut rows, guests) = {
        let guests = match options.ask.wants_any(&guests::names()) {
            true => guests::rows(options)?,
            false => Vec::new(),
        };
        (calls::rows(options)?, guests)
    };
    rows.extend(program::rows(options)?);
    rows.extend(real::rows(options)?);
    rows.extend(guests);
    // R4
    for bar in bars::WASI {
        if rows.iter().all(|row| row.name != bar.name) {
            rows.push(Row::missing(bar.name, "nothing measured it"));
        }
    }
    rows.retain(|row| options.ask.wants(&row.name));
    Ok(rows)
}

/// An error of the engine that runs guests.
fn engine(what: &str) -> impl Fn(wasmtime::Error) -> Error + '_ {
    move |why| Error::setup(what, format!("{why:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Effort, silent};
    use crate::row::Verdict;
    use std::time::Duration;

    #[test]
    fn every_row_of_the_contract_is_measured() {
        let effort = Effort {
            rounds: 1,
            time: Duration::ZERO,
            tell: silent,
        };
        let options = Options {
            ask: Ask {
                effort,
                filter: None,
            },
            folder: std::env::temp_dir(),
            guests: 20,
            programs: None,
        };
        let rows = run(&options).unwrap();
        for bar in bars::WASI {
            let row = rows.iter().find(|row| row.name == bar.name);
            let row = row.unwrap_or_else(|| panic!("{}", bar.name));
            // Few rounds say nothing of a time; that it was measured is said of counts.
            let counted = row.unit == "B" || row.name.ends_with("common stores");
            assert!(
                row.note.as_deref() != Some("nothing measured it"),
                "{}",
                bar.name
            );
            assert!(
                !counted || row.verdict != Verdict::NotMeasured,
                "{}",
                bar.name
            );
        }
        assert!(plot(&rows).starts_with("<svg "));
    }

    #[test]
    fn a_filter_of_rows_measures_no_others() {
        let effort = Effort {
            rounds: 1,
            time: Duration::ZERO,
            tell: silent,
        };
        let rows = |filter: &str, guests| {
            let options = Options {
                ask: Ask {
                    effort,
                    filter: Some(filter.to_owned()),
                },
                folder: std::env::temp_dir(),
                guests,
                programs: None,
            };
            let rows = run(&options).unwrap();
            rows.into_iter().map(|row| row.name).collect::<Vec<_>>()
        };
        // So many guests would take a day to make.
        let stores = rows("each, common stores", usize::MAX / 1024);
        assert_eq!(stores.len(), 2, "{stores:?}");
        let instances = rows("directory each, bytes of an instance", 5);
        assert_eq!(instances.len(), 1, "{instances:?}");
    }
}
