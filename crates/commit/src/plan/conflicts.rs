// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the conflicts of a commit: changes by others to the real tree since the view took its
//! files. `baseline` has the rules.

use crate::attributes::file_stat::{FileStat, Time};
use crate::host::names::join;
use crate::host::tree::Tree;
use crate::plan::selection::{Selection, alters_real_tree};
use crate::report::change::ChangeKind;
use crate::report::messages::{failed, public_path};
use crate::report::path_bytes::PathBytes;
use crate::report::refusal::Refusal;
use crate::scan::baseline::Baseline;
use crate::scan::{Entry, EntryKind, Scan};
use crate::stored_bytes::Bytes;

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
    /// They put another directory in its place.
    Replaced,
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

/// What a commit does in a directory, or to it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Use {
    Nothing,
    /// It makes names there.
    Adds,
    /// It changes or removes what is there.
    Takes,
}

impl Use {
    /// The same of a directory that is moved or gets attributes, if `gives`.
    fn with(self, gives: bool) -> Use {
        if gives { Use::Takes } else { self }
    }
}

/// How the selected entries use the directories above them.
fn used_dirs(scan: &Scan, selection: &Selection) -> Vec<Use> {
    let mut used = vec![Use::Nothing; scan.entries.len()];
    for (at, entry) in scan.entries.iter().enumerate() {
        if !selection.includes(at) || !alters_real_tree(entry) {
            continue;
        }
        let what = Use::Adds.with(entry.here.is_some() || entry.is_moved());
        let mut above = entry.parent;
        while used[above] < what {
            used[above] = what;
            above = scan.entries[above].parent;
        }
    }
    used
}

fn conflict((path, place): (&[u8], &[u8]), kind: ConflictKind, unseen: bool) -> Conflict {
    Conflict {
        path: public_path(path),
        place: public_path(place),
        kind,
        unseen,
        in_view: false,
    }
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
        let used = used_dirs(scan, selection);
        let mut replaced = vec![false; scan.entries.len()];
        for (at, entry) in scan.entries.iter().enumerate() {
            replaced[at] = replaced[entry.parent] || entry.is_replaced() == Some(true);
            let included = selection.includes(at);
            if let Some((real, stat)) = entry.beneath() {
                let gives = included
                    && (entry.is_moved()
                        || entry.sides.is_none_or(|sides| sides.upper)
                            && !is_alike(base, entry, real, stat)?);
                if let Some(kind) = self.is_unseen_dir(entry, stat, used[at].with(gives)) {
                    found.push(conflict((&entry.path, real), kind, false));
                }
            }
            if included {
                self.note_entry(base, scan, (entry, replaced[at]), &mut found)?;
            }
        }
        found.sort_by(|a, b| (&a.path, !a.unseen).cmp(&(&b.path, !b.unseen)));
        found.dedup_by(|a, b| a.path == b.path);
        Ok(found)
    }

    /// The directories that others changed since the view took them, and of which the attributes
    /// are not committed. That a commit changes their names does not make the rest known.
    pub(crate) fn changed_dirs<'a>(
        &'a self,
        scan: &'a Scan,
        selection: &'a Selection,
    ) -> impl Iterator<Item = &'a Bytes> {
        let entries = scan.entries.iter().enumerate();
        let changed = entries.filter(|(at, entry)| {
            let is_later = |(_, stat): &(_, FileStat)| self.changed_after(entry, stat.ctime);
            let is_dir = entry.entry_kind == EntryKind::Merged;
            is_dir && !selection.includes(*at) && entry.beneath().is_some_and(is_later)
        });
        changed.flat_map(|(_, entry)| {
            [Some(&entry.path), entry.place.as_ref()]
                .into_iter()
                .flatten()
        })
    }

    fn note_entry(
        &self,
        base: &Tree,
        scan: &Scan,
        (entry, in_replaced): (&Entry, bool),
        found: &mut Vec<Conflict>,
    ) -> Result<(), Refusal> {
        let mut note = |path: &[u8], place: &[u8], kind, unseen| {
            found.push(conflict((path, place), kind, unseen));
        };
        if let (Some(here), Some(place), None) = (&entry.here, &entry.place, entry.beneath())
            && in_replaced
            && here.is_dir()
            && !scan.sources.contains(place)
        {
            // The view saw neither the directory nor what is in it.
            note(&entry.path, place, ConflictKind::Replaced, true);
        }
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
                if let Some((real, stat)) = entry.beneath()
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
        (entry, here): (&Entry, Option<(&Bytes, &FileStat)>),
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
            (None, Some(ChangeKind::Added)) if copied || self.lost_source(entry, dir) => {
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

    /// Whether others may have removed the file that the kernel's overlay copied here. The copy
    /// does not tell its first name; without a change of the directory the view has moved it.
    fn lost_source(&self, entry: &Entry, dir: &Entry) -> bool {
        let by_kernel = entry.upper_file.mark("origin").is_some();
        let changed = |real: &FileStat| self.changed_after(entry, real.ctime);
        by_kernel
            && entry.upper_file.mark("ino").is_none()
            && dir.beneath().is_some_and(|(_, real)| changed(real))
    }

    /// Records changes by others to a file that is to be removed.
    fn note_removed(
        &self,
        base: &Tree,
        scan: &Scan,
        entry: &Entry,
        (place, here): (&Bytes, &FileStat),
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

    /// Whether a lower directory that the commit uses may be another one than the view saw (R6).
    fn is_unseen_dir(&self, entry: &Entry, stat: &FileStat, used: Use) -> Option<ConflictKind> {
        let (found, kind) = match entry.is_replaced() {
            Some(replaced) => (replaced && used >= Use::Adds, ConflictKind::Replaced),
            None => {
                let merges = entry.entry_kind == EntryKind::Both;
                let doubt = !merges && self.changed_after(entry, stat.ctime);
                (doubt && used == Use::Takes, ConflictKind::Changed)
            }
        };
        found.then_some(kind)
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
        let mut found = false;
        // `came`: names may have come or gone in the directory since. Others can set its
        // modification time, but not its time of change, which a rename into it moves, and which a
        // rename gives to what it moves.
        let since = self.changed_after(entry, here.ctime);
        let mut dirs = vec![(dir.to_vec(), since)];
        while let Some((dir, came)) = dirs.pop() {
            for name in base.names(&dir).map_err(|why| failed(&dir, why))? {
                let path = join(&dir, &name);
                let stat = base.stat(&path).map_err(|why| failed(&path, why))?;
                let Some(stat) = stat.filter(|_| !scan.sources.contains(&path[..])) else {
                    continue;
                };
                let born = stat
                    .btime
                    .is_none_or(|born| self.changed_after(entry, born));
                let changed = self.changed_after(entry, stat.ctime);
                let unseen = changed && (came || born);
                if stat.is_dir() && !unseen {
                    dirs.push((path, changed));
                } else if changed {
                    found = true;
                    note(&path, &path, self.what_happened(entry, &stat), unseen);
                }
            }
        }
        if since && !found {
            // Another directory may have been moved here, with all that is in it.
            note(dir, dir, ConflictKind::Changed, false);
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
    Ok(held.stat.ino == here.ino && theirs.same(&entry.upper_file.attributes()))
}
