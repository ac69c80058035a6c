// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures opens of one file by all threads, by the inode's offset in its line.

use std::collections::BTreeMap;

use openpath_abi::fcntl::{O_CREAT, O_RDONLY, O_RDWR};
use openpath_abi::lock::{F_WRLCK, LOCK_SH};
use openpath_abi::{Flock, OFlags};
use openpath_vfs::{Task, Vfs};

use crate::cmd::Ask;
use crate::error::Error;
use crate::harness::Plan;
use crate::ours;
use crate::row::Row;
use crate::scene::threads_max;
use crate::threads::{Make, counts, ready};

const LINE: usize = 64;
/// How many files are made to get one at each offset; a heap places most sizes at changing offsets.
const TRIES: usize = 512;

/// Flag or field, and whether the file is locked.
pub(super) const SETTINGS: [(bool, bool); 4] =
    [(true, false), (false, false), (true, true), (false, true)];

/// An instance with files at all offsets.
pub(super) struct Laid {
    pub(super) vfs: Vfs,
    /// A path for each offset in a line.
    paths: BTreeMap<usize, String>,
    /// The task that holds their locks.
    _holder: Option<Task>,
}

impl Laid {
    pub(super) fn new((flag, locked): (bool, bool)) -> Result<Self, Error> {
        let vfs = ours::tuned(|tuning| tuning.lock_context_flag = flag)?;
        let task = ours::task(&vfs)?;
        let failed = |errno| Error::setup("make a file", errno);
        let mut paths = BTreeMap::new();
        for number in 0..TRIES {
            let path = format!("/same-{number}");
            let fd = task.open(path.as_bytes(), O_RDWR | O_CREAT, 0o644);
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

    /// Any one of the paths.
    pub(super) fn any_path(&self) -> &[u8] {
        self.paths
            .values()
            .next()
            .map_or(b"", |path| path.as_bytes())
    }

    fn makes(&self, at: usize) -> Result<Vec<Make<'_>>, Error> {
        let path = self.paths.get(&at).map_or(&b""[..], |path| path.as_bytes());
        let make = |_| {
            let task = ours::task(&self.vfs)?;
            Ok(ready(move |ops| {
                let wrong = |_: &u64| {
                    !ours::open_close(&task, path, OFlags::from_bits_retain(O_RDONLY.bits()))
                };
                (0..ops).filter(wrong).count() as u64
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
pub(super) fn rows(ask: &Ask) -> Result<Vec<Row>, Error> {
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
    let laid: Result<Vec<Laid>, Error> = SETTINGS.into_iter().map(Laid::new).collect();
    let laid = laid?;
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
