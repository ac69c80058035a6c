// SPDX-License-Identifier: MIT OR Apache-2.0
//! What others did to the real tree since the view took it.
//!
//! # Rules
//! R1. A view took a file when its copy was born, and a name that is gone when the whiteout last
//!     changed. What the real tree has there is as it was if it last changed (`ctime`) no later.
//! R2. What a commit touched, or its undoing, is as it was if it did not change since then.
//! R3. Both sides alike is no conflict. A directory may gain and lose other names.
//!
//! # Limits
//! * Changes within one tick of the kernel's clock (4 ms at most) count as one.
//! * That others removed a file is not seen in a directory into which the view moved some.
//! * A directory's attributes that others changed are not seen once a name in it changed after.

use crate::Refusal;
use crate::change::Kind;
use crate::commit::choice::Choice;
use crate::commit::facts::{Attributes, Facts, Time};
use crate::commit::journal::Known;
use crate::commit::scan::{Entry, Is, Scan, failed, told};
use crate::commit::tree::{Tree, join, split};
use crate::plan::PathBytes;
use std::collections::HashMap;

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
}

/// When a view took what it changed.
pub(crate) struct Since {
    known: HashMap<Vec<u8>, Known>,
    /// When the view was made, for file systems that know no births.
    made: Time,
}

impl Since {
    pub(crate) fn new(known: Vec<Known>, made: u64) -> Since {
        let known = known.into_iter().map(|known| (known.path.clone(), known));
        Since {
            known: known.collect(),
            made: (i64::try_from(made).unwrap_or(i64::MAX), 0),
        }
    }

    /// Whether a time is later than the view took an entry.
    pub(crate) fn later(&self, entry: &Entry, time: Time) -> bool {
        let mut taken = entry.taken().unwrap_or(self.made);
        let mut at = &entry.path[..];
        loop {
            match self.known.get(at) {
                Some(known) if known.below || at.len() == entry.path.len() => {
                    taken = taken.max(known.since);
                }
                _ => {}
            }
            if at.is_empty() {
                return time > taken;
            }
            at = split(at).0;
        }
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
        let mut note = |path: &[u8], place: &[u8], did| {
            found.push(Conflict {
                path: told(path),
                place: told(place),
                did,
            });
        };
        let at = entry.place.as_ref().unwrap_or(&entry.path);
        let here = match (&entry.place, &entry.here) {
            (Some(place), Some(here)) if !scan.sources.contains(place) => Some((place, here)),
            _ => None,
        };
        match (entry.is, here) {
            (Is::Lost, _) => note(&entry.path, at, Did::Removed),
            (Is::File, here) if entry.kind.is_some() => {
                // A copy without what it was made from, where none was moved to.
                let impure = scan.entries[entry.parent].noted.mark("impure").is_some();
                let copied = entry.noted.mark("ino").is_some()
                    && entry.noted.facts.nlink == 1
                    && entry.place.is_some()
                    && !impure;
                match (here, &entry.kind) {
                    (Some((place, here)), _) if here.is_dir() => {
                        self.below(base, scan, entry, place, &mut note)?;
                    }
                    (Some((place, here)), _) => {
                        if self.later(entry, here.ctime) && !alike(base, entry, place, here)? {
                            note(&entry.path, place, self.how(entry, here));
                        }
                    }
                    (None, Some(Kind::Added)) if copied => note(&entry.path, at, Did::Removed),
                    (None, _) => {}
                }
                if let Some(Kind::Renamed { from }) = &entry.kind {
                    let source = base.look(from.bytes());
                    let source = source.map_err(|why| failed(from.bytes(), why))?;
                    if source.is_some_and(|source| self.later(entry, source.ctime)) {
                        note(&entry.path, from.bytes(), Did::Changed);
                    }
                }
            }
            (Is::Whiteout | Is::New, Some((place, here))) => {
                self.displaced(base, scan, entry, (place, here), &mut note)?;
            }
            (Is::Merged, here) => {
                if let (true, Some(here)) = (entry.is_moved(), here) {
                    self.displaced(base, scan, entry, here, &mut note)?;
                }
                if let Some((real, facts)) = &entry.beneath
                    && facts.ctime != facts.mtime
                    && self.later(entry, facts.ctime)
                    && !alike(base, entry, real, facts)?
                {
                    note(&entry.path, real, Did::Changed);
                }
            }
            _ => {}
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
        note: &mut impl FnMut(&[u8], &[u8], Did),
    ) -> Result<(), Refusal> {
        if here.is_dir() {
            return self.below(base, scan, entry, place, note);
        }
        if self.later(entry, here.ctime) {
            note(&entry.path, place, self.how(entry, here));
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
    /// of it.
    fn below(
        &self,
        base: &Tree,
        scan: &Scan,
        entry: &Entry,
        dir: &[u8],
        note: &mut impl FnMut(&[u8], &[u8], Did),
    ) -> Result<(), Refusal> {
        let mut dirs = vec![dir.to_vec()];
        while let Some(dir) = dirs.pop() {
            for name in base.names(&dir).map_err(|why| failed(&dir, why))? {
                let path = join(&dir, &name);
                let facts = base.look(&path).map_err(|why| failed(&path, why))?;
                let Some(facts) = facts.filter(|_| !scan.sources.contains(&path)) else {
                    continue;
                };
                if facts.is_dir() {
                    dirs.push(path);
                } else if self.later(entry, facts.ctime) {
                    note(&path, &path, self.how(entry, &facts));
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
    let theirs = Attributes::read(base, place, here).map_err(|why| failed(place, why))?;
    Ok(theirs.same(&entry.noted.attributes))
}
