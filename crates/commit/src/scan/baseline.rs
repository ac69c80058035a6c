// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out when a view took each file from the real tree: changes to the file there after that
//! time, its baseline, are changes by others.
//!
//! # Rules
//! R1. A view took a file when its copy was born, and a deleted name when the whiteout last
//!     changed. The file of the real tree is unchanged if its time of change (`ctime`) is no later.
//!     A file that replaces these in the view is younger and took nothing. The overlay gives it the
//!     time of the replaced one, and the times are recorded before each run as well (`taken`). The
//!     earliest one counts. What the overlay of the kernel took counts as taken when its run began
//!     (`taken_times`).
//! R2. A path that a commit or its undo wrote is unchanged if it has not changed since then.
//! R3. Equal changes on both sides are no conflict. A directory may gain and lose other names.
//! R4. A name that the view never saw is never removed, even with force. A directory that is to be
//!     removed and holds a newer name is a conflict that force does not solve. A changed file in a
//!     directory whose names are unchanged was seen.
//! R5. Attributes of a directory are a conflict if they changed on both sides since its copy-up, as
//!     its copy records. If it records nothing, as in a view of an older version, any later change
//!     of the directory counts if the attributes differ.
//! R6. A directory that a commit moves, gives attributes to, or changes names in must be the inode
//!     that the view saw, and so must all directories above. A view records it at copy-up. Where it
//!     is not recorded, as in a view of an older version, a time of change after the view took the
//!     directory is a conflict, unless the commit only makes new names there. No rule trusts a
//!     modification time, which others can set.
//!
//! # Limits
//! * Under an ordinary user, a symbolic link, device or FIFO that replaced a file in one run, after
//!   a change by others, counts as taken when it was made.
//! * Changes within one tick of the kernel's clock (4 ms at most) count as one.
//! * A file that others removed goes unnoticed in a directory into which the view moved some.
//! * Where a file system changes inode numbers of files that nobody uses, as FAT does, each
//!   directory counts as replaced.
//! * A removed directory leaves no record of its inode. If others changed its attributes since, or
//!   moved another one there, that is a conflict of the directory, which force solves.

use crate::attributes::file_stat::{FileStat, Time};
use crate::host::names::{is_below, join, split};
use crate::host::tree::Tree;
use crate::journal::records::Records;
use crate::journal::{Bytes, KnownSince, TakenAt};
use crate::report::path_bytes::PathBytes;
use crate::report::refusal::Refusal;
use std::collections::HashMap;

/// When a view took the files that it changed.
pub(crate) struct Baseline {
    /// Since when a path is as the view knows it, and whether all below it is too.
    known: HashMap<Bytes, (Time, bool)>,
    /// When it took the files that its last run found.
    first: HashMap<Bytes, Time>,
    /// When the run began in which the kernel's overlay took all others.
    begun: Option<Time>,
    /// The directories that it served; empty: all.
    parts: Vec<PathBytes>,
    /// When the view was made, for file systems without times of birth.
    made: Time,
}

/// Whether an entry of the upper tree is below one of these directories, or there are none.
pub(crate) fn is_in_parts(parts: &[PathBytes], path: &[u8]) -> bool {
    parts.is_empty() || parts.iter().any(|part| is_below(path, part.bytes()))
}

impl Baseline {
    /// Reads the records in the directory of a view, made at this second.
    pub(crate) fn new(view: &Records, made: u64) -> Result<Baseline, Refusal> {
        let known = KnownSince::read(view)?.into_iter();
        let taken = TakenAt::read(view)?.into_iter();
        Ok(Baseline {
            known: known
                .map(|known| (known.path, (known.since, known.below)))
                .collect(),
            first: taken.map(|taken| (taken.path, taken.since)).collect(),
            begun: view.begun()?,
            parts: view.parts()?,
            made: (i64::try_from(made).unwrap_or(i64::MAX), 0),
        })
    }

    /// Whether `time` is later than the view took a path; `taken`: when it did, if that is known.
    pub(crate) fn is_later(&self, (path, taken): (&[u8], Option<Time>), time: Time) -> bool {
        let mut taken = self.taken_at(path, taken);
        let mut at = path;
        loop {
            match self.known.get(at) {
                Some((since, below)) if *below || at.len() == path.len() => {
                    taken = taken.max(*since);
                }
                _ => {}
            }
            if at.is_empty() {
                return time > taken;
            }
            at = split(at).0;
        }
    }

    /// When the view took a path, as far as runs recorded it; `taken`: as far as the entry tells.
    pub(crate) fn taken_at(&self, path: &[u8], taken: Option<Time>) -> Time {
        let taken = taken.unwrap_or(self.made);
        let begun = self.begun.filter(|_| is_in_parts(&self.parts, path));
        let first = self.first.get(path).copied().or(begun);
        first.map_or(taken, |first| taken.min(first))
    }

    /// Whether a directory of the real tree has nothing that the view saw before it made its own.
    pub(crate) fn is_apart(
        &self,
        base: &Tree,
        entry: (&[u8], Option<Time>),
        place: &[u8],
        here: &FileStat,
    ) -> rustix::io::Result<bool> {
        let came = |stat: &FileStat| self.is_later(entry, stat.btime.unwrap_or(stat.ctime));
        let mut names = 0;
        for name in base.names(place)? {
            if let Some(stat) = base.stat(&join(place, &name))? {
                names += 1;
                if !came(&stat) {
                    return Ok(false);
                }
            }
        }
        Ok(names > 0 || came(here))
    }
}
