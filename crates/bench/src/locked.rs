// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `same-file --locks`: the cost of the lock check for files without locks, and of locks.
//!
//! * `opens`: the loop by which Linux judged the flag ("fs: track the inode having file locks with
//!   a flag in ->i_opflags"). The inodes begin at each offset of a cache line, because the benefit
//!   of the flag depends on it in Linux. It runs with the flag and with the field read instead, on
//!   files without a lock and on locked ones. Before that, the cache lines that two tasks share are
//!   counted, as an open reads and writes them.
//! * `locks`: a lock and its unlock, of one thread without contention, and of several that wait for
//!   each other, beside the host kernel.

mod locks;

use std::collections::BTreeMap;
use std::ffi::CString;

use openpath_abi::Flock;
use openpath_abi::fcntl::{O_CREAT, O_RDONLY, O_RDWR};
use openpath_abi::lock::{F_WRLCK, LOCK_SH};
use openpath_vfs::{Task, Vfs};

use crate::calls::{Calls, wrong_of};
use crate::cmd::Ask;
use crate::error::Error;
use crate::gate;
use crate::harness::Plan;
use crate::ours;
use crate::row::Row;
use crate::scene::threads_max;
use crate::threads::{Make, counts, ready};
use crate::watch::observe;
use crate::watch::sys::Kind;

/// Runs every wanted row.
pub(crate) fn run(ask: &Ask) -> Result<Vec<Row>, Error> {
    let mut rows = lines(ask)?;
    rows.extend(opens(ask)?);
    rows.extend(locks::rows(ask)?);
    Ok(rows)
}

/// How often each task opens the file before shared lines are counted, and again during it.
const OPENS: [usize; 2] = [8, 8];

/// Counts the cache lines that two tasks share when they open and close one file in turns. The
/// instance is built by another thread in an arena.
fn lines(ask: &Ask) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for setting @ (flag, locked) in SETTINGS {
        let of = if locked { "a locked file" } else { "a file" };
        let by = if flag { "" } else { ", flag off" };
        let names = ["read", "written"].map(|how| format!("opens of {of}{by}, lines {how}"));
        if ask.wants_any(&names) {
            let lines = gate::apart(
                || Laid::new(setting),
                |laid| {
                    let tasks = [ours::task(&laid.vfs)?, ours::task(&laid.vfs)?];
                    // A copy outside the arena: both tasks read it.
                    let path = laid.paths.values().next().cloned().unwrap_or_default();
                    let step = |task: usize| tasks[task].open_close(&path, O_RDONLY);
                    let seen = observe(&laid.vfs, Kind::Accesses, tasks.len(), OPENS, step)?;
                    Ok(seen.shared_lines())
                },
            )?;
            let counts = names.iter().zip(lines);
            rows.extend(counts.map(|(name, count)| Row::count(name, "per op", count)));
        }
    }
    Ok(rows)
}

const LINE: usize = 64;
/// How many files are made to get one at each offset; a heap places most sizes at changing offsets.
const TRIES: usize = 512;

/// Flag or field, and whether the file is locked.
const SETTINGS: [(bool, bool); 4] = [(true, false), (false, false), (true, true), (false, true)];

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
        let failed = |errno| Error::setup("make a file", errno);
        let mut paths = BTreeMap::new();
        for number in 0..TRIES {
            let path = CString::new(format!("/same-{number}")).unwrap_or_default();
            let fd = task.open(path.to_bytes(), O_RDWR | O_CREAT, 0o644);
            let fd = fd.map_err(failed)?;
            let at = task.inode_identity(fd).map_or(0, |at| at % LINE);
            if paths.contains_key(&at) {
                task.close(fd).map_err(failed)?;
                continue;
            }
            if locked {
                task.fcntl_setlk(fd, &Flock::new(F_WRLCK, 0, 1))
                    .and_then(|()| task.flock(fd, LOCK_SH))
                    .map_err(|errno| Error::setup("lock a file", errno))?;
            }
            paths.insert(at, path);
        }
        let holder = locked.then_some(task);
        Ok(Self {
            vfs,
            paths,
            _holder: holder,
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

/// Two of [`SETTINGS`] to compare: the end of their row's name, before and after the number of
/// threads, the two settings, and the label of the second.
const PAIRS: [(&str, &str, [usize; 2], &str); 3] = [
    ("", "switch", [0, 1], "flag off"),
    (", locked", "switch", [2, 3], "flag off"),
    ("", "beside a locked one", [0, 2], "locked"),
];

/// The wanted rows of all offsets.
fn opens(ask: &Ask) -> Result<Vec<Row>, Error> {
    let counts = counts();
    let name = |at: usize, count: usize, (of, what): (&str, &str)| {
        format!("opens of an inode at {at}{of}, {count}T, {what}")
    };
    let wanted = |at: &usize| {
        let mut names = counts
            .iter()
            .flat_map(|count| PAIRS.map(|(of, what, ..)| name(*at, *count, (of, what))));
        names.any(|name| ask.wants(&name))
    };
    let places: Vec<usize> = (0..LINE).filter(wanted).collect();
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let laid = SETTINGS.into_iter().map(Laid::new);
    let laid = laid.collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    for at in places {
        if !laid.iter().all(|laid| laid.paths.contains_key(&at)) {
            continue;
        }
        let mut plan = Plan::default();
        let mut sides = Vec::new();
        for laid in &laid {
            sides.push(plan.threads(&format!("opens at {at}"), laid.makes(at)?, &counts));
        }
        for (i, count) in counts.iter().enumerate() {
            for (of, what, [ours, peer], label) in PAIRS {
                let name = name(at, *count, (of, what));
                plan.row(Row::faster, &name, sides[ours][i], label, sides[peer][i]);
            }
        }
        rows.extend(plan.run(ask)?);
    }
    Ok(rows)
}
