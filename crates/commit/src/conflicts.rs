// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conflicts of a commit: changes by others to the real tree since the view took its files.
//! `baseline` has the rules.

use crate::baseline::Baseline;
use crate::change::ChangeKind;
use crate::file_stat::{FileStat, Time};
use crate::messages::{failed, public_path};
use crate::names::join;
use crate::path_bytes::PathBytes;
use crate::refusal::Refusal;
use crate::scan::{Entry, EntryKind, Scan};
use crate::selection::Selection;
use crate::tree::Tree;

/// What others did to a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConflictKind {
    /// They changed it.
    Changed,
    /// They made it, where the view has a file of its own.
    Made,
    /// They removed it.
    Removed,
}

/// A path that the view changed and others as well.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Conflict {
    /// The path in the view.
    pub path: PathBytes,
    /// The path in the real tree now.
    pub place: PathBytes,
    /// What others did to it.
    pub kind: ConflictKind,
    /// The view never saw it, and its directory would be removed by a commit or a rollback: force
    /// does not remove it.
    pub unseen: bool,
    /// The view changed it since the commit that is to be undone; the real file is as it was
    /// committed.
    pub in_view: bool,
}

impl Baseline {
    /// Whether a time is later than the view took an entry.
    pub(crate) fn changed_after(&self, entry: &Entry, time: Time) -> bool {
        self.is_later((&entry.path, entry.taken()), time)
    }

    /// All conflicts of the selected entries.
    pub(crate) fn conflicts(
        &self,
        base: &Tree,
        scan: &Scan,
        selection: &Selection,
    ) -> Result<Vec<Conflict>, Refusal> {
        let mut found = Vec::new();
        for (at, entry) in scan.entries.iter().enumerate() {
            if selection.includes(at) {
                self.note_entry(base, scan, entry, &mut found)?;
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found.dedup_by(|a, b| a.path == b.path);
        Ok(found)
    }

    fn note_entry(
        &self,
        base: &Tree,
        scan: &Scan,
        entry: &Entry,
        found: &mut Vec<Conflict>,
    ) -> Result<(), Refusal> {
        let mut note = |path: &[u8], place: &[u8], kind, unseen| {
            found.push(Conflict {
                path: public_path(path),
                place: public_path(place),
                kind,
                unseen,
                in_view: false,
            });
        };
        if let (EntryKind::File | EntryKind::Lost, Some(here), Some(place)) =
            (entry.entry_kind, &entry.here, &entry.place)
            && here.is_dir()
            && !scan.sources.contains(place)
        {
            self.note_below(base, scan, entry, (place, here), &mut note)?;
        }
        let at = entry.place.as_ref().unwrap_or(&entry.path);
        let here = match (&entry.place, &entry.here) {
            (Some(place), Some(here)) if !scan.sources.contains(place) => Some((place, here)),
            _ => None,
        };
        match (entry.entry_kind, here) {
            (EntryKind::Lost, _) => note(&entry.path, at, ConflictKind::Removed, false),
            (EntryKind::File, here) if entry.kind.is_some() => {
                self.note_file(base, scan, (entry, here), &mut note)?;
            }
            (EntryKind::Whiteout | EntryKind::New, Some((place, here))) => {
                self.note_removed(base, scan, entry, (place, here), &mut note)?;
            }
            (EntryKind::Both, Some((place, here))) if !is_alike(base, entry, place, here)? => {
                note(&entry.path, place, self.what_happened(entry, here), false);
            }
            (EntryKind::Merged, here) => {
                if let (true, Some(here)) = (entry.is_moved(), here) {
                    self.note_removed(base, scan, entry, here, &mut note)?;
                }
                // R5
                let both = |stat: &FileStat| match entry.sides {
                    Some(sides) => sides.upper && sides.lower,
                    None => self.changed_after(entry, stat.ctime),
                };
                if let Some((real, stat)) = &entry.beneath
                    && both(stat)
                    && !is_alike(base, entry, real, stat)?
                {
                    note(&entry.path, real, ConflictKind::Changed, false);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Records changes by others where the view has a file other than a directory.
    fn note_file(
        &self,
        base: &Tree,
        scan: &Scan,
        (entry, here): (&Entry, Option<(&Vec<u8>, &FileStat)>),
        note: &mut impl FnMut(&[u8], &[u8], ConflictKind, bool),
    ) -> Result<(), Refusal> {
        let at = entry.place.as_ref().unwrap_or(&entry.path);
        // A copy without its source, where none was moved to.
        let dir = &scan.entries[entry.parent];
        let impure = dir.upper_file.mark("impure").is_some() || dir.entry_kind == EntryKind::Both;
        let copied = entry.upper_file.mark("ino").is_some()
            && entry.upper_file.stat.nlink == 1
            && entry.place.is_some()
            && !impure;
        match (here, &entry.kind) {
            (Some((_, here)), _) if here.is_dir() => {}
            (Some((place, here)), _) => {
                if self.changed_after(entry, here.ctime) && !is_alike(base, entry, place, here)? {
                    note(&entry.path, place, self.what_happened(entry, here), false);
                }
            }
            (None, Some(ChangeKind::Added)) if copied => {
                note(&entry.path, at, ConflictKind::Removed, false);
            }
            (None, _) => {}
        }
        if let Some(ChangeKind::Renamed { from }) = &entry.kind {
            let source = base.stat(from.bytes());
            let source = source.map_err(|why| failed(from.bytes(), why))?;
            if source.is_some_and(|source| self.changed_after(entry, source.ctime)) {
                note(&entry.path, from.bytes(), ConflictKind::Changed, false);
            }
        }
        Ok(())
    }

    /// Records changes by others to a file that is to be removed.
    fn note_removed(
        &self,
        base: &Tree,
        scan: &Scan,
        entry: &Entry,
        (place, here): (&Vec<u8>, &FileStat),
        note: &mut impl FnMut(&[u8], &[u8], ConflictKind, bool),
    ) -> Result<(), Refusal> {
        if here.is_dir() {
            return self.note_below(base, scan, entry, (place, here), note);
        }
        if self.changed_after(entry, here.ctime) {
            note(&entry.path, place, self.what_happened(entry, here), false);
        }
        Ok(())
    }

    /// Whether a file was made since, or changed.
    fn what_happened(&self, entry: &Entry, here: &FileStat) -> ConflictKind {
        match here.btime {
            Some(born) if self.changed_after(entry, born) => ConflictKind::Made,
            _ => ConflictKind::Changed,
        }
    }

    /// Records all changes in a directory of the real tree that is to be removed, except for
    /// directories that move out of it (R4).
    fn note_below(
        &self,
        base: &Tree,
        scan: &Scan,
        entry: &Entry,
        (dir, here): (&[u8], &FileStat),
        note: &mut impl FnMut(&[u8], &[u8], ConflictKind, bool),
    ) -> Result<(), Refusal> {
        if here
            .btime
            .is_some_and(|born| self.changed_after(entry, born))
        {
            note(dir, dir, ConflictKind::Made, false);
        }
        let mut dirs = vec![(dir.to_vec(), self.changed_after(entry, here.mtime))];
        // `came`: names came or went in the directory since.
        while let Some((dir, came)) = dirs.pop() {
            for name in base.names(&dir).map_err(|why| failed(&dir, why))? {
                let path = join(&dir, &name);
                let stat = base.stat(&path).map_err(|why| failed(&path, why))?;
                let Some(stat) = stat.filter(|_| !scan.sources.contains(&path)) else {
                    continue;
                };
                let born = stat
                    .btime
                    .is_none_or(|born| self.changed_after(entry, born));
                let changed = self.changed_after(entry, stat.ctime);
                let unseen = changed && (came || born);
                if stat.is_dir() && !unseen {
                    dirs.push((path, self.changed_after(entry, stat.mtime)));
                } else if changed {
                    note(&path, &path, self.what_happened(entry, &stat), unseen);
                }
            }
        }
        Ok(())
    }
}

/// R3
fn is_alike(base: &Tree, entry: &Entry, place: &[u8], here: &FileStat) -> Result<bool, Refusal> {
    if !matches!(entry.kind, None | Some(ChangeKind::Attributes))
        && entry.entry_kind == EntryKind::File
    {
        return Ok(false);
    }
    let fail = |why| failed(place, why);
    let Some(held) = base.hold(place).map_err(fail)? else {
        return Ok(false);
    };
    let theirs = held.attributes().map_err(fail)?;
    Ok(held.stat.ino == here.ino && theirs.same(&entry.upper_file.attributes))
}
