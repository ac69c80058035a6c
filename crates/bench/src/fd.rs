// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `fd`: the cost of the lowest free descriptor, by the number of open ones.
//!
//! `maps` measures the bitmaps alone: ours, and Linux's two levels. Of the three patches that
//! `linux` describes, these have none, the first, the first two, or all. `calls` measures whole
//! calls: dup and close of a task against the host kernel's, with equally many descriptors open.
//! This file collects the rows of both modules.

mod calls;
mod linux;
mod maps;
mod pattern;

use crate::cmd::Ask;
use crate::error::Error;
use crate::page::Page;
use crate::row::{Row, Verdict};

/// A number of open descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    count: u32,
    name: &'static str,
}

const fn open(count: u32, name: &'static str) -> Open {
    Open { count, name }
}

const OPEN: [Open; 4] = [
    open(10, "10"),
    open(1000, "1k"),
    open(100_000, "100k"),
    open(1_000_000, "1M"),
];

/// The bitmaps as a matrix, the others as a table, without those that the contract does not name
/// and this machine cannot measure.
pub(crate) fn page() -> Page {
    let mut page = Page::of("fd");
    page.more = |rows| format!("\n\n{}", maps::matrix(rows).trim_end());
    page.shows = |row| {
        let other = row.name == maps::GROWTH || !row.name.starts_with("fd ");
        other && (row.ours.is_some() || row.verdict != Verdict::Info)
    };
    page
}

/// Runs every wanted row.
pub(crate) fn run(ask: &Ask) -> Result<Vec<Row>, Error> {
    let mut rows = maps::rows(ask)?;
    rows.extend(calls::rows(ask)?);
    Ok(rows)
}
