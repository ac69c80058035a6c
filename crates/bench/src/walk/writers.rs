// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures a directory's rename and chmod when many names below it are cached.

use std::cell::Cell;

use super::Options;
use crate::common::*;

const FANOUT: usize = 1000;
const FEW: usize = 10;

/// A directory that alternates between two names or two modes.
struct Dir {
    names: [&'static [u8]; 2],
    /// A file below it under either name.
    deep: [CString; 2],
    name: Cell<usize>,
    mode: Cell<u32>,
}

/// The rows: whether the change is a rename, and whether an open of the deep file follows it.
const ROWS: [[(&str, bool, bool); 2]; 2] = [
    [
        ("big-dir rename", true, false),
        ("big-dir rename, then open", true, true),
    ],
    [
        ("big-dir chmod", false, false),
        ("big-dir chmod, then open", false, true),
    ],
];

pub(super) fn rows(options: &Options) -> Result<Vec<Row>, Error> {
    let ask = &options.ask;
    if !ROWS.as_flattened().iter().any(|(name, ..)| ask.wants(name)) {
        return Ok(Vec::new());
    }
    let vfs = ours::instance()?;
    let task = &ours::task(&vfs)?;
    let small = Dir::grow(task, [b"/small-a", b"/small-b"], FEW)?;
    let big = Dir::grow(task, [b"/big-a", b"/big-b"], options.dentries)?;
    let cached = options.dentries + options.dentries / FANOUT;
    let mut out = Vec::new();
    for rows in ROWS {
        let mut plan = Plan::default();
        for (name, renames, open) in rows {
            let [big, small] = [(&big, ask.repeats()), (&small, 1)].map(|(dir, repeats)| {
                let turn = move |_| dir.turn(task, renames, open);
                let burst = move |ops| (0..ops * repeats).map(turn).sum();
                plan.add(name, Heat::Cold, || Ok(()), burst)
            });
            plan.row(Row::growth, name, big, &format!("{FEW} cached"), small)
                .note(&format!("{cached} cached"));
        }
        out.extend(plan.run(ask)?);
    }
    Ok(out)
}

impl Dir {
    /// Makes the directory with `files` files below it, all of them cached by their creation.
    fn grow(task: &Task, names: [&'static [u8]; 2], files: usize) -> Result<Self, Error> {
        task.make_dir(names[0])?;
        let mut deep = Vec::new();
        for i in 0..files {
            deep = format!("/dir{}", i / FANOUT).into_bytes();
            if i % FANOUT == 0 {
                task.make_dir(&[names[0], &deep].concat())?;
            }
            deep.extend(format!("/file{i}").into_bytes());
            task.make_file(&[names[0], &deep].concat(), b"")?;
        }
        Ok(Self {
            names,
            deep: names.map(|name| c_string([name, &deep].concat())),
            name: Cell::new(0),
            mode: Cell::new(0o755),
        })
    }

    /// Changes it once, and opens the deep file on request; returns 1 if that failed.
    fn turn(&self, task: &Task, renames: bool, open: bool) -> u64 {
        let name = self.name.get();
        let changed = if renames {
            self.name.set(1 - name);
            task.rename(self.names[name], self.names[1 - name])
        } else {
            self.mode.set(self.mode.get() ^ 0o055);
            task.chmod(self.names[name], self.mode.get())
        };
        let deep = &self.deep[self.name.get()];
        let opened = !open || task.open_close(deep, O_RDONLY);
        u64::from(changed.is_err() || !opened)
    }
}
