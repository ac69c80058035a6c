// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens of one file by all threads, by where in its line the inode begins.

use std::collections::BTreeMap;

use openpath_abi::Flock;
use openpath_abi::fcntl::{O_CREAT, O_RDONLY, O_RDWR};
use openpath_abi::lock::{F_WRLCK, LOCK_SH};
use openpath_vfs::{Task, Vfs};

use crate::error::Error;
use crate::harness::Steal;
use crate::row::Row;
use crate::team::{Make, Team, counts};
use crate::{Ask, ours};

const LINE: usize = 64;
/// Files that are made in the hope of one for each place; a heap lays most sizes out in turn.
const TRIES: usize = 512;

/// Flag or field, and whether somebody has locked the file.
pub(super) const SETTINGS: [(bool, bool); 4] =
    [(true, false), (false, false), (true, true), (false, true)];

/// An instance with files of all places.
pub(super) struct Laid {
    pub(super) vfs: Vfs,
    /// A path for each place in a line.
    paths: BTreeMap<usize, String>,
    /// Who has locked them, if anybody.
    _holder: Option<Task>,
}

impl Laid {
    /// # Errors
    /// `Setup` if it cannot be built.
    pub(super) fn new((flag, locked): (bool, bool)) -> Result<Self, Error> {
        let vfs = ours::tuned(|tuning| tuning.lock_context_flag = flag)?;
        let task = ours::task(&vfs)?;
        let failed = |errno| Error::setup("make a file", errno);
        let mut paths = BTreeMap::new();
        for number in 0..TRIES {
            let path = format!("/same-{number}");
            let fd = task.open(path.as_bytes(), O_RDWR | O_CREAT, 0o644);
            let fd = fd.map_err(failed)?;
            let at = task.inode_address(fd).map_or(0, |at| at % LINE);
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

    /// Some path.
    pub(super) fn any_path(&self) -> &[u8] {
        self.paths
            .values()
            .next()
            .map_or(b"", |path| path.as_bytes())
    }

    fn makes(&self, at: usize, threads: usize) -> Result<Vec<Make<'_>>, Error> {
        let path = self.paths.get(&at).map_or(&b""[..], |path| path.as_bytes());
        let make = |_| {
            let task = ours::task(&self.vfs)?;
            let make: Make<'_> = Box::new(move || {
                Ok(Box::new(move |ops| {
                    let wrong = |_: &u64| !ours::open_close(&task, path, O_RDONLY);
                    (0..ops).filter(wrong).count() as u64
                }))
            });
            Ok(make)
        };
        (0..threads).map(make).collect()
    }
}

/// The rows of all places that are wanted.
///
/// # Errors
/// As [`super::run`].
pub(super) fn rows(ask: &Ask, steal: &Steal) -> Result<Vec<Row>, Error> {
    let sides = SETTINGS
        .into_iter()
        .map(Laid::new)
        .collect::<Result<Vec<_>, _>>()?;
    let (counts, threads) = (counts(), counts().into_iter().max().unwrap_or(1));
    let places: Vec<usize> = sides[0].paths.keys().copied().collect();
    let mut rows = Vec::new();
    for at in places {
        let name = format!("opens of an inode at {at}");
        let has = |side: &Laid| side.paths.contains_key(&at);
        if !ask.may_want(&name) || !sides.iter().all(has) {
            continue;
        }
        let mut team = Team::default();
        for side in &sides {
            team.add(&name, side.makes(at, threads)?);
        }
        let samples = team.run(&counts, ask.effort, steal)?;
        for (i, count) in counts.iter().enumerate() {
            for (locked, by) in [("", 0), (", locked", 2)] {
                let name = format!("{name}{locked}, {count}T, switch");
                let (on, off) = (&samples[by][i], &samples[by + 1][i]);
                rows.push(Row::faster(&name, on, "flag off", off));
            }
            let name = format!("{name}, {count}T, beside a locked one");
            rows.push(Row::faster(&name, &samples[0][i], "locked", &samples[2][i]));
        }
    }
    Ok(rows)
}
