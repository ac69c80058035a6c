// SPDX-License-Identifier: MIT OR Apache-2.0
//! What others did to the real tree since the view took it: the conflicts of a commit. `since` has
//! the rules.

use crate::change::Kind;
use crate::choice::Choice;
use crate::facts::{Facts, Time};
use crate::messages::{failed, told};
use crate::names::join;
use crate::path_bytes::PathBytes;
use crate::refusal::Refusal;
use crate::scan::{Entry, Is, Scan};
use crate::since::Since;
use crate::tree::Tree;

/// What others did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Did {
    /// They changed it.
    Changed,
    /// They made it, where the view has something of its own.
    Made,
    /// They removed it.
    Removed,
}

/// A path that the view changed and others as well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// Where, in the view.
    pub path: PathBytes,
    /// Where that is in the real tree now.
    pub place: PathBytes,
    /// What others did.
    pub did: Did,
    /// The view never saw it, and its directory is to go, by a commit or by taking one back: force
    /// does not remove it.
    pub unseen: bool,
    /// The view changed it since its commit, which is to be undone; the real file is as it was
    /// committed.
    pub in_view: bool,
}

impl Since {
    /// Whether a time is later than the view took an entry.
    pub(crate) fn later(&self, entry: &Entry, time: Time) -> bool {
        self.is_later((&entry.path, entry.taken()), time)
    }

    /// All conflicts of what is chosen.
    pub(crate) fn conflicts(
        &self,
        base: &Tree,
        scan: &Scan,
        choice: &Choice,
    ) -> Result<Vec<Conflict>, Refusal> {
        let mut found = Vec::new();
        for (at, entry) in scan.entries.iter().enumerate() {
            if choice.goes(at) {
                self.entry(base, scan, entry, &mut found)?;
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found.dedup_by(|a, b| a.path == b.path);
        Ok(found)
    }

    fn entry(
        &self,
        base: &Tree,
        scan: &Scan,
        entry: &Entry,
        found: &mut Vec<Conflict>,
    ) -> Result<(), Refusal> {
        let mut note = |path: &[u8], place: &[u8], did, unseen| {
            found.push(Conflict {
                path: told(path),
                place: told(place),
                did,
                unseen,
                in_view: false,
            });
        };
        if let (Is::File | Is::Lost, Some(here), Some(place)) =
            (entry.is, &entry.here, &entry.place)
            && here.is_dir()
            && !scan.sources.contains(place)
        {
            self.below(base, scan, entry, (place, here), &mut note)?;
        }
        let at = entry.place.as_ref().unwrap_or(&entry.path);
        let here = match (&entry.place, &entry.here) {
            (Some(place), Some(here)) if !scan.sources.contains(place) => Some((place, here)),
            _ => None,
        };
        match (entry.is, here) {
            (Is::Lost, _) => note(&entry.path, at, Did::Removed, false),
            (Is::File, here) if entry.kind.is_some() => {
                self.file(base, scan, (entry, here), &mut note)?;
            }
            (Is::Whiteout | Is::New, Some((place, here))) => {
                self.displaced(base, scan, entry, (place, here), &mut note)?;
            }
            (Is::Both, Some((place, here))) if !alike(base, entry, place, here)? => {
                note(&entry.path, place, self.how(entry, here), false);
            }
            (Is::Merged, here) => {
                if let (true, Some(here)) = (entry.is_moved(), here) {
                    self.displaced(base, scan, entry, here, &mut note)?;
                }
                // R5
                let both = |facts: &Facts| match entry.sides {
                    Some(sides) => sides.upper && sides.lower,
                    None => self.later(entry, facts.ctime),
                };
                if let Some((real, facts)) = &entry.beneath
                    && both(facts)
                    && !alike(base, entry, real, facts)?
                {
                    note(&entry.path, real, Did::Changed, false);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Notes what others did where the view has something that is no directory.
    fn file(
        &self,
        base: &Tree,
        scan: &Scan,
        (entry, here): (&Entry, Option<(&Vec<u8>, &Facts)>),
        note: &mut impl FnMut(&[u8], &[u8], Did, bool),
    ) -> Result<(), Refusal> {
        let at = entry.place.as_ref().unwrap_or(&entry.path);
        // A copy without what it was made from, where none was moved to.
        let dir = &scan.entries[entry.parent];
        let impure = dir.noted.mark("impure").is_some() || dir.is == Is::Both;
        let copied = entry.noted.mark("ino").is_some()
            && entry.noted.facts.nlink == 1
            && entry.place.is_some()
            && !impure;
        match (here, &entry.kind) {
            (Some((_, here)), _) if here.is_dir() => {}
            (Some((place, here)), _) => {
                if self.later(entry, here.ctime) && !alike(base, entry, place, here)? {
                    note(&entry.path, place, self.how(entry, here), false);
                }
            }
            (None, Some(Kind::Added)) if copied => {
                note(&entry.path, at, Did::Removed, false);
            }
            (None, _) => {}
        }
        if let Some(Kind::Renamed { from }) = &entry.kind {
            let source = base.look(from.bytes());
            let source = source.map_err(|why| failed(from.bytes(), why))?;
            if source.is_some_and(|source| self.later(entry, source.ctime)) {
                note(&entry.path, from.bytes(), Did::Changed, false);
            }
        }
        Ok(())
    }

    /// Notes what changed of what is to go.
    fn displaced(
        &self,
        base: &Tree,
        scan: &Scan,
        entry: &Entry,
        (place, here): (&Vec<u8>, &Facts),
        note: &mut impl FnMut(&[u8], &[u8], Did, bool),
    ) -> Result<(), Refusal> {
        if here.is_dir() {
            return self.below(base, scan, entry, (place, here), note);
        }
        if self.later(entry, here.ctime) {
            note(&entry.path, place, self.how(entry, here), false);
        }
        Ok(())
    }

    /// Whether what is there was made since, or changed.
    fn how(&self, entry: &Entry, here: &Facts) -> Did {
        match here.btime {
            Some(born) if self.later(entry, born) => Did::Made,
            _ => Did::Changed,
        }
    }

    /// Notes all that changed in a directory of the real tree that is to go, but for what moves out
    /// of it (R4).
    fn below(
        &self,
        base: &Tree,
        scan: &Scan,
        entry: &Entry,
        (dir, here): (&[u8], &Facts),
        note: &mut impl FnMut(&[u8], &[u8], Did, bool),
    ) -> Result<(), Refusal> {
        if here.btime.is_some_and(|born| self.later(entry, born)) {
            note(dir, dir, Did::Made, false);
        }
        let mut dirs = vec![(dir.to_vec(), self.later(entry, here.mtime))];
        // `came`: names came or went in the directory since.
        while let Some((dir, came)) = dirs.pop() {
            for name in base.names(&dir).map_err(|why| failed(&dir, why))? {
                let path = join(&dir, &name);
                let facts = base.look(&path).map_err(|why| failed(&path, why))?;
                let Some(facts) = facts.filter(|_| !scan.sources.contains(&path)) else {
                    continue;
                };
                let born = facts.btime.is_none_or(|born| self.later(entry, born));
                let changed = self.later(entry, facts.ctime);
                let unseen = changed && (came || born);
                if facts.is_dir() && !unseen {
                    dirs.push((path, self.later(entry, facts.mtime)));
                } else if changed {
                    note(&path, &path, self.how(entry, &facts), unseen);
                }
            }
        }
        Ok(())
    }
}

/// R3
fn alike(base: &Tree, entry: &Entry, place: &[u8], here: &Facts) -> Result<bool, Refusal> {
    if !matches!(entry.kind, None | Some(Kind::Attributes)) && entry.is == Is::File {
        return Ok(false);
    }
    let said = |why| failed(place, why);
    let Some(held) = base.hold(place).map_err(said)? else {
        return Ok(false);
    };
    let theirs = held.attributes().map_err(said)?;
    Ok(held.facts.ino == here.ino && theirs.same(&entry.noted.attributes))
}
