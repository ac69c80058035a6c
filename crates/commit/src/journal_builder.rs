// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the journal of a commit from the entries of a view.
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

use crate::baseline::Baseline;
use crate::change::{Change, ChangeKind};
use crate::file_stat::{FileStat, InodeId, Time};
use crate::held_file::HeldFile;
use crate::journal::{
    Bytes, Journal, Link, Move, Replace, RestoreMtime, SetAttrs, UpperCleanup, boot,
};
use crate::messages::{changed_meanwhile, failed, shown};
use crate::names::{join, split};
use crate::phase::Looker;
use crate::refusal::{Refusal, RefusalKind};
use crate::scan::{Entry, EntryKind, Scan};
use crate::selection::{Selection, alters_real_tree};
use crate::snapshot::Snapshot;
use crate::tree::Tree;
use openpath_abi::mode;
use openpath_overlay::Marks;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The time that the kernel gives to a file made now.
fn file_clock() -> Time {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    (now.tv_sec, u32::try_from(now.tv_nsec).unwrap_or(0))
}

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
            // Further names are names of the existing file.
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
        self.add_replace(entry, Some(InodeId::default()), old, items)
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
            stamps: Vec::new(),
            snapshot,
        });
        Ok(replacements.len() - 1)
    }

    fn add_move(&mut self, entry: &Entry) -> Result<(), Refusal> {
        let Some((from, stat)) = entry.beneath() else {
            return Ok(());
        };
        self.journal.moves.push(Move {
            from: from.clone(),
            to: entry.path.clone(),
            stage: Rc::from([]),
            id: stat.id(),
        });
        let old = self.replaced(entry).map(FileStat::id);
        let snapshot = self.snapshot(entry)?;
        self.journal.replacements.push(Replace {
            path: entry.path.clone(),
            hidden: Rc::from([]),
            before: Rc::from([]),
            new: Some(stat.id()),
            old,
            copy: None,
            items: Vec::new(),
            stamps: Vec::new(),
            snapshot,
        });
        Ok(())
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
                let snapshot = Snapshot::take(self.base, place, &leaves)?;
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
        // The kernel copies up no attributes with the names of marks, and shows none.
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

    /// Finds staging paths for directories that move (R1).
    fn plan_staging(&mut self) -> Result<(), Refusal> {
        let mut going: HashSet<Bytes> = self.scan.sources.clone();
        for (at, entry) in self.scan.entries.iter().enumerate() {
            let leaves =
                self.selection.includes(at) && alters_real_tree(entry) && entry.here.is_some();
            going.extend(entry.place.clone().filter(|_| leaves));
        }
        let replacements = self.journal.replacements.iter().enumerate();
        let replacements: HashMap<Bytes, usize> = replacements
            .map(|(at, replace)| (replace.path.clone(), at))
            .collect();
        let entries = self.scan.entries.iter();
        let entries: HashMap<&[u8], &Entry> =
            entries.map(|entry| (&entry.path[..], entry)).collect();
        for number in 0..self.journal.moves.len() {
            let name = self.hidden_name();
            let (from, to) = {
                let moved = &self.journal.moves[number];
                (moved.from.clone(), moved.to.clone())
            };
            let mut top = &from[..];
            let mut at = &from[..];
            while !at.is_empty() {
                if going.contains(at) {
                    top = at;
                }
                at = split(at).0;
            }
            let above = split(top).0;
            self.check_same_mount(&entries, &from, (above, &to))?;
            let stage: Bytes = join(above, &name).into();
            self.journal.moves[number].stage.clone_from(&stage);
            if let Some(at) = replacements.get(&to) {
                let replace = &mut self.journal.replacements[*at];
                replace.hidden.clone_from(&stage);
                replace.before = stage;
            }
        }
        Ok(())
    }

    /// Refuses a move from one file system to another.
    fn check_same_mount(
        &self,
        entries: &HashMap<&[u8], &Entry>,
        from: &[u8],
        (stage, to): (&[u8], &[u8]),
    ) -> Result<(), Refusal> {
        let mount = |path: &[u8]| {
            let stat = self.base.stat(path).map_err(|why| failed(path, why))?;
            Ok(stat.map(|stat| stat.mount))
        };
        let mut dir = split(to).0;
        let known = loop {
            match entries.get(dir).and_then(|entry| entry.beneath()) {
                Some((_, stat)) => break Some(stat.mount),
                None if dir.is_empty() => break None,
                None => dir = split(dir).0,
            }
        };
        let own = mount(from)?;
        if own == known && own == mount(stage)? && own == mount(split(from).0)? {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalKind::Unsupported,
            format!(
                "{} was renamed to {}, which is on another file system: copy it in the view \
                 instead",
                shown(from),
                shown(to)
            ),
        ))
    }

    /// R3
    fn add_mtimes(&mut self) {
        let mut touched: HashSet<&[u8]> = HashSet::new();
        for replace in &self.journal.replacements {
            touched.insert(split(&replace.before).0);
            touched.insert(split(&replace.path).0);
        }
        for moved in &self.journal.moves {
            touched.insert(split(&moved.from).0);
            touched.insert(split(&moved.stage).0);
        }
        let mut mtimes = Vec::new();
        for (at, entry) in self.scan.entries.iter().enumerate() {
            let shown = entry.upper_file.stat.mtime;
            let Some((real, stat)) = entry.beneath() else {
                // A new directory, into which another one moves.
                if touched.contains(&entry.path[..]) && self.selection.includes(at) {
                    mtimes.push(RestoreMtime {
                        path: entry.path.clone(),
                        path_before: entry.path.clone(),
                        id: None,
                        is_new: true,
                        atime: entry.upper_file.stat.atime,
                        before: shown,
                        after: Some(shown),
                    });
                }
                continue;
            };
            let whole = self.selection.covered[at]
                && entry.is_replaced() != Some(true)
                && !self.baseline.changed_after(entry, stat.mtime);
            let differs = whole && shown != stat.mtime;
            if differs || touched.contains(&real[..]) || touched.contains(&entry.path[..]) {
                mtimes.push(RestoreMtime {
                    path: entry.path.clone(),
                    path_before: real.clone(),
                    id: Some(stat.id()),
                    is_new: false,
                    atime: stat.atime,
                    before: stat.mtime,
                    after: whole.then_some(shown),
                });
            }
        }
        self.journal.mtimes = mtimes;
    }

    /// Records the inodes of the directories in which names change.
    fn record_dirs(&mut self) {
        let journal = &self.journal;
        let replacements = journal.replacements.iter();
        let moves = journal.moves.iter();
        let set_attrs = journal.set_attrs.iter();
        let before: HashSet<&[u8]> = replacements
            .clone()
            .map(|replace| &replace.before)
            .chain(moves.clone().flat_map(|moved| [&moved.from, &moved.stage]))
            .map(|path| split(path).0)
            .collect();
        let after: HashSet<&[u8]> = replacements
            .flat_map(|replace| [&replace.path, &replace.hidden])
            .chain(set_attrs.map(|attrs| &attrs.path))
            .map(|path| split(path).0)
            .collect();
        let (mut real, mut shown) = (Vec::new(), Vec::new());
        for entry in &self.scan.entries {
            let Some((place, stat)) = entry.beneath() else {
                continue;
            };
            if before.contains(&place[..]) {
                real.push((place.clone(), stat.id()));
            }
            if after.contains(&entry.path[..]) {
                shown.push((entry.path.clone(), stat.id()));
            }
        }
        real.sort();
        shown.sort();
        (self.journal.before, self.journal.after) = (real, shown);
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
