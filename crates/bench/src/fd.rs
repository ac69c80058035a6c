// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `fd`: the cost of the lowest free descriptor, by the number of open ones: by the
//! bitmaps of a table alone, ours and Linux's (`linux`), and by whole calls (`calls`).
//! `pages/fd.md` explains the rows.

mod calls;
mod linux;
mod pattern;

use std::fmt::Write as _;

use openpath_vfs::FdMap;

use crate::common::*;
use crate::row::Verdict;
use linux::TwoLevels;
use pattern::{Pattern, Span, Table, add};

/// A number of open descriptors, and its name.
type Open = (u32, &'static str);
const OPEN: [Open; 4] = [
    (10, "10"),
    (1000, "1k"),
    (100_000, "100k"),
    (1_000_000, "1M"),
];
/// The hard limit of tables (`fs.nr_open`), as the host's default.
const NR_OPEN: u32 = 1 << 20;
/// The row of the contract: random churn with a million open over ten open.
const GROWTH: &str = "fd-churn 1M over 10";

/// Adds the side of a layout to a plan, for a pattern, its numbers and its repeats.
type Layout = fn(&mut Plan<'_>, String, (Pattern, Span, u64)) -> Id;
/// All layouts of the bitmaps, with their names in tables; ours is the first.
const LAYOUTS: [(&str, Layout); 7] = [
    ("ours", ours::<true, true>),
    ("ours -peek", ours::<false, true>),
    ("ours -conditional", ours::<true, false>),
    ("linux", linux::<0>),
    ("linux +1", linux::<1>),
    ("linux +1+2", linux::<2>),
    ("linux +1+2+3", linux::<3>),
];

fn ours<const PEEK: bool, const CONDITIONAL: bool>(
    plan: &mut Plan<'_>,
    label: String,
    of: (Pattern, Span, u64),
) -> Id {
    add(plan, label, of, move || {
        full(FdMap::new(NR_OPEN, PEEK, CONDITIONAL), of)
    })
}

fn linux<const PATCHES: u32>(plan: &mut Plan<'_>, label: String, of: (Pattern, Span, u64)) -> Id {
    add(plan, label, of, move || {
        full(TwoLevels::<PATCHES>::new(NR_OPEN), of)
    })
}

fn full<T: Table>(mut table: T, (_, at, _): (Pattern, Span, u64)) -> Result<T, Error> {
    let wrong = (0..at.count).filter(|&fd| table.alloc(0) != fd).count();
    all_right(wrong as u64, "a full table").map(|()| table)
}

impl Table for FdMap {
    #[inline]
    fn alloc(&mut self, start: u32) -> u32 {
        FdMap::alloc(self, start, u32::MAX, false).unwrap_or(u32::MAX)
    }

    #[inline]
    fn free(&mut self, fd: u32) -> bool {
        FdMap::free(self, fd)
    }
}

impl<const PATCHES: u32> Table for TwoLevels<PATCHES> {
    #[inline]
    fn alloc(&mut self, start: u32) -> u32 {
        TwoLevels::alloc(self, start, u32::MAX, false).unwrap_or(u32::MAX)
    }

    #[inline]
    fn free(&mut self, fd: u32) -> bool {
        TwoLevels::free(self, fd)
    }
}

pub(crate) fn run(ask: &Ask) -> Result<Vec<Row>, Error> {
    let mut rows = bitmaps(ask)?;
    rows.extend(calls::rows(ask)?);
    Ok(rows)
}

/// The name of the row that compares ours with the layout of this label.
fn row_name(pattern: &str, (_, open): Open, label: &str) -> String {
    match label {
        "linux" => format!("fd {pattern} {open}"),
        _ => format!("fd {pattern} {open}, {label}"),
    }
}

/// The rows of each pattern, in one plan, so that sizes can be compared.
fn bitmaps(ask: &Ask) -> Result<Vec<Row>, Error> {
    let mut out = Vec::new();
    for (pattern, word) in Pattern::ALL {
        let (mut plan, mut by_size) = (Plan::default(), Vec::new());
        for open @ (count, size) in OPEN {
            // A fault that slowed every size would not show in a growth.
            let mine = if open == OPEN[3] { ask.repeats() } else { 1 };
            let sides = LAYOUTS.map(|(label, layout)| {
                let repeats = if label == "ours" { mine } else { 1 };
                let label = format!("{label} fd {word} {size}");
                layout(
                    &mut plan,
                    label,
                    (pattern, Span { base: 0, count }, repeats),
                )
            });
            for ((label, _), peer) in LAYOUTS.into_iter().zip(sides).skip(1) {
                let name = row_name(word, open, label);
                plan.row(Row::faster, &name, sides[0], label, peer);
            }
            by_size.push(sides[0]);
        }
        if pattern == Pattern::Random {
            plan.row(Row::growth, GROWTH, by_size[3], "ours 10", by_size[0]);
        }
        out.extend(plan.run(ask)?);
    }
    Ok(out)
}

/// The bitmaps as a matrix, the others as a table, without those that the contract does not name
/// and this machine cannot measure.
pub(crate) fn page() -> Page {
    let mut page = Page::of("fd");
    page.more = |rows| format!("\n\n{}", matrix(rows).trim_end());
    page.shows = |row| {
        let other = row.name == GROWTH || !row.name.starts_with("fd ");
        other && (row.ours.is_some() || row.verdict != Verdict::Info)
    };
    page
}

/// Layouts across, patterns and sizes down; a line without a measurement is left out.
fn matrix(rows: &[Row]) -> String {
    let labels = LAYOUTS.map(|(label, _)| label);
    let mut text = format!("| pattern | open | {} |\n|---|---|", labels.join(" | "));
    text.push_str(&"---|".repeat(LAYOUTS.len()));
    text.push('\n');
    for (_, word) in Pattern::ALL {
        for open in OPEN {
            let cells = labels.map(|label| match label {
                "ours" => Row::named(rows, &row_name(word, open, "linux"))?.ours,
                _ => Row::named(rows, &row_name(word, open, label))?.theirs(),
            });
            if cells.iter().any(Option::is_some) {
                let _ = write!(text, "| {word} | {} |", open.1);
                for value in cells {
                    let value = value.map_or(String::new(), |ns| format!("{ns:.1}"));
                    let _ = write!(text, " {value} |");
                }
                text.push('\n');
            }
        }
    }
    text
}
