// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what a view holds to what is to be done.
//!
//! # Rules
//! R1. Directories that move wait under hidden names where nothing goes away above them, those
//!     deepest in the tree first; then all other acts follow by path, so that a directory is in its
//!     place before what is in it.
//! R2. A file whose attributes alone change is changed in place, unless the real tree has further
//!     names for it, which the view shows unchanged.
//! R3. A directory is given the time that the view shows if all of it was committed and nobody else
//!     changed it since.
//! R4. A directory gets attributes only if the view changed them: what its copy has since it was
//!     made is no change, whatever others did beneath.

use crate::change::{Change, Kind};
use crate::choice::{Choice, changes};
use crate::facts::{Attributes, Facts, Id, Time};
use crate::held::Held;
use crate::journal::{Act, Bytes, Journal, Link, Moment, Move, Sweep, Touch, boot};
use crate::messages::{changed, failed, text};
use crate::names::{join, split};
use crate::refusal::Refusal;
use crate::scan::{Entry, Is, Scan};
use crate::seen::Seen;
use crate::since::Since;
use crate::tree::Tree;
use openpath_abi::mode;
use std::collections::{HashMap, HashSet};

/// The time that a file gets which is made now.
fn file_clock() -> Time {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    (now.tv_sec, u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// What a journal is made from.
pub(crate) struct Draft<'a> {
    pub(crate) base: &'a Tree,
    pub(crate) scan: &'a Scan,
    pub(crate) choice: &'a Choice,
    pub(crate) since: &'a Since,
    journal: Journal,
    /// Acts of entries that are made with what is in them.
    roots: HashMap<usize, usize>,
    next: usize,
}

impl<'a> Draft<'a> {
    /// All that is to be done.
    pub(crate) fn journal(
        base: &'a Tree,
        scan: &'a Scan,
        choice: &'a Choice,
        since: &'a Since,
        id: String,
    ) -> Result<Journal, Refusal> {
        let mut draft = Draft {
            base,
            scan,
            choice,
            since,
            journal: Journal {
                id,
                changes: Vec::new(),
                moves: Vec::new(),
                acts: Vec::new(),
                touches: Vec::new(),
                moments: Vec::new(),
                sweeps: Vec::new(),
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
            if choice.goes(at) {
                draft.enter(at, entry)?;
            }
        }
        draft.stage()?;
        let journal = &mut draft.journal;
        journal.moves.sort_by_key(|moved| {
            let depth = moved.from.iter().filter(|byte| **byte == b'/').count();
            std::cmp::Reverse(depth)
        });
        journal.acts.sort_by(|a, b| a.path.cmp(&b.path));
        draft.moments();
        draft.dirs();
        draft.sweeps();
        Ok(draft.journal)
    }

    fn enter(&mut self, at: usize, entry: &Entry) -> Result<(), Refusal> {
        match entry.is {
            Is::Whiteout => {
                if let Some(old) = self.displaced(entry) {
                    self.act(entry, None, Some(old.id()), Vec::new())?;
                }
            }
            Is::File => self.file(entry)?,
            Is::New | Is::Lost => self.put(at, entry)?,
            Is::Merged | Is::Both => {
                if entry.is_moved() {
                    self.moved(entry)?;
                }
                self.touch_dir(entry)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, entry: &Entry) -> Result<(), Refusal> {
        let facts = &entry.noted.facts;
        let here = entry.here.as_ref();
        let alone = here.filter(|here| here.nlink == 1);
        if let (true, Some(here), Some(place)) = (facts.nlink > 1, alone, &entry.place)
            && matches!(entry.kind, None | Some(Kind::Attributes))
        {
            // Further names are names of what is there.
            if mode::file_type(here.mode) == mode::file_type(facts.mode) {
                self.journal.links.push(Link {
                    number: facts.ino,
                    place: place.clone(),
                    id: here.id(),
                    path: entry.path.clone(),
                });
            }
        }
        match (&entry.kind, alone, &entry.place) {
            (None, ..) => Ok(()),
            (Some(Kind::Attributes), Some(here), Some(place)) => {
                let held = self.hold(&entry.path, place, here)?;
                self.touch(&entry.path, place, &held, &entry.noted.attributes)
            }
            // R2
            _ => {
                let at = entry.parent;
                match self.roots.get(&at) {
                    Some(root) => self.journal.acts[*root].items.push(entry.path.clone()),
                    None => {
                        let old = self.displaced(entry).map(Facts::id);
                        self.act(entry, Some(Id::default()), old, vec![entry.path.clone()])?;
                    }
                }
                Ok(())
            }
        }
    }

    /// A directory with nothing beneath it.
    fn put(&mut self, at: usize, entry: &Entry) -> Result<(), Refusal> {
        let root = match self.roots.get(&entry.parent) {
            Some(root) => {
                self.journal.acts[*root].items.push(entry.path.clone());
                *root
            }
            None => {
                let old = self.displaced(entry).map(Facts::id);
                self.act(entry, Some(Id::default()), old, vec![entry.path.clone()])?
            }
        };
        self.roots.insert(at, root);
        Ok(())
    }

    /// What the real tree has under an entry's name, and is to go from there.
    fn displaced<'e>(&self, entry: &'e Entry) -> Option<&'e Facts> {
        let place = entry.place.as_ref()?;
        let here = entry.here.as_ref()?;
        (!self.scan.sources.contains(place)).then_some(here)
    }

    /// An act on an entry of a directory that is in the real tree.
    fn act(
        &mut self,
        entry: &Entry,
        new: Option<Id>,
        old: Option<Id>,
        items: Vec<Vec<u8>>,
    ) -> Result<usize, Refusal> {
        let hidden = self.hidden();
        let place = entry.place.as_ref();
        let place =
            place.ok_or_else(|| Refusal::new(format!("{} is nowhere", text(&entry.path))))?;
        let seen = self.seen(entry)?;
        let acts = &mut self.journal.acts;
        acts.push(Act {
            path: entry.path.clone(),
            hidden: join(split(&entry.path).0, &hidden),
            before: join(split(place).0, &hidden),
            new,
            old,
            copy: None,
            items,
            stamps: Vec::new(),
            seen,
        });
        Ok(acts.len() - 1)
    }

    fn moved(&mut self, entry: &Entry) -> Result<(), Refusal> {
        let Some((from, facts)) = &entry.beneath else {
            return Ok(());
        };
        self.journal.moves.push(Move {
            from: from.clone(),
            to: entry.path.clone(),
            stage: Vec::new(),
            id: facts.id(),
        });
        let old = self.displaced(entry).map(Facts::id);
        let seen = self.seen(entry)?;
        self.journal.acts.push(Act {
            path: entry.path.clone(),
            hidden: Vec::new(),
            before: Vec::new(),
            new: Some(facts.id()),
            old,
            copy: None,
            items: Vec::new(),
            stamps: Vec::new(),
            seen,
        });
        Ok(())
    }

    /// What is under an entry's name, but for what moves away.
    fn seen(&self, entry: &Entry) -> Result<Option<(Vec<u8>, Seen)>, Refusal> {
        let sources = &self.scan.sources;
        match entry
            .place
            .as_ref()
            .filter(|place| !sources.contains(*place))
        {
            Some(place) => {
                let leaves = |path: &[u8]| sources.contains(path);
                let seen = Seen::look(self.base, place, &leaves)?;
                Ok(Some((place.clone(), seen)))
            }
            None => Ok(None),
        }
    }

    /// R4
    fn touch_dir(&mut self, entry: &Entry) -> Result<(), Refusal> {
        match &entry.beneath {
            Some(_) if entry.sides.is_some_and(|sides| !sides.upper) => Ok(()),
            Some((real, facts)) => {
                let held = self.hold(&entry.path, real, facts)?;
                let mut after = entry.noted.attributes.clone();
                // Its times come last of all (`moments`), and names that others made or removed
                // in it since the scan are no change of this view.
                (after.atime, after.mtime) = (held.facts.atime, held.facts.mtime);
                self.touch(&entry.path, real, &held, &after)
            }
            None => Ok(()),
        }
    }

    /// What the real tree has at `real`, which is to be what the scan saw there.
    fn hold(&self, path: &[u8], real: &[u8], facts: &Facts) -> Result<Held, Refusal> {
        let held = self.base.hold(real).map_err(|why| failed(path, why))?;
        let held = held.filter(|held| held.id().is(&facts.id()));
        held.ok_or_else(|| changed(real))
    }

    /// Gives `held` the attributes `after`, if they are not what it has.
    fn touch(
        &mut self,
        path: &[u8],
        real: &[u8],
        held: &Held,
        after: &Attributes,
    ) -> Result<(), Refusal> {
        let before = held.attributes().map_err(|why| failed(path, why))?;
        if !before.same(after) || before.mtime != after.mtime {
            self.journal.touches.push(Touch {
                path: path.to_vec(),
                place: real.to_vec(),
                id: held.id(),
                ctime: held.facts.ctime,
                before,
                after: after.clone(),
            });
        }
        Ok(())
    }

    /// A name that nobody has.
    fn hidden(&mut self) -> Vec<u8> {
        self.next += 1;
        format!(".openpath-{}-{}", self.journal.id, self.next).into_bytes()
    }

    /// Finds places for what moves to wait in (R1).
    fn stage(&mut self) -> Result<(), Refusal> {
        let mut going: HashSet<Vec<u8>> = self.scan.sources.clone();
        for (at, entry) in self.scan.entries.iter().enumerate() {
            let leaves = self.choice.goes(at) && changes(entry) && entry.here.is_some();
            going.extend(entry.place.clone().filter(|_| leaves));
        }
        let acts = self.journal.acts.iter().enumerate();
        let acts: HashMap<Bytes, usize> = acts.map(|(at, act)| (act.path.clone(), at)).collect();
        let entries = self.scan.entries.iter();
        let entries: HashMap<&[u8], &Entry> =
            entries.map(|entry| (&entry.path[..], entry)).collect();
        for number in 0..self.journal.moves.len() {
            let name = self.hidden();
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
            self.one_mount(&entries, &from, (above, &to))?;
            let stage = join(above, &name);
            self.journal.moves[number].stage.clone_from(&stage);
            if let Some(at) = acts.get(&to) {
                let act = &mut self.journal.acts[*at];
                act.hidden.clone_from(&stage);
                act.before = stage;
            }
        }
        Ok(())
    }

    /// Refuses a move from one file system to another.
    fn one_mount(
        &self,
        entries: &HashMap<&[u8], &Entry>,
        from: &[u8],
        (stage, to): (&[u8], &[u8]),
    ) -> Result<(), Refusal> {
        let mount = |path: &[u8]| {
            let facts = self.base.look(path).map_err(|why| failed(path, why))?;
            Ok(facts.map(|facts| facts.mount))
        };
        let mut dir = split(to).0;
        let known = loop {
            match entries.get(dir).and_then(|entry| entry.beneath.as_ref()) {
                Some((_, facts)) => break Some(facts.mount),
                None if dir.is_empty() => break None,
                None => dir = split(dir).0,
            }
        };
        let own = mount(from)?;
        if own == known && own == mount(stage)? && own == mount(split(from).0)? {
            return Ok(());
        }
        Err(Refusal::new(format!(
            "{} was renamed to {}, which is on another file system: copy it in the view instead",
            text(from),
            text(to)
        )))
    }

    /// R3
    fn moments(&mut self) {
        let mut touched: HashSet<&[u8]> = HashSet::new();
        for act in &self.journal.acts {
            touched.insert(split(&act.before).0);
            touched.insert(split(&act.path).0);
        }
        for moved in &self.journal.moves {
            touched.insert(split(&moved.from).0);
            touched.insert(split(&moved.stage).0);
        }
        let mut moments = Vec::new();
        for (at, entry) in self.scan.entries.iter().enumerate() {
            let shown = entry.noted.facts.mtime;
            let Some((real, facts)) = &entry.beneath else {
                // A new one, into which something moves.
                if touched.contains(&entry.path[..]) && self.choice.goes(at) {
                    moments.push(Moment {
                        path: entry.path.clone(),
                        path_before: entry.path.clone(),
                        id: None,
                        is_new: true,
                        atime: entry.noted.facts.atime,
                        before: shown,
                        after: Some(shown),
                    });
                }
                continue;
            };
            let whole = self.choice.covered[at] && !self.since.later(entry, facts.mtime);
            let differs = whole && shown != facts.mtime;
            if differs || touched.contains(&real[..]) || touched.contains(&entry.path[..]) {
                moments.push(Moment {
                    path: entry.path.clone(),
                    path_before: real.clone(),
                    id: Some(facts.id()),
                    is_new: false,
                    atime: facts.atime,
                    before: facts.mtime,
                    after: whole.then_some(shown),
                });
            }
        }
        self.journal.moments = moments;
    }

    /// Which inodes the directories are in which names change.
    fn dirs(&mut self) {
        let journal = &self.journal;
        let acts = journal.acts.iter();
        let moves = journal.moves.iter();
        let touches = journal.touches.iter();
        let before: HashSet<&[u8]> = acts
            .clone()
            .map(|act| &act.before)
            .chain(moves.clone().flat_map(|moved| [&moved.from, &moved.stage]))
            .map(|path| split(path).0)
            .collect();
        let after: HashSet<&[u8]> = acts
            .flat_map(|act| [&act.path, &act.hidden])
            .chain(touches.map(|touch| &touch.path))
            .map(|path| split(path).0)
            .collect();
        let (mut real, mut shown) = (Vec::new(), Vec::new());
        for entry in &self.scan.entries {
            let Some((place, facts)) = &entry.beneath else {
                continue;
            };
            if before.contains(&place[..]) {
                real.push((place.clone(), facts.id()));
            }
            if after.contains(&entry.path[..]) {
                shown.push((entry.path.clone(), facts.id()));
            }
        }
        real.sort();
        shown.sort();
        (self.journal.before, self.journal.after) = (real, shown);
    }

    /// What leaves the view: whole directories by one name.
    fn sweeps(&mut self) {
        let covered = &self.choice.covered;
        for (at, entry) in self.scan.entries.iter().enumerate().skip(1) {
            let top = entry.parent == 0 || !covered[entry.parent];
            let sweep = if covered[at] && top {
                Sweep::Take(entry.path.clone())
            } else if self.choice.needed[at] {
                Sweep::Unmark(entry.path.clone())
            } else if matches!(entry.is, Is::New | Is::Both)
                && self.choice.needed[entry.parent]
                && !covered[at]
            {
                Sweep::Mark(entry.path.clone())
            } else {
                continue;
            };
            self.journal.sweeps.push(sweep);
        }
    }

    /// What of the changes of a view is committed. A name that is no entry went with the directory
    /// that an entry replaces.
    pub(crate) fn told(scan: &Scan, choice: &Choice, all: Vec<Change>) -> Vec<Change> {
        let entries = scan.entries.iter().enumerate();
        let entries: HashMap<&[u8], (usize, Is)> = entries
            .map(|(at, entry)| (&entry.path[..], (at, entry.is)))
            .collect();
        let goes = |change: &Change| {
            let path = change.path.bytes();
            let mut at = path.strip_suffix(b"/").unwrap_or(path);
            let is_entry = entries.contains_key(at);
            loop {
                match entries.get(at) {
                    Some((at, is)) => return choice.goes(*at) && (is_entry || *is != Is::Both),
                    None if at.is_empty() => return false,
                    None => at = split(at).0,
                }
            }
        };
        all.into_iter().filter(goes).collect()
    }
}
