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
    let sizes = SIZES
        .into_iter()
        .filter(|open| wanted(*open).next().is_some());
    let sizes: Vec<Open> = sizes.collect();
    if sizes.is_empty() {
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
    for open in sizes {
        let there = room > u64::from(open.0);
        let host_at = there.then(|| host.fill(open.0)).transpose()?;
        let task = filled(&vfs, host_at.map_or(open.0, |at| at.count))?;
        let host = host_at.map(|at| (Dups(&Kernel, host.file.as_raw_fd()), at));
        for (pattern, word) in wanted(open) {
            let [name, growth] = names(word, open);
            let label = |side: &str| format!("{side} {name}");
            let mut plan = Plan::default();
            let (base, count, repeats) = (1, open.0, ask.repeats());
            let at = host_at.unwrap_or(Span { base, count });
            let ours = |task| move || Ok(Dups(task, 0));
            let mine = add(
                &mut plan,
                label("ours"),
                (pattern, at, repeats),
                ours(&task),
            );
            if let Some((host, at)) = host {
                let host = add(&mut plan, label("host"), (pattern, at, 1), move || Ok(host));
                plan.row(Row::faster, &name, mine, "host", host);
            } else {
                out.push(Row {
                    verdict: Verdict::Info,
                    ..Row::missing(&name, "the host allows fewer descriptors")
                });
            }
            if open != SIZES[0] {
                let few = add(
                    &mut plan,
                    label("ours 10"),
                    (pattern, FEW, repeats),
                    ours(&few),
                );
                plan.row(Row::growth, &growth, mine, "ours 10", few);
            }
            out.extend(plan.run(ask)?);
        }
    }
    Ok(out)
}
