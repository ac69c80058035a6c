// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an upper tree holds, beside what the real tree has there now.
//!
//! # Rules
//! R1. A directory of the upper tree shows what is beneath it unless it is marked `opaque`; with
//!     `redirect` that is at another place.
//! R3. A directory that the view made, and others as well, is merged: the view cannot have meant to
//!     remove what it never saw.
//! R2. A new directory in one that shows something beneath is always `opaque`. One that is not, and
//!     has nothing beneath, had something once: it was lost.

use crate::change::Kind;
use crate::facts::{Facts, Time};
use crate::messages::failed;
use crate::names::{join, split};
use crate::noted::Noted;
use crate::refusal::Refusal;
use crate::since::Since;
use crate::tree::Tree;
use openpath_overlay::{Sides, SidesByPath};
use std::collections::{HashMap, HashSet};

/// What an entry of the upper tree is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Is {
    /// A name that is gone.
    Whiteout,
    /// Anything but a directory.
    File,
    /// A directory that shows what is beneath it.
    Merged,
    /// A directory with nothing beneath.
    New,
    /// The same where others made one in the real tree, which the view never saw: it shows nothing
    /// of it, and both become one.
    Both,
    /// A directory that had something beneath, which is gone.
    Lost,
}

/// What a directory shows, and where that is.
type Beneath = Option<(Vec<u8>, Facts)>;

/// An entry of the upper tree.
pub(crate) struct Entry {
    /// Its path in the view.
    pub(crate) path: Vec<u8>,
    /// Its directory, by its place among the entries; the root's is itself.
    pub(crate) parent: usize,
    pub(crate) noted: Noted,
    pub(crate) is: Is,
    /// What became of it, if it is no directory.
    pub(crate) kind: Option<Kind>,
    /// Where its name is in the real tree, if its directory is there.
    pub(crate) place: Option<Vec<u8>>,
    /// What the real tree has there.
    pub(crate) here: Option<Facts>,
    /// Of a directory: what it shows, and where that is.
    pub(crate) beneath: Beneath,
    /// Of such a directory: on which sides its attributes changed since it was copied up, if its
    /// copy tells.
    pub(crate) sides: Option<Sides>,
}

impl Entry {
    /// Is it a directory that has another place in the real tree?
    pub(crate) fn is_moved(&self) -> bool {
        let beneath = self.beneath.as_ref().map(|(path, _)| path);
        beneath.is_some() && beneath != self.place.as_ref()
    }

    /// When the view took it.
    pub(crate) fn taken(&self) -> Option<Time> {
        let facts = &self.noted.facts;
        if self.is == Is::Whiteout {
            // It may have hidden another name before; the overlay keeps an earlier time in `mtime`.
            return Some(facts.ctime.min(facts.mtime));
        }
        let noted = self.noted.mark("taken").and_then(parse);
        facts
            .btime
            .map(|born| noted.map_or(born, |noted| noted.min(born)))
    }
}

/// The time in the mark `taken`.
fn parse(mark: &[u8]) -> Option<Time> {
    let (sec, nsec) = std::str::from_utf8(mark).ok()?.split_once('.')?;
    Some((sec.parse().ok()?, nsec.parse().ok()?))
}

/// All entries, each directory before what is in it.
pub(crate) struct Scan {
    pub(crate) entries: Vec<Entry>,
    /// Places in the real tree that directories were moved from.
    pub(crate) sources: HashSet<Vec<u8>>,
    /// Those, with where in the view they are.
    moves: HashMap<Vec<u8>, Vec<u8>>,
}

impl Scan {
    /// Looks at both trees; `kinds` says what became of which path, `sides` where the attributes of
    /// which directory changed.
    pub(crate) fn new(
        base: &Tree,
        upper: &Tree,
        kinds: HashMap<Vec<u8>, Kind>,
        since: &Since,
        sides: &SidesByPath,
    ) -> Result<Scan, Refusal> {
        let mut scan = Self::read(base, upper, kinds, Some(since))?;
        for entry in &mut scan.entries {
            entry.sides = sides.get(&entry.path).copied();
        }
        Ok(scan)
    }

    /// The same without what is in directories with nothing beneath.
    pub(crate) fn above(base: &Tree, upper: &Tree) -> Result<Scan, Refusal> {
        Self::read(base, upper, HashMap::new(), None)
    }

    fn read(
        base: &Tree,
        upper: &Tree,
        mut kinds: HashMap<Vec<u8>, Kind>,
        since: Option<&Since>,
    ) -> Result<Scan, Refusal> {
        let mut scan = Scan {
            entries: Vec::new(),
            sources: HashSet::new(),
            moves: HashMap::new(),
        };
        let top = |why| failed(b"/", why);
        let held = upper.hold(b"").map_err(top)?;
        let held = held.ok_or_else(|| Refusal::new("the view has lost its changes"))?;
        let noted = Noted::read(&held).map_err(top)?;
        let here = base.look(b"").map_err(top)?;
        scan.entries.push(Entry {
            path: Vec::new(),
            parent: 0,
            noted,
            is: Is::Merged,
            kind: None,
            place: Some(Vec::new()),
            here: here.clone(),
            beneath: here.map(|facts| (Vec::new(), facts)),
            sides: None,
        });
        // Last in, first out: names in reverse keep all that is below one together, in order.
        let mut todo = vec![0];
        while let Some(at) = todo.pop() {
            let first = scan.entries.len();
            let path = scan.entries[at].path.clone();
            for name in upper.names(&path).map_err(|why| failed(&path, why))? {
                let entry = scan.entry((base, upper), (at, &name), &mut kinds, since);
                let entry = entry.map_err(|why| failed(&join(&path, &name), why))?;
                scan.entries.extend(entry);
            }
            let dirs = first..scan.entries.len();
            todo.extend(dirs.filter(|at| {
                let entry = &scan.entries[*at];
                entry.noted.facts.is_dir() && (since.is_some() || entry.is == Is::Merged)
            }));
        }
        for entry in &scan.entries {
            if let (true, Some((from, _))) = (entry.is_moved(), &entry.beneath) {
                scan.sources.insert(from.clone());
                scan.moves.insert(from.clone(), entry.path.clone());
            }
        }
        Ok(scan)
    }

    fn entry(
        &self,
        (base, upper): (&Tree, &Tree),
        (parent, name): (usize, &[u8]),
        kinds: &mut HashMap<Vec<u8>, Kind>,
        since: Option<&Since>,
    ) -> rustix::io::Result<Option<Entry>> {
        let dir = &self.entries[parent];
        let path = join(&dir.path, name);
        let Some(held) = upper.hold(&path)? else {
            return Ok(None);
        };
        let noted = Noted::read(&held)?;
        let place = dir.beneath.as_ref().map(|(dir, _)| join(dir, name));
        let here = match &place {
            Some(place) => base.look(place)?,
            None => None,
        };
        let (is, beneath) = if noted.is_whiteout {
            (Is::Whiteout, None)
        } else if !noted.facts.is_dir() {
            (Is::File, None)
        } else if noted.mark("opaque") == Some(b"y")
            || dir.is == Is::Both && noted.mark("redirect").is_none()
        {
            match (since, &place, here.as_ref().filter(|here| here.is_dir())) {
                (Some(since), Some(place), Some(here))
                    if since.is_apart(base, (&path, noted.facts.btime), place, here)? =>
                {
                    (Is::Both, Some((place.clone(), here.clone())))
                }
                _ => (Is::New, None),
            }
        } else {
            Self::below(base, &noted, place.as_ref(), here.as_ref())?
        };
        let kind = kinds.remove(&path);
        Ok(Some(Entry {
            path,
            parent,
            noted,
            is,
            kind,
            place,
            here,
            beneath,
            sides: None,
        }))
    }

    /// What a directory of the upper tree shows (R1, R2).
    fn below(
        base: &Tree,
        noted: &Noted,
        place: Option<&Vec<u8>>,
        here: Option<&Facts>,
    ) -> rustix::io::Result<(Is, Beneath)> {
        let (path, facts) = match (noted.mark("redirect"), place) {
            (Some([b'/', rest @ ..]), _) => {
                let path = [b"/", rest].concat();
                let facts = base.look(&path)?;
                (path, facts)
            }
            (Some(name), Some(place)) => {
                let path = join(split(place).0, name);
                let facts = base.look(&path)?;
                (path, facts)
            }
            (None, Some(place)) => (place.clone(), here.cloned()),
            (_, None) => return Ok((Is::New, None)),
        };
        match facts.filter(Facts::is_dir) {
            Some(facts) => Ok((Is::Merged, Some((path, facts)))),
            None => Ok((Is::Lost, None)),
        }
    }

    /// Where a path of the real tree is in the view, unless it is hidden there.
    pub(crate) fn shown(&self, real: &[u8]) -> Vec<u8> {
        let mut above = split(real).0;
        while !above.is_empty() {
            if let Some(to) = self.moves.get(above) {
                return [&to[..], &real[above.len()..]].concat();
            }
            above = split(above).0;
        }
        real.to_vec()
    }
}
