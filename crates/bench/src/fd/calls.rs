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

use openpath_abi::fcntl::{O_CREAT, O_RDWR};
use openpath_vfs::{Task, Vfs};

use super::pattern::{Pattern, Span, Table, add};
use super::{OPEN, Open, open};
use crate::calls::{Calls, Kernel};
use crate::cmd::Ask;
use crate::error::Error;
use crate::harness::Plan;
use crate::row::{Row, Verdict};
use crate::{ours, sys};

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

/// One side, and the open descriptor that is duplicated.
#[derive(Clone, Copy)]
struct Dups<'a, C>(&'a C, i32);

impl<C: Calls> Table for Dups<'_, C> {
    #[inline]
    fn alloc(&mut self, start: u32) -> u32 {
        let Self(side, fd) = *self;
        let got = match start {
            0 => side.dup(fd),
            _ => side.dup_from(fd, start),
        };
        got.map_or(u32::MAX, i32::cast_unsigned)
    }

    #[inline]
    fn free(&mut self, fd: u32) -> bool {
        self.0.close(fd.cast_signed())
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
            let fd = Kernel.dup(self.file.as_raw_fd());
            let fd = fd.map_err(|e| Error::setup(&format!("{count} descriptors"), e))?;
            let new = fd.cast_unsigned();
            match self.filled.last_mut() {
                Some(last) if last.end == new && last.len() > ROOM_MIN && new >= count => {
                    Kernel.close(fd);
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
            .iter()
            .any(|&(pattern, _)| wanted(pattern, open))
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
        for (pattern, _) in Pattern::ALL {
            if wanted(pattern, open) {
                let run = Run {
                    pattern,
                    open,
                    task: &task,
                    few: &few,
                    host: host.file.as_raw_fd(),
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
    host: i32,
    /// None if the host's limit is lower.
    host_at: Option<Span>,
}

impl Run<'_> {
    fn rows(&self, ask: &Ask) -> Result<Vec<Row>, Error> {
        let (pattern, count, repeats) = (self.pattern, self.open.count, ask.repeats());
        let at = self.host_at.unwrap_or(Span { base: 1, count });
        let (ours, few, host) = (
            Dups(self.task, 0),
            Dups(self.few, 0),
            Dups(&Kernel, self.host),
        );
        let name = row_name(pattern, self.open);
        let label = |side: &str| format!("{side} {name}");
        let (mut plan, mut rows) = (Plan::default(), Vec::new());
        let mut wrong = self.change(true, at);
        let mine = add(
            &mut plan,
            label("ours"),
            (pattern, at, repeats),
            move || Ok(ours),
        );
        match self.host_at {
            Some(at) => {
                let host = add(&mut plan, label("host"), (pattern, at, 1), move || Ok(host));
                plan.row(Row::faster, &name, mine, "host", host);
            }
            None => rows.push(Row {
                verdict: Verdict::Info,
                ..Row::missing(&name, "the host allows fewer descriptors")
            }),
        }
        if self.open != SIZES[0] {
            let of = (pattern, FEW, repeats);
            let few = add(&mut plan, label("ours 10"), of, move || Ok(few));
            let name = growth_name(pattern, self.open);
            plan.row(Row::growth, &name, mine, "ours 10", few);
        }
        rows.extend(plan.run(ask)?);
        wrong += self.change(false, at);
        match wrong {
            0 => Ok(rows),
            _ => Err(Error::Wrong(format!("{name}: {wrong} numbers"))),
        }
    }

    /// Brings every table into the pattern's state, or back; returns the number of wrong results.
    fn change(&self, into: bool, at: Span) -> u64 {
        let change = |table: &mut dyn Table, at| match into {
            true => self.pattern.prepare(table, at),
            false => self.pattern.restore(table, at),
        };
        let mut wrong = change(&mut Dups(self.task, 0), at);
        if self.open != SIZES[0] {
            wrong += change(&mut Dups(self.few, 0), FEW);
        }
        if let Some(at) = self.host_at {
            wrong += change(&mut Dups(&Kernel, self.host), at);
        }
        wrong
    }
}
