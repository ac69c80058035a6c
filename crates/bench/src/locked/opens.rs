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
    let counts = counts();
    let names = |at| -> Vec<String> {
        let pairs = counts.iter().flat_map(|count| pairs(at, *count));
        pairs.map(|pair| pair.name).collect()
    };
    let places: Vec<usize> = (0..LINE).filter(|at| ask.wants_any(&names(*at))).collect();
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let sides = SETTINGS
        .into_iter()
        .map(Laid::new)
        .collect::<Result<Vec<_>, _>>()?;
    let threads = counts.iter().copied().max().unwrap_or(1);
    let mut rows = Vec::new();
    for at in places {
        if !sides.iter().all(|side| side.paths.contains_key(&at)) {
            continue;
        }
        let mut team = Team::default();
        for side in &sides {
            team.add(&format!("opens at {at}"), side.makes(at, threads)?);
        }
        let samples = team.run(&counts, ask.effort, steal)?;
        for (i, count) in counts.iter().enumerate() {
            rows.extend(pairs(at, *count).map(|Pair { name, sides, label }| {
                let [ours, peer] = sides.map(|side| &samples[side][i]);
                Row::faster(&name, ours, label, peer)
            }));
        }
    }
    Ok(rows)
}

/// Two of [`SETTINGS`] beside each other.
struct Pair {
    name: String,
    sides: [usize; 2],
    label: &'static str,
}

/// What is compared of so many threads at a place.
fn pairs(at: usize, count: usize) -> [Pair; 3] {
    let name = format!("opens of an inode at {at}");
    let pair = |end: String, sides, label| Pair {
        name: format!("{name}{end}"),
        sides,
        label,
    };
    [
        pair(format!(", {count}T, switch"), [0, 1], "flag off"),
        pair(format!(", locked, {count}T, switch"), [2, 3], "flag off"),
        pair(format!(", {count}T, beside a locked one"), [0, 2], "locked"),
    ]
}
