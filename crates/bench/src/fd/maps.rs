// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bitmaps alone, without lock, slots and files: allocation and release in nanoseconds.

use std::cell::RefCell;
use std::rc::Rc;

use openpath_vfs::FdMap;

use super::linux::TwoLevels;
use super::pattern::{Pattern, Random, Span, Table};
use super::{OPEN, Open, Options};
use crate::SEED;
use crate::error::Error;
use crate::harness::{Heat, Id, Measured, Steal, Suite};
use crate::row::Row;

/// The hard limit of tables (`fs.nr_open`), as the host's default.
const NR_OPEN: u32 = 1 << 20;

/// The row of the contract: random churn with a million open over ten open.
pub(super) const GROWTH: &str = "fd-churn 1M over 10";

/// A way to keep the bitmaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Ours,
    OursNoPeek,
    OursAlwaysSummary,
    Linux,
    LinuxChecks,
    LinuxSummary,
    LinuxPeek,
}

impl Way {
    pub(super) const ALL: [Self; 7] = [
        Self::Ours,
        Self::OursNoPeek,
        Self::OursAlwaysSummary,
        Self::Linux,
        Self::LinuxChecks,
        Self::LinuxSummary,
        Self::LinuxPeek,
    ];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::OursNoPeek => "ours -peek",
            Self::OursAlwaysSummary => "ours -conditional",
            Self::Linux => "linux",
            Self::LinuxChecks => "linux +1",
            Self::LinuxSummary => "linux +1+2",
            Self::LinuxPeek => "linux +1+2+3",
        }
    }
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

/// The name of the row that sets ours against `way`.
pub(super) fn row_name(pattern: Pattern, open: Open, way: Way) -> String {
    let name = format!("fd {} {}", pattern.name(), open.name);
    match way {
        Way::Linux => name,
        _ => format!("{name}, {}", way.label()),
    }
}

pub(super) fn rows(options: &Options, steal: &Steal) -> Result<Vec<Row>, Error> {
    let mut out = Vec::new();
    for pattern in Pattern::ALL {
        out.extend(rows_of(pattern, options, steal)?);
    }
    Ok(out)
}

/// The rows of a pattern: one suite, so that sizes can be set against each other.
fn rows_of(pattern: Pattern, options: &Options, steal: &Steal) -> Result<Vec<Row>, Error> {
    let growth = pattern == Pattern::Random && options.wants(GROWTH);
    let wanted = |open: Open, way: Way| options.wants(&row_name(pattern, open, way));
    let rivals = || Way::ALL.into_iter().filter(|&way| way != Way::Ours);
    let mut suite = Suite::default();
    let mut ids: Vec<(Open, Way, Id)> = Vec::new();
    for open in OPEN {
        let ends = growth && (open == OPEN[0] || open == OPEN[OPEN.len() - 1]);
        for way in Way::ALL {
            let needed = match way {
                Way::Ours => ends || rivals().any(|way| wanted(open, way)),
                _ => wanted(open, way),
            };
            if needed {
                ids.push((open, way, add(&mut suite, pattern, open, way, options)?));
            }
        }
    }
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let measured = suite.run(options.ask.effort, steal)?;
    let id = |open: Open, way: Way| {
        let found = ids.iter().find(|known| (known.0, known.1) == (open, way));
        found.map(|known| known.2)
    };
    let mut out = Vec::new();
    for (open, way, rival) in ids.iter().filter(|known| known.1 != Way::Ours) {
        if let Some(ours) = id(*open, Way::Ours) {
            let name = row_name(pattern, *open, *way);
            let (ours, rival) = (&measured[ours], &measured[*rival]);
            out.push(Row::faster(&name, ours, way.label(), rival));
        }
    }
    if growth {
        out.extend(growth_row(&measured, id));
    }
    Ok(out)
}

fn growth_row(measured: &Measured, id: impl Fn(Open, Way) -> Option<Id>) -> Option<Row> {
    let many = id(OPEN[OPEN.len() - 1], Way::Ours)?;
    let few = id(OPEN[0], Way::Ours)?;
    Some(Row::growth(
        GROWTH,
        &measured[many],
        "ours 10",
        &measured[few],
    ))
}

fn add<'a>(
    suite: &mut Suite<'a>,
    pattern: Pattern,
    open: Open,
    way: Way,
    options: &Options,
) -> Result<Id, Error> {
    let label = format!("{} fd {} {}", way.label(), pattern.name(), open.name);
    let ours = |peek, conditional| FdMap::new(NR_OPEN, peek, conditional);
    // A fault that slowed every size would not show in what grows.
    let most = open == OPEN[OPEN.len() - 1];
    let turns = if most { options.turns() } else { 1 };
    match way {
        Way::Ours => add_table(suite, &label, pattern, open, ours(true, true), turns),
        Way::OursNoPeek => add_table(suite, &label, pattern, open, ours(false, true), turns),
        Way::OursAlwaysSummary => add_table(suite, &label, pattern, open, ours(true, false), turns),
        Way::Linux => add_linux::<0>(suite, &label, pattern, open),
        Way::LinuxChecks => add_linux::<1>(suite, &label, pattern, open),
        Way::LinuxSummary => add_linux::<2>(suite, &label, pattern, open),
        Way::LinuxPeek => add_linux::<3>(suite, &label, pattern, open),
    }
}

fn add_linux<const PATCHES: u32>(
    suite: &mut Suite<'_>,
    label: &str,
    pattern: Pattern,
    open: Open,
) -> Result<Id, Error> {
    let table = TwoLevels::<PATCHES>::new(NR_OPEN);
    add_table(suite, label, pattern, open, table, 1)
}

/// Fills `table` and adds its bursts, each of which runs `turns` times.
fn add_table<'a>(
    suite: &mut Suite<'a>,
    label: &str,
    pattern: Pattern,
    open: Open,
    mut table: impl Table + 'a,
    turns: u64,
) -> Result<Id, Error> {
    let at = Span {
        base: 0,
        count: open.count,
    };
    let wrong = (0..open.count).filter(|&fd| table.alloc(0) != fd).count() as u64
        + pattern.prepare(&mut table, at);
    if wrong > 0 {
        return Err(Error::Wrong(format!(
            "{label}: {wrong} numbers of the table"
        )));
    }
    let table = Rc::new(RefCell::new((table, Random::new(SEED))));
    let warm = Rc::clone(&table);
    let name = label.to_owned();
    let enter = move || {
        let (table, random) = &mut *warm.borrow_mut();
        match pattern.burst(table, at, random, pattern.warm_up(at)) {
            0 => Ok(()),
            wrong => Err(Error::Wrong(format!(
                "{name}: {wrong} numbers while warming up"
            ))),
        }
    };
    let burst = move |ops| {
        let (table, random) = &mut *table.borrow_mut();
        (0..turns)
            .map(|_| pattern.burst(table, at, random, ops))
            .sum()
    };
    Ok(suite.add(label, Heat::Warm, enter, burst))
}
