// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the bitmaps of a descriptor table alone, without lock, slots and files: allocation and
//! release in nanoseconds.

use std::fmt::Write as _;

use openpath_vfs::FdMap;

use super::linux::TwoLevels;
use super::pattern::{Pattern, Span, Table, add};
use super::{OPEN, Open};
use crate::cmd::Ask;
use crate::error::Error;
use crate::harness::{Id, Plan};
use crate::row::Row;

/// The hard limit of tables (`fs.nr_open`), as the host's default.
const NR_OPEN: u32 = 1 << 20;

/// The row of the contract: random churn with a million open over ten open.
pub(super) const GROWTH: &str = "fd-churn 1M over 10";

/// A layout of the bitmaps: ours with its two switches, or Linux's with a number of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Ours(bool, bool),
    Linux(u32),
}

const OURS: Layout = Layout::Ours(true, true);
/// All layouts, with their names in tables; ours is the first.
const LAYOUTS: [(Layout, &str); 7] = [
    (OURS, "ours"),
    (Layout::Ours(false, true), "ours -peek"),
    (Layout::Ours(true, false), "ours -conditional"),
    (Layout::Linux(0), "linux"),
    (Layout::Linux(1), "linux +1"),
    (Layout::Linux(2), "linux +1+2"),
    (Layout::Linux(3), "linux +1+2+3"),
];

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

/// The name of the row that compares ours with the layout of this label.
fn row_name(pattern: Pattern, open: Open, label: &str) -> String {
    let name = format!("fd {} {}", pattern.name(), open.name);
    match label {
        "linux" => name,
        _ => format!("{name}, {label}"),
    }
}

/// The rows of each pattern, in one plan, so that sizes can be compared.
pub(super) fn rows(ask: &Ask) -> Result<Vec<Row>, Error> {
    let mut out = Vec::new();
    for (pattern, _) in Pattern::ALL {
        let mut plan = Plan::default();
        let mut by_size = Vec::new();
        for open in OPEN {
            // A fault that slowed every size would not show in a growth.
            let most = open == OPEN[OPEN.len() - 1];
            let repeats = if most { ask.repeats() } else { 1 };
            let sides = LAYOUTS.map(|(layout, label)| {
                let repeats = if layout == OURS { repeats } else { 1 };
                add_layout(&mut plan, (pattern, open), (layout, label), repeats)
            });
            for ((_, label), peer) in LAYOUTS.into_iter().zip(sides).skip(1) {
                let name = row_name(pattern, open, label);
                plan.row(Row::faster, &name, sides[0], label, peer);
            }
            by_size.push(sides[0]);
        }
        if pattern == Pattern::Random {
            let many = by_size[by_size.len() - 1];
            plan.row(Row::growth, GROWTH, many, "ours 10", by_size[0]);
        }
        out.extend(plan.run(ask)?);
    }
    Ok(out)
}

fn add_layout(
    plan: &mut Plan<'_>,
    (pattern, open): (Pattern, Open),
    (layout, label): (Layout, &str),
    repeats: u64,
) -> Id {
    let (base, count) = (0, open.count);
    let at = Span { base, count };
    let label = format!("{label} fd {} {}", pattern.name(), open.name);
    let of = (pattern, at, repeats);
    match layout {
        Layout::Ours(peek, conditional) => add(plan, label, of, move || {
            full(FdMap::new(NR_OPEN, peek, conditional), pattern, at)
        }),
        Layout::Linux(0) => add(plan, label, of, move || {
            full(TwoLevels::<0>::new(NR_OPEN), pattern, at)
        }),
        Layout::Linux(1) => add(plan, label, of, move || {
            full(TwoLevels::<1>::new(NR_OPEN), pattern, at)
        }),
        Layout::Linux(2) => add(plan, label, of, move || {
            full(TwoLevels::<2>::new(NR_OPEN), pattern, at)
        }),
        Layout::Linux(_) => add(plan, label, of, move || {
            full(TwoLevels::<3>::new(NR_OPEN), pattern, at)
        }),
    }
}

/// Fills a table, and prepares it for the pattern.
fn full<T: Table>(mut table: T, pattern: Pattern, at: Span) -> Result<T, Error> {
    let filled = (0..at.count).filter(|&fd| table.alloc(0) != fd).count() as u64;
    match filled + pattern.prepare(&mut table, at) {
        0 => Ok(table),
        wrong => Err(Error::Wrong(format!("{wrong} numbers of the table"))),
    }
}

/// Layouts across, patterns and sizes down; a line without a measurement is left out.
pub(super) fn matrix(rows: &[Row]) -> String {
    let labels = LAYOUTS.map(|(_, label)| label);
    let mut text = format!("| pattern | open | {} |\n|---|---|", labels.join(" | "));
    text.push_str(&"---|".repeat(LAYOUTS.len()));
    text.push('\n');
    for ((pattern, name), open) in Pattern::ALL
        .iter()
        .flat_map(|p| OPEN.map(|open| (*p, open)))
    {
        let cells = LAYOUTS.map(|(layout, label)| match layout {
            OURS => Row::named(rows, &row_name(pattern, open, "linux"))?.ours,
            _ => Row::named(rows, &row_name(pattern, open, label))?.theirs(),
        });
        if cells.iter().any(Option::is_some) {
            let _ = write!(text, "| {name} | {} |", open.name);
            for value in cells {
                let value = value.map_or(String::new(), |ns| format!("{ns:.1}"));
                let _ = write!(text, " {value} |");
            }
            text.push('\n');
        }
    }
    text
}
