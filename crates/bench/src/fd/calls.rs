// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures whole calls: dup(2) and close(2) of a task against the host kernel's, in one process,
//! with equally many descriptors of one file in both tables.
//!
//! # Rules
//! R1. The host's table is this process's own. It grows from size to size, and patterns stay above
//!     the descriptors that the process had before; dropping `HostTable` closes the rest.
//! R2. Ours has a task for each size, so ours with ten open is measured beside ours with a million.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;

use openpath_abi::fcntl::{F_DUPFD, O_CREAT, O_RDWR};
use openpath_vfs::{Task, Vfs};

use super::pattern::{Pattern, Random, Span, Table};
use super::{OPEN, Open, open};
use crate::cmd::Ask;
use crate::error::Error;
use crate::harness::{Heat, Id, Plan};
use crate::row::{Row, Verdict};
use crate::{SEED, ours, sys};

/// The sizes: those of the bitmaps, and one within a host's usual hard limit.
const SIZES: [Open; 5] = [OPEN[0], OPEN[1], open(16_000, "16k"), OPEN[2], OPEN[3]];
/// The numbers that a task with the fewest descriptors may use.
const FEW: Span = Span {
    base: 1,
    count: OPEN[0].count,
};
/// Room above the largest size.
const LIMIT: u64 = 1 << 20;
/// Descriptors that a pattern needs to itself.
const ROOM_MIN: usize = 3;
/// A task with descriptors of one file, the first of which stays.
struct Ours<'a>(&'a Task);

impl Table for Ours<'_> {
    #[inline]
    fn alloc(&mut self, start: u32) -> u32 {
        let got = match start {
            0 => self.0.dup(0),
            _ => {
                let got = self.0.fcntl(0, F_DUPFD, u64::from(start));
                got.map(|fd| fd as i32)
            }
        };
        got.map_or(u32::MAX, i32::cast_unsigned)
    }

    #[inline]
    fn free(&mut self, fd: u32) -> bool {
        self.0.close(fd.cast_signed()).is_ok()
    }
}

/// The host's table, with descriptors of one file.
struct HostTable {
    file: File,
    /// The numbers that it was filled with: ranges without one that was open before.
    filled: Vec<Range<u32>>,
    /// The host's limit.
    room: u64,
}

impl Table for &HostTable {
    #[inline]
    fn alloc(&mut self, start: u32) -> u32 {
        let fd = self.file.as_raw_fd();
        let got = match start {
            0 => sys::dup(fd),
            _ => sys::dup_from(fd, start),
        };
        got.cast_unsigned()
    }

    #[inline]
    fn free(&mut self, fd: u32) -> bool {
        sys::close(fd.cast_signed()) == 0
    }
}

impl HostTable {
    fn new() -> Result<Self, Error> {
        let file = File::open("/dev/null").map_err(|e| Error::host("open /dev/null", e))?;
        Ok(Self {
            file,
            filled: Vec::new(),
            room: sys::allow_descriptors(LIMIT),
        })
    }

    /// Opens until every number below `count` is open, and some more if this process had some open
    /// before; returns the numbers that patterns may use.
    fn fill(&mut self, count: u32) -> Result<Span, Error> {
        loop {
            let fd = sys::dup(self.file.as_raw_fd());
            let Ok(new) = u32::try_from(fd) else {
                return Err(Error::Setup(format!("{count} descriptors: errno {}", -fd)));
            };
            match self.filled.last_mut() {
                Some(last) if last.end == new && last.len() > ROOM_MIN && new >= count => {
                    sys::close(fd);
                    return Ok(Span {
                        base: last.start,
                        count: new,
                    });
                }
                Some(last) if last.end == new => last.end += 1,
                _ => self.filled.push(new..new + 1),
            }
        }
    }
}

impl Drop for HostTable {
    fn drop(&mut self) {
        for span in &self.filled {
            sys::close_range(span.start, span.end - 1);
        }
    }
}

/// A task whose table is filled up to `count`.
fn filled(vfs: &Vfs, count: u32) -> Result<Task, Error> {
    let task = ours::task(vfs)?;
    task.set_rlimit_nofile(LIMIT);
    let fd = task.open(b"/file", O_RDWR | O_CREAT, 0o644);
    let fd = fd.map_err(|e| Error::setup("create a file", e))?;
    let wrong = (1..count).filter(|&n| task.dup(fd) != Ok(n.cast_signed()));
    match (fd, wrong.count()) {
        (0, 0) => Ok(task),
        _ => Err(Error::Wrong(format!("{count} descriptors of one file"))),
    }
}

fn row_name(pattern: Pattern, open: Open) -> String {
    format!("dup-close {} {}", pattern.name(), open.name)
}

fn growth_name(pattern: Pattern, open: Open) -> String {
    format!("dup-close {} {} over 10", pattern.name(), open.name)
}

pub(super) fn rows(ask: &Ask) -> Result<Vec<Row>, Error> {
    let wanted = |pattern, open| {
        let names = [row_name(pattern, open), growth_name(pattern, open)];
        ask.wants_any(&names)
    };
    let any = |open| {
        Pattern::ALL
            .into_iter()
            .any(|pattern| wanted(pattern, open))
    };
    if !SIZES.into_iter().any(any) {
        return Ok(Vec::new());
    }
    let vfs = ours::instance()?;
    let few = filled(&vfs, SIZES[0].count)?;
    let mut host = HostTable::new()?;
    let mut out = Vec::new();
    for open in SIZES.into_iter().filter(|&open| any(open)) {
        let host_at = match host.room > u64::from(open.count) {
            true => Some(host.fill(open.count)?),
            false => None,
        };
        let task = filled(&vfs, host_at.map_or(open.count, |at| at.count))?;
        for pattern in Pattern::ALL {
            if wanted(pattern, open) {
                let run = Run {
                    pattern,
                    open,
                    task: &task,
                    few: &few,
                    host: &host,
                    host_at,
                };
                out.extend(run.rows(ask)?);
            }
        }
    }
    Ok(out)
}

/// One pattern at one size.
struct Run<'a> {
    pattern: Pattern,
    open: Open,
    task: &'a Task,
    few: &'a Task,
    host: &'a HostTable,
    /// None if the host's limit is lower.
    host_at: Option<Span>,
}

impl<'a> Run<'a> {
    fn rows(&self, ask: &Ask) -> Result<Vec<Row>, Error> {
        let count = self.open.count;
        let at = self.host_at.unwrap_or(Span { base: 1, count });
        let repeats = ask.repeats();
        let mut plan = Plan::default();
        let (task, few, host) = (self.task, self.few, self.host);
        let wrong = self.change(true, at);
        let ours = self.add(&mut plan, "ours", at, repeats, || Ours(task));
        let name = row_name(self.pattern, self.open);
        let mut rows = Vec::new();
        match self.host_at {
            Some(at) => {
                let host = self.add(&mut plan, "host", at, 1, || host);
                plan.row(Row::faster, &name, ours, "host", host);
            }
            None => rows.push(Row {
                verdict: Verdict::Info,
                ..Row::missing(&name, "the host allows fewer descriptors")
            }),
        }
        if self.open != SIZES[0] {
            let few = self.add(&mut plan, "ours 10", FEW, repeats, || Ours(few));
            let name = growth_name(self.pattern, self.open);
            plan.row(Row::growth, &name, ours, "ours 10", few);
        }
        rows.extend(plan.run(ask)?);
        let wrong = wrong + self.change(false, at);
        match wrong {
            0 => Ok(rows),
            _ => Err(Error::Wrong(format!("{name}: {wrong} numbers"))),
        }
    }

    /// Brings every table into the pattern's state, or back; returns the number of wrong results.
    fn change(&self, into: bool, at: Span) -> u64 {
        let mut wrong = 0;
        let mut change = |table: &mut dyn Table, at| {
            wrong += match into {
                true => self.pattern.prepare(table, at),
                false => self.pattern.restore(table, at),
            };
        };
        change(&mut Ours(self.task), at);
        if self.open != SIZES[0] {
            change(&mut Ours(self.few), FEW);
        }
        if let Some(at) = self.host_at {
            let mut host = self.host;
            change(&mut host, at);
        }
        wrong
    }

    fn add<T: Table + 'a>(
        &self,
        plan: &mut Plan<'a>,
        side: &str,
        at: Span,
        repeats: u64,
        table: impl Fn() -> T,
    ) -> Id {
        let pattern = self.pattern;
        let label = format!("{side} {}", row_name(pattern, self.open));
        let (mut warm, mut table) = (table(), table());
        let (mut other, mut random) = (Random::new(SEED + 1), Random::new(SEED));
        let name = label.clone();
        let enter = move || match pattern.burst(&mut warm, at, &mut other, pattern.warm_up(at)) {
            0 => Ok(()),
            wrong => Err(Error::Wrong(format!(
                "{name}: {wrong} numbers while warming up"
            ))),
        };
        let burst = move |ops| {
            (0..repeats)
                .map(|_| pattern.burst(&mut table, at, &mut random, ops))
                .sum()
        };
        plan.add(&label, Heat::Warm, enter, burst)
    }
}
