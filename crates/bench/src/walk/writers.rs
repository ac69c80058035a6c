// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures a directory's rename and chmod when many names below it are cached.

use openpath_abi::{AtFlags, RenameFlags};
use std::cell::Cell;

use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY};
use openpath_vfs::Task;

use super::Options;
use crate::error::Error;
use crate::harness::{Heat, Plan};
use crate::ours;
use crate::row::Row;

const FANOUT: usize = 1000;
const FEW: usize = 10;

/// A directory that alternates between two names or two modes.
struct Dir {
    names: [&'static [u8]; 2],
    /// A file below it under either name.
    deep: [Vec<u8>; 2],
    name: Cell<usize>,
    mode: Cell<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Rename,
    Chmod,
}

/// A change, and its rows: alone, and with an open of the deep file after it.
const CHANGES: [(Change, [&str; 2]); 2] = [
    (
        Change::Rename,
        ["big-dir rename", "big-dir rename, then open"],
    ),
    (Change::Chmod, ["big-dir chmod", "big-dir chmod, then open"]),
];

pub(super) fn rows(options: &Options) -> Result<Vec<Row>, Error> {
    let ask = &options.ask;
    if !CHANGES.iter().any(|(_, names)| ask.wants_any(names)) {
        return Ok(Vec::new());
    }
    let vfs = ours::instance()?;
    let task = &ours::task(&vfs)?;
    let small = Dir::grow(task, [b"/small-a", b"/small-b"], FEW)?;
    let big = Dir::grow(task, [b"/big-a", b"/big-b"], options.dentries)?;
    let cached = options.dentries + options.dentries / FANOUT;
    let mut out = Vec::new();
    for (change, names) in CHANGES {
        let mut plan = Plan::default();
        for (name, open) in names.into_iter().zip([false, true]) {
            let sides = [(&big, ask.repeats()), (&small, 1)].map(|(dir, repeats)| {
                let burst = move |ops| {
                    (0..ops * repeats)
                        .map(|_| dir.turn(task, change, open))
                        .sum()
                };
                plan.add(name, Heat::Cold, || Ok(()), burst)
            });
            plan.row(
                Row::growth,
                name,
                sides[0],
                &format!("{FEW} cached"),
                sides[1],
            )
            .note(&format!("{cached} cached"));
        }
        out.extend(plan.run(ask)?);
    }
    Ok(out)
}

impl Dir {
    /// Makes the directory with `files` files below it, all of them cached by their creation.
    fn grow(task: &Task, names: [&'static [u8]; 2], files: usize) -> Result<Self, Error> {
        ours::mkdir(task, names[0])?;
        let mut deep = Vec::new();
        for i in 0..files {
            let dir = [names[0], format!("/dir{}", i / FANOUT).as_bytes()].concat();
            if i % FANOUT == 0 {
                ours::mkdir(task, &dir)?;
            }
            deep = [&dir, format!("/file{i}").as_bytes()].concat();
            ours::touch(task, &deep)?;
        }
        let other = [names[1], &deep[names[0].len()..]].concat();
        Ok(Self {
            names,
            deep: [deep, other],
            name: Cell::new(0),
            mode: Cell::new(0o755),
        })
    }

    /// Changes it once, and opens the deep file on request; returns 1 if that failed.
    fn turn(&self, task: &Task, change: Change, open: bool) -> u64 {
        let name = self.name.get();
        let changed = match change {
            Change::Rename => {
                self.name.set(1 - name);
                task.renameat2(
                    AT_FDCWD,
                    self.names[name],
                    AT_FDCWD,
                    self.names[1 - name],
                    RenameFlags::empty(),
                )
            }
            Change::Chmod => {
                self.mode.set(self.mode.get() ^ 0o055);
                task.fchmodat2(
                    AT_FDCWD,
                    self.names[name],
                    self.mode.get(),
                    AtFlags::empty(),
                )
            }
        };
        let deep = &self.deep[self.name.get()];
        let opened = !open || ours::open_close(task, deep, O_RDONLY);
        u64::from(changed.is_err() || !opened)
    }
}
