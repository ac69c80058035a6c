// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes a snapshot of the files of the real tree that a commit will replace, to detect changes by
//! others between the plan and the exchange of names. After an interruption, days may lie between
//! the two.
//!
//! # Rules
//! R1. Files are compared by number, time of birth and time of change (`ctime`), a directory by its
//!     own number and birth and by its entries. Directories that move out of it do not count. Its
//!     own times, which that changes, do not either.
//! R2. All of it is in one digest, so that a directory that others moved here counts with the files
//!     in it, whatever their times are. A journal of an older version has none.
//!
//! # Limits
//! * A file with several names changes when one of them is exchanged, so its time does not count
//!   once some are.

use crate::attributes::file_stat::{FileStat, Time};
use crate::host::names::join;
use crate::host::tree::Tree;
use crate::report::messages::failed;
use crate::report::refusal::Refusal;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

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
    /// Of the path, inode and time of change of each file and directory (R2).
    #[serde(default)]
    digest: Option<[u8; 32]>,
}

impl Snapshot {
    /// Takes a snapshot of a name with all that is in a directory, except for what `leaves` it.
    pub(crate) fn take(
        base: &Tree,
        path: &[u8],
        leaves: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Snapshot, Refusal> {
        let stat = base.stat(path).map_err(|why| failed(path, why))?;
        Self::take_of(base, (path, stat), leaves)
    }

    /// The same of a name with these attributes.
    pub(crate) fn take_of(
        base: &Tree,
        (path, stat): (&[u8], Option<FileStat>),
        leaves: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Snapshot, Refusal> {
        let mut seen = Snapshot::default();
        let mut digest = Sha256::new();
        let top = path.len();
        let mut known = Some(stat);
        let mut todo = vec![path.to_vec()];
        while let Some(path) = todo.pop() {
            let fail = |why| failed(&path, why);
            let stat = match known.take() {
                Some(stat) => stat,
                None => base.stat(&path).map_err(fail)?,
            };
            if let Some(stat) = &stat {
                add_to(&mut digest, &path[top..], stat);
            }
            match stat {
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
        seen.digest = Some(digest.finalize().into());
        Ok(seen)
    }

    /// Whether the files are as they were in `before`.
    pub(crate) fn is_as(&self, before: &Snapshot) -> bool {
        self.is_same_but_for_shared(before) && self.last_shared == before.last_shared
    }

    /// Whether both are the same, whatever became of files with several names.
    pub(crate) fn is_same_but_for_shared(&self, before: &Snapshot) -> bool {
        let numbers = |one: &Snapshot| (one.files, one.dirs, one.last);
        numbers(self) == numbers(before)
            && (before.digest.is_none() || self.digest == before.digest)
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

/// Adds a file at this path below the name.
fn add_to(digest: &mut Sha256, path: &[u8], stat: &FileStat) {
    let id = stat.id();
    // A path has no zero byte, and the rest has one length.
    digest.update(path);
    digest.update([0]);
    digest.update(id.number.to_le_bytes());
    let changed = (!stat.is_dir() && stat.nlink <= 1).then_some(stat.ctime);
    for time in [id.born, changed] {
        let (sec, nsec) = time.unwrap_or((i64::MIN, 0));
        digest.update(sec.to_le_bytes());
        digest.update(nsec.to_le_bytes());
    }
}
