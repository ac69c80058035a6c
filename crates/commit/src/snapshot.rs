// SPDX-License-Identifier: MIT OR Apache-2.0
//! A snapshot of the files that a commit will replace, to detect changes by others. They may come
//! between the plan and the exchange of names: while files are copied or, after an interruption,
//! for days.
//!
//! # Rules
//! R1. Files are compared by number and time of change (`ctime`), a directory by its entries.
//!     Directories that move out of it do not count, nor do its own times, which that changes.
//!
//! # Limits
//! * A file with several names changes when one of them is exchanged, so its time does not count
//!   once some are.

use crate::file_stat::{FileStat, Time};
use crate::messages::failed;
use crate::names::join;
use crate::refusal::Refusal;
use crate::tree::Tree;
use serde::{Deserialize, Serialize};

/// The files under a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// The number of files, in all directories.
    files: u64,
    /// Directories.
    dirs: u64,
    /// The latest time of change of a file; none: there is none.
    last: Option<Time>,
    /// The same for files with several names.
    last_shared: Option<Time>,
}

impl Snapshot {
    /// Takes a snapshot of a name with all that is in a directory, except for what `leaves` it.
    pub(crate) fn take(
        base: &Tree,
        path: &[u8],
        leaves: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Snapshot, Refusal> {
        let mut seen = Snapshot::default();
        let mut todo = vec![path.to_vec()];
        while let Some(path) = todo.pop() {
            let fail = |why| failed(&path, why);
            match base.stat(&path).map_err(fail)? {
                Some(stat) if stat.is_dir() => {
                    seen.dirs += 1;
                    let names = base.names(&path).map_err(fail)?;
                    let below = names.iter().map(|name| join(&path, name));
                    todo.extend(below.filter(|path| !leaves(path)));
                }
                Some(stat) => seen.add(&stat),
                None => {}
            }
        }
        Ok(seen)
    }

    /// Whether both are the same, whatever became of files with several names.
    pub(crate) fn is_same_but_for_shared(&self, other: &Snapshot) -> bool {
        let last_shared = other.last_shared;
        Snapshot {
            last_shared,
            ..*self
        } == *other
    }

    fn add(&mut self, stat: &FileStat) {
        self.files += 1;
        let last = match stat.nlink {
            0 | 1 => &mut self.last,
            _ => &mut self.last_shared,
        };
        *last = (*last).max(Some(stat.ctime));
    }
}
