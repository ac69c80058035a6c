// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the lines of memory that two tasks share when they open one file.
//!
//! Another thread builds the instance in an arena; then two tasks open and close the file in turns,
//! and every access to the arena and to the instance's regions is logged.

use std::collections::BTreeSet;

use openpath_abi::fcntl::O_RDONLY;
use openpath_vfs::Task;

use super::{Laid, SETTINGS};
use crate::calls::Calls;
use crate::cmd::Ask;
use crate::create::sys::{Access, traced};
use crate::error::Error;
use crate::gate::sys::shared;
use crate::row::Row;
use crate::{gate, ours};

const LINE: usize = 64;
const HEAT: usize = 8;
const ROUNDS: usize = 8;

/// Lines that both tasks access in one open and close.
struct Lines {
    read: f64,
    written: f64,
}

/// The wanted rows.
pub(super) fn rows(ask: &Ask) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for setting @ (flag, locked) in SETTINGS {
        let of = if locked { "a locked file" } else { "a file" };
        let by = if flag { "" } else { ", flag off" };
        let names = ["read", "written"].map(|how| format!("opens of {of}{by}, lines {how}"));
        if ask.wants_any(&names) {
            let lines = gate::apart(|| Laid::new(setting), |laid| watch(&laid))?;
            let counts = names.iter().zip([lines.read, lines.written]);
            rows.extend(counts.map(|(name, count)| Row::count(name, "per op", count)));
        }
    }
    Ok(rows)
}

fn watch(laid: &Laid) -> Result<Lines, Error> {
    let path = laid.any_path();
    let tasks = [ours::task(&laid.vfs)?, ours::task(&laid.vfs)?];
    let once = |task: &Task| task.open_close(path, O_RDONLY);
    let mut wrong = 0;
    for task in tasks.iter().cycle().take(2 * HEAT) {
        wrong += usize::from(!once(task));
    }
    let mut spans = shared(gate::spans(&laid.vfs));
    // The memory that the handlers read stays open.
    spans.retain(|span| span.name != "variables");
    let seen = traced(spans, |log| {
        let mut seen = Vec::with_capacity(2 * ROUNDS);
        for (number, task) in (0..2 * ROUNDS).map(|i| (i % 2, &tasks[i % 2])) {
            let first = log.count();
            wrong += usize::from(!once(task));
            seen.push((number, log.accesses(first)));
        }
        seen
    });
    let seen = seen.map_err(|e| Error::host("watch the shared memory", e))?;
    if wrong != 0 {
        return Err(Error::Wrong(format!("{wrong} opens")));
    }
    Ok(sum(&seen))
}

fn sum(seen: &[(usize, Vec<Access>)]) -> Lines {
    let touched = |task: usize| -> BTreeSet<usize> {
        let own = seen.iter().filter(|(number, _)| *number == task);
        own.flat_map(|(_, all)| all.iter().map(|one| one.at / LINE))
            .collect()
    };
    let met: BTreeSet<usize> = touched(0).intersection(&touched(1)).copied().collect();
    let each = |stores: bool| {
        let lines = seen.iter().map(|(_, all)| {
            let of = all.iter().filter(|one| one.store == stores);
            let of: BTreeSet<usize> = of.map(|one| one.at / LINE).collect();
            of.intersection(&met).count()
        });
        lines.sum::<usize>() as f64 / seen.len().max(1) as f64
    };
    Lines {
        read: each(false),
        written: each(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_lines_are_counted_by_kind_of_access() {
        let access = |at, store| Access { at, store };
        let (read, written) = (|at| access(at, false), |at| access(at, true));
        let seen = [
            // Line 0 twice; line 1 by both, read by one and written by the other; line 9 by one
            // alone.
            (0, vec![read(0), read(8), read(64), written(9 * 64)]),
            (1, vec![read(0), written(64), written(72)]),
        ];
        let lines = sum(&seen);
        assert_eq!((lines.read, lines.written), (1.5, 0.5));
        assert_eq!(sum(&seen[..1]).read, 0.0, "no other task");
        assert_eq!(sum(&[]).written, 0.0);
    }
}
