// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `wasi`: a WebAssembly guest's file calls, here and under wasmtime's own WASI; whole
//! programs; and very many guests. `pages/wasi.md` explains the rows.
//!
//! # Rules
//! R1. One module, compiled once, runs its loops (`guest.wat`) on every side, so that a ratio
//!     compares only hosts. Nothing is timed inside the guest.
//! R2. wasmtime's files are on a tmpfs, so that no figure includes a disk; ours are in memory as
//!     well.
//! R3. A loop checks every answer; a wrong one ends the benchmark, and so does a side that fails.

mod calls;
mod guests;
mod hosts;
mod inside;
mod real;
mod tree;

use std::path::{Path, PathBuf};

use crate::chart::{Chart, Picture};
use crate::common::*;
use hosts::Blocking;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) ask: Ask,
    /// Make the files of wasmtime's side in this directory on a tmpfs.
    #[arg(long, default_value = "/dev/shm", value_name = "DIR")]
    folder: PathBuf,
    /// How many guests live at once.
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = at_least_one)]
    guests: usize,
    /// Run real programs too, from this folder that `cargo xtask wasi-programs` made
    /// (target/wasi-programs).
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
    #[command(flatten)]
    picture: Picture,
}

impl Options {
    pub(crate) fn page(&self) -> Page {
        let mut page = Page::of("--features wasi -- wasi");
        let shown = "How many times what openpath takes each call took";
        page.about += &self.picture.shown(shown);
        page
    }
}

pub(crate) fn run(options: &Options) -> Result<Vec<Row>, Error> {
    // No pool thread may run while stores are counted.
    let guests = guests::rows(options)?;
    let mut rows = calls::rows(options)?;
    rows.extend(calls::programs(options)?);
    rows.extend(real::rows(options)?);
    rows.extend(guests);
    options.picture.draw(|| chart(&rows).svg())?;
    Ok(rows)
}

/// The bars that a picture shows of each call.
const SHOWN: [(Blocking, &str); 2] = [(Blocking::Pool, "#b5485f"), (Blocking::InPlace, "#d9822b")];

/// The ratio of each call's time elsewhere to ours.
fn chart(rows: &[Row]) -> Chart<2> {
    let mut chart = Chart {
        title: "Calls of a guest under wasmtime-wasi: times what openpath takes",
        legend: SHOWN.map(|(way, colour)| (way.label(), colour)),
        groups: Vec::new(),
    };
    let names = rows.iter().filter_map(|row| row.name.split_once(", "));
    let mut names: Vec<&str> = names.map(|(name, _)| name).collect();
    names.dedup();
    for name in names {
        let row = |way: Blocking| Row::named(rows, &format!("{name}, {}", way.label()));
        let values = SHOWN.map(|(way, _)| row(way)?.ratio);
        if values.iter().any(Option::is_some) {
            let name = name.trim_start_matches("wasi ");
            chart.groups.push((name.to_owned(), values));
        }
    }
    chart
}

fn scratch(folder: &Path) -> Result<Scratch, Error> {
    Scratch::new(folder).host("scratch directory")
}

/// Converts an error of the engine.
fn engine(what: &str) -> impl Fn(wasmtime::Error) -> Error + '_ {
    move |why| Error::Setup(format!("{what}: {why:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::{self, Bar};
    use crate::stats::Samples;

    pub(super) fn options(filter: Option<&str>, guests: usize) -> Options {
        let mut ask = Ask::rounds(1);
        ask.seconds = 0;
        ask.common.filter = filter.map(str::to_owned);
        Options {
            ask,
            folder: std::env::temp_dir(),
            guests,
            programs: None,
            picture: Picture::default(),
        }
    }

    #[test]
    fn every_contract_row_is_measured() {
        let rows = run(&options(None, 20)).unwrap();
        for name in bars::WASI.iter().flat_map(Bar::names) {
            let row = Row::named(&rows, &name).unwrap_or_else(|| panic!("{name}"));
            // Few rounds cannot judge a time; counts only need to be measured.
            let counted = row.unit == "B" || row.name.ends_with("common stores");
            assert!(!counted || row.ours.is_some(), "{name}");
        }
        assert!(chart(&rows).svg().starts_with("<svg "));
    }

    #[test]
    fn filter_measures_only_named_rows() {
        let rows = |filter: &str, guests| {
            let rows = run(&options(Some(filter), guests)).unwrap();
            rows.into_iter().map(|row| row.name).collect::<Vec<_>>()
        };
        // This many guests would take a day to make.
        let stores = rows("each, common stores", usize::MAX / 1024);
        assert_eq!(stores.len(), 2, "{stores:?}");
        let instances = rows("directory each, bytes of an instance", 5);
        let named = |name: &String| name.ends_with("bytes of an instance");
        assert!(
            instances.iter().any(named) && instances.len() == 3,
            "{instances:?}"
        );
    }

    #[test]
    fn each_measured_way_has_a_bar() {
        let of = |ns: f64| Samples::new(vec![ns; 9], 0);
        let rows = [
            Row::faster("wasi stat d1, default", &of(10.0), "default", &of(300.0)),
            Row::faster("wasi stat d1, blocking", &of(10.0), "blocking", &of(80.0)),
            Row::missing("wasi stat d5, default", "nothing measures it"),
            Row::count("wasi guests bytes", "B", 2.0),
        ];
        let bars = [Some(30.0), Some(8.0)];
        assert_eq!(chart(&rows).groups, [("stat d1".to_owned(), bars)]);
    }
}
