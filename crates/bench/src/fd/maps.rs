// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the bitmaps alone, without lock, slots and files: allocation and release in
//! nanoseconds.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

use openpath_vfs::FdMap;

use super::linux::TwoLevels;
use super::pattern::{Pattern, Random, Span, Table};
use super::{OPEN, Open};
use crate::SEED;
use crate::cmd::Ask;
use crate::error::Error;
use crate::harness::{Heat, Id, Plan};
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
    for pattern in Pattern::ALL {
        let mut plan = Plan::default();
        let mut by_size = Vec::new();
        for open in OPEN {
            // A fault that slowed every size would not show in a growth.
            let most = open == OPEN[OPEN.len() - 1];
            let repeats = if most { ask.repeats() } else { 1 };
            let sides = LAYOUTS.map(|(layout, label)| {
                let repeats = if layout == OURS { repeats } else { 1 };
                add(&mut plan, (pattern, open), (layout, label), repeats)
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

fn add(
    plan: &mut Plan<'_>,
    (pattern, open): (Pattern, Open),
    (layout, label): (Layout, &str),
    repeats: u64,
) -> Id {
    let label = format!("{label} fd {} {}", pattern.name(), open.name);
    let of = (pattern, open, repeats);
    match layout {
        Layout::Ours(peek, conditional) => add_table(plan, label, of, move || {
            FdMap::new(NR_OPEN, peek, conditional)
        }),
        Layout::Linux(0) => add_table(plan, label, of, || TwoLevels::<0>::new(NR_OPEN)),
        Layout::Linux(1) => add_table(plan, label, of, || TwoLevels::<1>::new(NR_OPEN)),
        Layout::Linux(2) => add_table(plan, label, of, || TwoLevels::<2>::new(NR_OPEN)),
        Layout::Linux(_) => add_table(plan, label, of, || TwoLevels::<3>::new(NR_OPEN)),
    }
}

/// Adds bursts on a full table, each of which runs `repeats` times.
fn add_table<T: Table + 'static>(
    plan: &mut Plan<'_>,
    label: String,
    (pattern, open, repeats): (Pattern, Open, u64),
    make: impl FnOnce() -> T + 'static,
) -> Id {
    let at = Span {
        base: 0,
        count: open.count,
    };
    let checked = move |wrong: u64, when: &str| match wrong {
        0 => Ok(()),
        _ => Err(Error::Wrong(format!("{wrong} numbers of the table{when}"))),
    };
    plan.set_up(&label, Heat::Warm, move || {
        let mut table = make();
        let filled = (0..at.count).filter(|&fd| table.alloc(0) != fd).count() as u64;
        checked(filled + pattern.prepare(&mut table, at), "")?;
        let table = Rc::new(RefCell::new((table, Random::new(SEED))));
        let warm = Rc::clone(&table);
        let enter = move || {
            let (table, random) = &mut *warm.borrow_mut();
            let wrong = pattern.burst(table, at, random, pattern.warm_up(at));
            checked(wrong, " while warming up")
        };
        let burst = move |ops| {
            let (table, random) = &mut *table.borrow_mut();
            let once = |_| pattern.burst(table, at, random, ops);
            (0..repeats).map(once).sum()
        };
        Ok((Box::new(enter), Box::new(burst)))
    })
}

/// Layouts across, patterns and sizes down; a line without a measurement is left out.
pub(super) fn matrix(rows: &[Row]) -> String {
    let labels = LAYOUTS.map(|(_, label)| label);
    let mut text = format!("| pattern | open | {} |\n|---|---|", labels.join(" | "));
    text.push_str(&"---|".repeat(LAYOUTS.len()));
    text.push('\n');
    for (pattern, open) in Pattern::ALL
        .iter()
        .flat_map(|p| OPEN.map(|open| (*p, open)))
    {
        let cell = |(layout, label): (Layout, &str)| {
            let of = |label| {
                let name = row_name(pattern, open, label);
                rows.iter().find(|row| row.name == name)
            };
            match layout {
                OURS => of("linux").and_then(|row| row.ours),
                _ => of(label).and_then(|row| Some(row.peer.as_ref()?.value)),
            }
        };
        let cells = LAYOUTS.map(cell);
        if cells.iter().any(Option::is_some) {
            let _ = write!(text, "| {} | {} |", pattern.name(), open.name);
            for value in cells {
                let value = value.map_or(String::new(), |ns| format!("{ns:.1}"));
                let _ = write!(text, " {value} |");
            }
            text.push('\n');
        }
    }
    text
}
