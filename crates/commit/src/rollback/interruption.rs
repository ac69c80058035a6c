// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds what others changed in the files of an interrupted commit, so that its rollback or its
//! resumption does not overwrite or claim their changes.
//!
//! # Rules
//! R1. A rollback replaces only files that the commit itself put in place. It is a conflict if an
//!     exchanged name refers to another file since, or to one that was written since.
//! R2. The time of the interruption is unknown. A file in place was changed if it does not match
//!     its stamp (`stamp`). It was also changed if its time of change is later than that of its
//!     backup, which has waited under the hidden name since the exchange, or later than the end of
//!     a commit that is being undone. For a file with several names neither is known.
//! R3. A name that the commit has not reached, or that was restored, is as others left it, and
//!     stays so.
//! R4. A resumed commit keeps changes by others to files in place, and records them: the undo must
//!     not take them for the commit's.

use crate::attributes::clock::now;
use crate::attributes::file_stat::{FileStat, InodeId, Time, are_one};
use crate::copies::stamp::Stamp;
use crate::host::names::{is_below, join, split};
use crate::journal::{Bytes, Replace, State, UpperCleanup};
use crate::plan::conflicts::{Conflict, ConflictKind};
use crate::report::messages::{failed, public_path};
use crate::report::refusal::Refusal;
use crate::transaction::{Transaction, store_path};
use std::collections::HashSet;

/// One exchange changes two inodes. Their times may differ by some ticks of the kernel's clock, in
/// nanoseconds.
const ONE_EXCHANGE: i128 = 20_000_000;
/// The coarsest times that a file system keeps, in nanoseconds.
const COARSEST: i128 = 2_000_000_000;

fn nanoseconds(time: Time) -> i128 {
    i128::from(time.0) * 1_000_000_000 + i128::from(time.1)
}

/// Whether these are the attributes of this inode.
fn has_id(stat: Option<&FileStat>, id: Option<InodeId>) -> bool {
    are_one(stat.map(FileStat::id), id)
}

impl Transaction<'_> {
    /// Changes by others since, to what the commit had done when it was interrupted in this state
    /// (R1).
    ///
    /// # Errors
    /// The real tree cannot be read.
    pub(crate) fn changes_since_interruption(
        &self,
        state: State,
    ) -> Result<Vec<Conflict>, Refusal> {
        let mut found = Vec::new();
        if state == State::Preparing {
            return Ok(found);
        }
        let mut note = |path: &[u8], kind| {
            found.push(Conflict {
                path: public_path(path),
                place: public_path(path),
                kind,
                unseen: kind == ConflictKind::Made && self.replacement_at(path).is_none(),
                in_view: false,
            });
        };
        let moved = self.journal.moved_to();
        for replace in &self.journal.replacements {
            if replace.new.is_some() && replace.items.is_empty() {
                // A moved directory may have changed: it moves back as it is.
                continue;
            }
            self.note_exchanged((replace, &moved), state, &mut note)?;
        }
        for attrs in &self.journal.set_attrs {
            if self.is_changed_since(attrs)? {
                note(&attrs.path, ConflictKind::Changed);
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found.dedup_by(|a, b| a.path == b.path);
        Ok(found)
    }

    /// Records what became of a name, if it was exchanged.
    fn note_exchanged(
        &self,
        (replace, moved): (&Replace, &HashSet<&[u8]>),
        state: State,
        note: &mut impl FnMut(&[u8], ConflictKind),
    ) -> Result<(), Refusal> {
        let look = |path: &[u8]| self.base.stat(path).map_err(|why| failed(path, why));
        let (there, waits) = (look(&replace.path)?, look(&replace.hidden)?);
        let waits = waits.filter(|waits| has_id(Some(waits), replace.old));
        // Backups are moved away after all exchanges.
        let away = matches!(state, State::Settling | State::Recalling);
        let exchanged = replace.old.is_some() && (away || waits.is_some());
        match there {
            Some(there) if replace.new.is_some() && has_id(Some(&there), replace.new) => {
                self.note_written_below((replace, moved), (&there, waits.as_ref()), note)
            }
            Some(_) if exchanged && replace.new.is_none() => {
                note(&replace.path, ConflictKind::Made);
                Ok(())
            }
            Some(_) if exchanged => {
                note(&replace.path, ConflictKind::Changed);
                Ok(())
            }
            None if exchanged && replace.new.is_some() => {
                note(&replace.path, ConflictKind::Removed);
                Ok(())
            }
            // R3
            _ => Ok(()),
        }
    }

    /// Records writes to files that the commit put in place, and names that others made in them
    /// (R2).
    fn note_written_below(
        &self,
        (replace, moved): (&Replace, &HashSet<&[u8]>),
        (top, waits): (&FileStat, Option<&FileStat>),
        note: &mut impl FnMut(&[u8], ConflictKind),
    ) -> Result<(), Refusal> {
        let apart = |waits: &FileStat| nanoseconds(top.ctime) - nanoseconds(waits.ctime);
        if top.nlink == 1 && !top.is_dir() && waits.is_some_and(|w| apart(w) > ONE_EXCHANGE) {
            note(&replace.path, ConflictKind::Changed);
            return Ok(());
        }
        let made = replace.made();
        let mut todo = vec![replace.path.to_vec()];
        while let Some(path) = todo.pop() {
            let fail = |why| failed(&path, why);
            let Some(stat) = self.base.stat(&path).map_err(fail)? else {
                continue;
            };
            if moved.contains(&path[..]) || split(&path).1.starts_with(b".openpath-") {
                continue;
            }
            let stamp = made.get(&path[..]);
            if path != *replace.path && stamp.is_none() {
                note(&path, ConflictKind::Made);
            } else if stat.is_dir() {
                let names = self.base.names(&path).map_err(fail)?;
                todo.extend(names.iter().map(|name| join(&path, name)));
            } else if self.is_written(&path, &stat, stamp.copied().flatten())? {
                note(&path, ConflictKind::Changed);
            }
        }
        Ok(())
    }

    /// Whether a file that the commit made was written since, or changed after it was done (R2).
    fn is_written(
        &self,
        path: &[u8],
        stat: &FileStat,
        stamp: Option<&Stamp>,
    ) -> Result<bool, Refusal> {
        // A further name of an existing file: data that is written to it stays under the other
        // names.
        if self.is_link(&stat.id()) {
            return Ok(false);
        }
        if stat.nlink == 1 && self.journal.done.is_some_and(|done| stat.ctime > done) {
            return Ok(true);
        }
        if let Some(stamp) = stamp {
            return Ok(!self.is_as_made(path, stamp)?);
        }
        // A journal of an older version.
        let came_with = self.stat_in_view(path)?.map(|source| source.mtime);
        let early = nanoseconds(self.journal.began) - COARSEST;
        let since = early <= nanoseconds(stat.mtime) && stat.mtime <= now();
        Ok(since && came_with != Some(stat.mtime))
    }

    /// Whether a file is as the commit made it; one that is gone is not.
    pub(crate) fn is_as_made(&self, path: &[u8], stamp: &Stamp) -> Result<bool, Refusal> {
        let fail = |why| failed(path, why);
        match self.base.hold(path).map_err(fail)? {
            Some(held) => stamp.matches(&held).map_err(fail),
            None => Ok(false),
        }
    }

    /// Records changes by others to files that an interrupted commit has in place (R4).
    ///
    /// # Errors
    /// The real tree cannot be read, or the journal not be written.
    pub(crate) fn record_edits(&mut self, state: State) -> Result<(), Refusal> {
        let found = self.changes_since_interruption(state)?;
        let known: HashSet<&[u8]> = self.journal.edited.iter().map(|path| &**path).collect();
        let new = found.iter().map(|conflict| conflict.path.bytes());
        let new = new.filter(|path| !known.contains(path)).map(Bytes::from);
        let new: Vec<_> = new.collect();
        if new.is_empty() {
            return Ok(());
        }
        self.journal.edited.extend(new);
        self.commit_dir.write(&self.journal)
    }

    /// The file of the view at a path, in its place or moved out.
    fn stat_in_view(&self, path: &[u8]) -> Result<Option<FileStat>, Refusal> {
        let fail = |why| failed(path, why);
        if let Some(stat) = self.upper.stat(path).map_err(fail)? {
            return Ok(Some(stat));
        }
        for (number, cleanup) in self.journal.cleanups.iter().enumerate() {
            if let UpperCleanup::MoveOut(top) = cleanup
                && is_below(path, top)
            {
                let taken = [&store_path("view", number), &path[top.len()..]].concat();
                return self.store.stat(&taken).map_err(fail);
            }
        }
        Ok(None)
    }
}
