// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `same-file --locks`: the cost of the lock check for files without locks, and of locks,
//! as `pages/locks.md` describes. Shared cache lines are counted before anything is timed.

mod locks;

use std::collections::BTreeMap;

use openpath_abi::Flock;
use openpath_abi::lock::{F_WRLCK, LOCK_SH};

use crate::common::*;
use crate::watch::observe;
use crate::watch::sys::Kind;

pub(crate) fn run(ask: &Ask) -> Result<Vec<Row>, Error> {
    let mut rows = lines(ask)?;
    rows.extend(opens(ask)?);
    rows.extend(locks::rows(ask)?);
    Ok(rows)
}

/// How often each task opens the file before shared lines are counted, and again during it.
const OPENS: [usize; 2] = [8, 8];
const LINE: usize = 64;
/// How many files are made to get one at each offset; a heap places most sizes at changing offsets.
const TRIES: usize = 512;
/// Flag or field, and whether the file is locked.
const SETTINGS: [(bool, bool); 4] = [(true, false), (false, false), (true, true), (false, true)];
/// Two of [`SETTINGS`] to compare.
const PAIRS: [Pair<'_>; 3] = [
    ("", ", switch", [0, 1], "flag off", ""),
    (", locked", ", switch", [2, 3], "flag off", ""),
    ("", ", beside a locked one", [0, 2], "locked", ""),
];

/// Counts the cache lines that two tasks share when they open and close one file in turns. The
/// instance is built by another thread in an arena.
fn lines(ask: &Ask) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for setting @ (flag, locked) in SETTINGS {
        let of = if locked { "a locked file" } else { "a file" };
        let by = if flag { "" } else { ", flag off" };
        let names = ["read", "written"].map(|how| format!("opens of {of}{by}, lines {how}"));
        if ask.wants_any(&names) {
            let watch = |laid: Laid| {
                let tasks = [ours::task(&laid.vfs)?, ours::task(&laid.vfs)?];
                // A copy outside the arena: both tasks read it.
                let path = laid.paths.values().next().cloned().unwrap_or_default();
                let step = |task: usize| tasks[task].open_close(&path, O_RDONLY);
                let seen = observe(&laid.vfs, Kind::Accesses, tasks.len(), OPENS, step)?;
                Ok(seen.shared_lines())
            };
            let counts = names.iter().zip(gate::apart(|| Laid::new(setting), watch)?);
            rows.extend(counts.map(|(name, count)| Row::count(name, "per op", count)));
        }
    }
    Ok(rows)
}

/// An instance with files at all offsets.
struct Laid {
    vfs: Vfs,
    /// A path for each offset in a line.
    paths: BTreeMap<usize, CString>,
    /// The task that holds their locks.
    _holder: Option<Task>,
}

impl Laid {
    fn new((flag, locked): (bool, bool)) -> Result<Self, Error> {
        let vfs = ours::tuned(|tuning| tuning.lock_context_flag = flag)?;
        let task = ours::task(&vfs)?;
        let mut paths = BTreeMap::new();
        for number in 0..TRIES {
            let path = c_string(format!("/same-{number}"));
            let fd = task.open(path.to_bytes(), O_RDWR | O_CREAT, 0o644);
            let fd = fd.setup("make a file")?;
            let at = task.inode_identity(fd).map_or(0, |at| at % LINE);
            if paths.contains_key(&at) {
                task.close(fd).setup("make a file")?;
                continue;
            }
            if locked {
                let set = task.fcntl_setlk(fd, &Flock::new(F_WRLCK, 0, 1));
                let set = set.and_then(|()| task.flock(fd, LOCK_SH));
                set.setup("lock a file")?;
            }
            paths.insert(at, path);
        }
        Ok(Self {
            vfs,
            paths,
            _holder: locked.then_some(task),
        })
    }

    fn makes(&self, at: usize) -> Result<Vec<Make<'_>>, Error> {
        let path = self.paths.get(&at).map_or(c"", |path| path);
        let make = |_| {
            let task = ours::task(&self.vfs)?;
            Ok(ready(move |ops| {
                wrong_of(ops, || task.open_close(path, O_RDONLY))
            }))
        };
        (0..threads_max()).map(make).collect()
    }
}

/// The wanted rows of all offsets.
fn opens(ask: &Ask) -> Result<Vec<Row>, Error> {
    let counts = counts();
    let name = |at: &usize| format!("opens of an inode at {at}");
    let wanted = |at: &usize| {
        let wants = |count: &usize, (before, after, ..): &Pair<'_>| {
            ask.wants(&format!("{}{before}, {count}T{after}", name(at)))
        };
        counts
            .iter()
            .any(|count| PAIRS.iter().any(|pair| wants(count, pair)))
    };
    let places: Vec<usize> = (0..LINE).filter(wanted).collect();
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let laid = SETTINGS.into_iter().map(Laid::new);
    let laid = laid.collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    for at in places {
        if laid.iter().all(|laid| laid.paths.contains_key(&at)) {
            let mut plan = Plan::default();
            let mut sides = Vec::new();
            for laid in &laid {
                sides.push(plan.threads(&name(&at), laid.makes(at)?, &counts));
            }
            compare(&mut plan, &name(&at), &sides, &PAIRS);
            rows.extend(plan.run(ask)?);
        }
    }
    Ok(rows)
}
