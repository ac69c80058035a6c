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
use super::{NR_OPEN, OPEN, Open};
use crate::common::*;
use crate::row::Verdict;

/// The sizes: those of the bitmaps, and one within a host's usual hard limit.
const SIZES: [Open; 5] = [OPEN[0], OPEN[1], (16_000, "16k"), OPEN[2], OPEN[3]];
/// The numbers that a task with the fewest descriptors may use.
const FEW: Span = Span {
    base: 1,
    count: OPEN[0].0,
};
/// Descriptors that a pattern needs to itself.
const ROOM_MIN: usize = 3;

/// One side, and the open descriptor that is duplicated.
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
}

impl HostTable {
    /// Opens until every number below `count` is open, and some more if this process had some open
    /// before; returns the numbers that patterns may use.
    fn fill(&mut self, count: u32) -> Result<Span, Error> {
        loop {
            let fd = Kernel.dup(self.file.as_raw_fd());
            let fd = fd.setup(&format!("{count} descriptors"))?;
            let new = fd.cast_unsigned();
            match self.filled.last_mut() {
                Some(last) if last.end == new && last.len() > ROOM_MIN && new >= count => {
                    Kernel.close(fd);
                    let (base, count) = (last.start, new);
                    return Ok(Span { base, count });
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
    task.set_rlimit_nofile(NR_OPEN.into());
    let fd = task.open(b"/file", O_RDWR | O_CREAT, 0o644);
    let fd = fd.setup("create a file")?;
    let wrong = (1..count).filter(|&n| task.dup(fd) != Ok(n.cast_signed()));
    let wrong = wrong.count() as u64 + u64::from(fd != 0);
    all_right(wrong, &format!("{count} descriptors of one file"))?;
    Ok(task)
}

/// The row that compares with the host, and the one that compares with ten open.
fn names(word: &str, (_, open): Open) -> [String; 2] {
    ["", " over 10"].map(|end| format!("dup-close {word} {open}{end}"))
}

pub(super) fn rows(ask: &Ask) -> Result<Vec<Row>, Error> {
    let wanted = |open| {
        let wanted = move |(_, word): &(Pattern, &str)| ask.wants_any(&names(word, open));
        Pattern::ALL.into_iter().filter(wanted)
    };
    if SIZES.into_iter().all(|open| wanted(open).next().is_none()) {
        return Ok(Vec::new());
    }
    let vfs = ours::instance()?;
    let few = filled(&vfs, FEW.count)?;
    let mut host = HostTable {
        file: File::open("/dev/null").host("open /dev/null")?,
        filled: Vec::new(),
    };
    let room = sys::allow_descriptors(NR_OPEN.into());
    let mut out = Vec::new();
    for open in SIZES {
        if wanted(open).next().is_none() {
            continue;
        }
        let there = room > u64::from(open.0);
        let host_at = there.then(|| host.fill(open.0)).transpose()?;
        let task = filled(&vfs, host_at.map_or(open.0, |at| at.count))?;
        for (pattern, word) in wanted(open) {
            let run = Run {
                pattern,
                open,
                names: names(word, open),
                task: &task,
                few: &few,
                host: host.file.as_raw_fd(),
                host_at,
            };
            out.extend(run.rows(ask)?);
        }
    }
    Ok(out)
}

/// One pattern at one size.
struct Run<'a> {
    pattern: Pattern,
    open: Open,
    names: [String; 2],
    task: &'a Task,
    few: &'a Task,
    host: i32,
    /// None if the host's limit is lower.
    host_at: Option<Span>,
}

impl Run<'_> {
    fn rows(&self, ask: &Ask) -> Result<Vec<Row>, Error> {
        let (pattern, (ours, few, host)) = (self.pattern, self.tables());
        let (base, count, repeats) = (1, self.open.0, ask.repeats());
        let at = self.host_at.unwrap_or(Span { base, count });
        let [name, growth] = &self.names;
        let label = |side: &str| format!("{side} {name}");
        let (mut plan, mut rows) = (Plan::default(), Vec::new());
        let mut wrong = self.change(true, at);
        let of = (pattern, at, repeats);
        let mine = add(&mut plan, label("ours"), of, move || Ok(ours));
        if let Some(at) = self.host_at {
            let host = add(&mut plan, label("host"), (pattern, at, 1), move || Ok(host));
            plan.row(Row::faster, name, mine, "host", host);
        } else {
            rows.push(Row {
                verdict: Verdict::Info,
                ..Row::missing(name, "the host allows fewer descriptors")
            });
        }
        if self.open != SIZES[0] {
            let of = (pattern, FEW, repeats);
            let few = add(&mut plan, label("ours 10"), of, move || Ok(few));
            plan.row(Row::growth, growth, mine, "ours 10", few);
        }
        rows.extend(plan.run(ask)?);
        wrong += self.change(false, at);
        all_right(wrong, name)?;
        Ok(rows)
    }

    fn tables(&self) -> (Dups<'_, Task>, Dups<'_, Task>, Dups<'_, Kernel>) {
        let host = Dups(&Kernel, self.host);
        (Dups(self.task, 0), Dups(self.few, 0), host)
    }

    /// Brings every table into the pattern's state, or back; returns the number of wrong results.
    fn change(&self, into: bool, at: Span) -> u64 {
        let (pattern, (mut ours, mut few, mut host)) = (self.pattern, self.tables());
        let mut wrong = pattern.change(&mut ours, at, into);
        if self.open != SIZES[0] {
            wrong += pattern.change(&mut few, FEW, into);
        }
        if let Some(at) = self.host_at {
            wrong += pattern.change(&mut host, at, into);
        }
        wrong
    }
}
