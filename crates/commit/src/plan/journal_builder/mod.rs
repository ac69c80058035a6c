// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the journal of a commit, which has all its steps, from the selected entries of a view's
//! upper tree.
//!
//! # Rules
//! R1. Directories that move wait under hidden names where no directory above them is removed,
//!     those deepest in the tree first. All replacements follow by path, so that a directory is in
//!     its place before its entries are.
//! R2. If only the attributes of a file change, it is changed in place, unless the real tree has
//!     further names for it, which the view shows unchanged. A file that gets another owner, or has
//!     or gets set-id bits or capabilities, is replaced by a copy of the view's. The owner of the
//!     old one may write it at any time, also through a descriptor that was opened before.
//! R3. A directory gets the time that the view shows if all of it was committed and no one else
//!     changed it since.
//! R4. A directory gets attributes only if the view changed them: differences to the real tree
//!     since its copy was made are not, whatever others did beneath.
//! R5. A file that the kernel's overlay copied up keeps the attributes that have names of marks.
//!     The kernel copies up none of them, and shows none.

mod dirs;
mod moves;

use crate::attributes::clock::file_clock;
use crate::attributes::file_stat::{FileStat, InodeId};
use crate::attributes::xattrs::Xattrs;
use crate::host::held_file::HeldFile;
use crate::host::names::{join, split};
use crate::host::tree::Tree;
use crate::journal::snapshot::Snapshot;
use crate::journal::{Bytes, Journal, Link, Replace, SetAttrs, UpperCleanup, boot};
use crate::plan::selection::Selection;
use crate::report::change::{Change, ChangeKind};
use crate::report::messages::{changed_meanwhile, failed, shown};
use crate::report::phase::Looker;
use crate::report::refusal::Refusal;
use crate::scan::baseline::Baseline;
use crate::scan::{Entry, EntryKind, Scan};
use openpath_abi::mode;
use openpath_overlay::{Marks, origin_number};
use std::collections::HashMap;

/// The input of a journal.
pub(crate) struct JournalBuilder<'a> {
    pub(crate) base: &'a Tree,
    pub(crate) scan: &'a Scan,
    pub(crate) selection: &'a Selection,
    pub(crate) baseline: &'a Baseline,
    journal: Journal,
    /// Replacements of entries that are made with all that is in them.
    roots: HashMap<usize, usize>,
    next: usize,
}

impl<'a> JournalBuilder<'a> {
    /// All steps of a commit.
    pub(crate) fn build(
        (base, scan, selection, baseline): (&'a Tree, &'a Scan, &'a Selection, &'a Baseline),
        id: String,
        looker: &mut Looker<'_>,
    ) -> Result<Journal, Refusal> {
        let mut builder = JournalBuilder {
            base,
            scan,
            selection,
            baseline,
            journal: Journal {
                id,
                changes: Vec::new(),
                moves: Vec::new(),
                replacements: Vec::new(),
                set_attrs: Vec::new(),
                mtimes: Vec::new(),
                cleanups: Vec::new(),
                links: Vec::new(),
                before: Vec::new(),
                after: Vec::new(),
                boot: boot(),
                began: file_clock(),
                opened: Vec::new(),
                contested: Vec::new(),
                edited: Vec::new(),
                any_owner: false,
                done: None,
            },
            roots: HashMap::new(),
            next: 0,
        };
        for (at, entry) in scan.entries.iter().enumerate() {
            looker.next();
            if selection.includes(at) {
                builder.add_entry(at, entry)?;
            }
        }
        builder.plan_staging()?;
        let journal = &mut builder.journal;
        journal.moves.sort_by_key(|moved| {
            let depth = moved.from.iter().filter(|byte| **byte == b'/').count();
            std::cmp::Reverse(depth)
        });
        // No two have one path. A stable sort would need room for a second list.
        journal
            .replacements
            .sort_unstable_by(|a, b| a.path.cmp(&b.path));
        builder.add_mtimes();
        builder.record_dirs();
        builder.add_cleanups();
        Ok(builder.journal)
    }

    fn add_entry(&mut self, at: usize, entry: &Entry) -> Result<(), Refusal> {
        match entry.entry_kind {
            EntryKind::Whiteout => {
                if let Some(old) = self.replaced(entry) {
                    self.add_replace(entry, None, Some(old.id()), Vec::new())?;
                }
            }
            EntryKind::File => self.add_file(entry)?,
            EntryKind::New | EntryKind::Lost => self.add_new_dir(at, entry)?,
            EntryKind::Merged | EntryKind::Both => {
                if entry.is_moved() {
                    self.add_move(entry)?;
                }
                self.add_dir_attrs(entry)?;
            }
        }
        Ok(())
    }

    fn add_file(&mut self, entry: &Entry) -> Result<(), Refusal> {
        let stat = &entry.upper_file.stat;
        let here = entry.here.as_ref();
        let alone = here.filter(|here| here.nlink == 1);
        let in_place = self.hold_in_place(entry, alone)?;
        if let (true, Some(here), Some(place)) = (stat.nlink > 1, alone, &entry.place)
            && (entry.kind.is_none() || in_place.is_some())
        {
            // Further names are names of the existing file. A link moves its time of change, which
            // other names of a file that has several would show as a change by others.
            if mode::file_type(here.mode) == mode::file_type(stat.mode) {
                self.journal.links.push(Link {
                    number: stat.ino,
                    place: place.clone(),
                    id: here.id(),
                    path: entry.path.clone(),
                });
            }
        }
        match (&entry.kind, in_place, &entry.place) {
            (None, ..) => Ok(()),
            (_, Some(held), Some(place)) => self.add_attrs(entry, place, &held),
            // R2
            _ => self.add_item(entry).map(drop),
        }
    }

    /// Adds a new file or directory to the replacement that its directory is part of, or as one of
    /// its own; gives the replacement.
    fn add_item(&mut self, entry: &Entry) -> Result<usize, Refusal> {
        if let Some(root) = self.roots.get(&entry.parent) {
            let replacement = &mut self.journal.replacements[*root];
            replacement.items.push(entry.path.clone());
            return Ok(*root);
        }
        let old = self.replaced(entry).map(FileStat::id);
        let items = vec![entry.path.clone()];
        let kept = self.kept_marks(entry)?;
        let at = self.add_replace(entry, Some(InodeId::default()), old, items)?;
        self.journal.replacements[at].kept = kept;
        Ok(at)
    }

    /// The attributes of a replaced file that the view does not show (R5).
    fn kept_marks(&self, entry: &Entry) -> Result<Xattrs, Refusal> {
        let origin = entry.upper_file.mark("origin").and_then(origin_number);
        match (self.replaced(entry), &entry.place) {
            (Some(here), Some(place)) if here.is_file() && origin == Some(here.ino) => {
                let held = self.hold(&entry.path, place, here)?;
                let all = Xattrs::read(&held.path()).map_err(|why| failed(place, why))?;
                let (marks, own) = (self.scan.marks, entry.upper_file.attributes().xattrs);
                let pairs = all.iter().filter(|(name, _)| !own.contains_key(name));
                let kept = pairs.filter(|(name, _)| marks.shown_name(name).is_none());
                Ok(kept
                    .map(|(name, value)| (name.into(), value.into()))
                    .collect())
            }
            _ => Ok(Xattrs::default()),
        }
    }

    /// Holds the file of the real tree if an entry changes it in place (R2).
    fn hold_in_place(
        &self,
        entry: &Entry,
        alone: Option<&FileStat>,
    ) -> Result<Option<HeldFile>, Refusal> {
        let (Some(ChangeKind::Attributes), Some(here), Some(place)) =
            (&entry.kind, alone, &entry.place)
        else {
            return Ok(None);
        };
        let held = self.hold(&entry.path, place, here)?;
        let before = held.attributes().map_err(|why| failed(&entry.path, why))?;
        let rights = before.gains_rights(&entry.upper_file.attributes());
        Ok(Some(held).filter(|_| !rights))
    }

    /// A directory with nothing beneath it.
    fn add_new_dir(&mut self, at: usize, entry: &Entry) -> Result<(), Refusal> {
        let root = self.add_item(entry)?;
        self.roots.insert(at, root);
        Ok(())
    }

    /// The file of the real tree that an entry replaces.
    fn replaced<'e>(&self, entry: &'e Entry) -> Option<&'e FileStat> {
        let place = entry.place.as_ref()?;
        let here = entry.here.as_ref()?;
        (!self.scan.sources.contains(place)).then_some(here)
    }

    /// A replacement for an entry of a directory that is in the real tree.
    fn add_replace(
        &mut self,
        entry: &Entry,
        new: Option<InodeId>,
        old: Option<InodeId>,
        items: Vec<Bytes>,
    ) -> Result<usize, Refusal> {
        let hidden = self.hidden_name();
        let place = entry.place.as_ref();
        let place =
            place.ok_or_else(|| Refusal::system(format!("{} is nowhere", shown(&entry.path))))?;
        let snapshot = self.snapshot(entry)?;
        let before: Bytes = join(split(place).0, &hidden).into();
        let replacements = &mut self.journal.replacements;
        replacements.push(Replace {
            path: entry.path.clone(),
            hidden: match *place == entry.path {
                true => before.clone(),
                false => join(split(&entry.path).0, &hidden).into(),
            },
            before,
            new,
            old,
            copy: None,
            items,
            kept: Xattrs::default(),
            stamps: Vec::new(),
            snapshot,
        });
        Ok(replacements.len() - 1)
    }

    /// A snapshot of the files under an entry's name, except those that move away.
    fn snapshot(&self, entry: &Entry) -> Result<Option<(Bytes, Snapshot)>, Refusal> {
        let sources = &self.scan.sources;
        match entry
            .place
            .as_ref()
            .filter(|place| !sources.contains(*place))
        {
            Some(place) => {
                let leaves = |path: &[u8]| sources.contains(path);
                // As the scan saw it, on which the conflicts are based.
                let seen = (&place[..], entry.here.clone());
                let snapshot = Snapshot::take_of(self.base, seen, &leaves)?;
                Ok(Some((place.clone(), snapshot)))
            }
            None => Ok(None),
        }
    }

    /// R4
    fn add_dir_attrs(&mut self, entry: &Entry) -> Result<(), Refusal> {
        match entry.beneath() {
            Some(_) if entry.sides.is_some_and(|sides| !sides.upper) => Ok(()),
            Some((real, stat)) => {
                let held = self.hold(&entry.path, real, stat)?;
                self.add_attrs(entry, real, &held)
            }
            None => Ok(()),
        }
    }

    /// Holds the file at `real`, which must be the one that the scan saw.
    fn hold(&self, path: &[u8], real: &[u8], stat: &FileStat) -> Result<HeldFile, Refusal> {
        let held = self.base.hold(real).map_err(|why| failed(path, why))?;
        let held = held.filter(|held| held.id().matches(&stat.id()));
        held.ok_or_else(|| changed_meanwhile(real))
    }

    /// Gives `held`, at `real`, the attributes of an entry, if they are not what it has.
    fn add_attrs(&mut self, entry: &Entry, real: &Bytes, held: &HeldFile) -> Result<(), Refusal> {
        let path = &entry.path;
        let before = held.attributes().map_err(|why| failed(path, why))?;
        let (mut after, marks) = (entry.upper_file.attributes(), self.scan.marks);
        // Its times are set last (`add_mtimes`), and names that others made or removed in it since
        // the scan are no change of this view.
        if entry.upper_file.stat.is_dir() {
            (after.atime, after.mtime) = (held.stat.atime, held.stat.mtime);
        }
        // R5
        if marks == Marks::User || entry.upper_file.mark("origin").is_some() {
            let all = before.xattrs.iter();
            for (name, value) in all.filter(|(name, _)| marks.shown_name(name).is_none()) {
                after.xattrs.insert(name, value);
            }
        }
        if !before.same(&after) || before.mtime != after.mtime {
            self.journal.set_attrs.push(SetAttrs {
                path: path.clone(),
                place: real.clone(),
                id: held.id(),
                ctime: held.stat.ctime,
                before,
                after,
            });
        }
        Ok(())
    }

    /// A name that no file has.
    fn hidden_name(&mut self) -> Vec<u8> {
        self.next += 1;
        format!(".openpath-{}-{}", self.journal.id, self.next).into_bytes()
    }

    /// Adds the cleanups of the upper tree: whole directories by one name.
    fn add_cleanups(&mut self) {
        let covered = &self.selection.covered;
        for (at, entry) in self.scan.entries.iter().enumerate().skip(1) {
            let top = entry.parent == 0 || !covered[entry.parent];
            let cleanup = if covered[at] && top {
                UpperCleanup::MoveOut(entry.path.clone())
            } else if self.selection.needed[at] {
                UpperCleanup::ClearOpaque(entry.path.clone())
            } else if matches!(entry.entry_kind, EntryKind::New | EntryKind::Both)
                && self.selection.needed[entry.parent]
                && !covered[at]
            {
                UpperCleanup::MakeOpaque(entry.path.clone())
            } else {
                continue;
            };
            self.journal.cleanups.push(cleanup);
        }
    }

    /// The changes of a view that are committed. A name without an entry went with a directory that
    /// an entry replaces.
    pub(crate) fn committed_changes(
        scan: &Scan,
        selection: &Selection,
        all: Vec<Change>,
    ) -> Vec<Change> {
        let entries = scan.entries.iter().enumerate();
        let entries: HashMap<&[u8], (usize, EntryKind)> = entries
            .map(|(at, entry)| (&entry.path[..], (at, entry.entry_kind)))
            .collect();
        let goes = |change: &Change| {
            let path = change.path.bytes();
            let mut at = path.strip_suffix(b"/").unwrap_or(path);
            let is_entry = entries.contains_key(at);
            loop {
                match entries.get(at) {
                    Some((at, is)) => {
                        return selection.includes(*at) && (is_entry || *is != EntryKind::Both);
                    }
                    None if at.is_empty() => return false,
                    None => at = split(at).0,
                }
            }
        };
        all.into_iter().filter(goes).collect()
    }
}
