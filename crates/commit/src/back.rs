// SPDX-License-Identifier: MIT OR Apache-2.0
//! A commit undone: the real tree and the view are as they were before.
//!
//! # Rules
//! R1. What others changed since the commit, and what the view changed since, is found before the
//!     first step; with force the commit is undone over it in the real tree, and the view keeps
//!     what is newer.
//! R2. As forth: what was put away is brought back under hidden names first, then names are
//!     exchanged, last ones first, and each step can be tried again.
//! R3. A directory of the view that was copied up since the commit has the attributes that were
//!     committed. It gets the mark of the one that was taken out, so they are its change again.

use crate::away::Way;
use crate::carry::{Carry, When, kept, now};
use crate::conflicts::{Conflict, Did};
use crate::facts::Time;
use crate::held::Held;
use crate::journal::{Act, Bytes, Known, State, Sweep, is_within};
use crate::messages::{failed, told};
use crate::names::join;
use crate::noted::Noted;
use crate::phase::Phase;
use crate::refusal::Refusal;
use crate::rename;
use rustix::fd::AsFd as _;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::collections::HashSet;

/// The mark of a directory that was copied up.
const ATTRS: &str = "user.overlay.attrs";

impl Carry<'_> {
    /// Goes back from a state until the commit is undone, and forgotten.
    pub(crate) fn back(&mut self, state: State) -> Result<(), Refusal> {
        if state != State::Preparing {
            self.hold_disks()?;
        }
        if state == State::Done {
            self.begin_undo()?;
        } else {
            self.open_dirs()?;
        }
        if state == State::Preparing {
            self.unprepare()?;
            return self.forget();
        }
        self.take_place()?;
        if state == State::Settling {
            self.place.enter(State::Recalling)?;
        }
        if matches!(state, State::Settling | State::Done | State::Recalling) {
            self.recall()?;
            self.place.write(&self.journal)?;
            self.sync()?;
        }
        self.place.enter(State::Undoing)?;
        self.undo()?;
        self.close_dirs(false)?;
        self.sync()?;
        let (journal, since) = (&self.journal, now());
        let moments = journal.moments.iter().map(|moment| &moment.path);
        let touches = journal.touches.iter().map(|touch| &touch.path);
        let mut known = journal.known(moments.chain(touches), since, false);
        let all = journal.contested();
        let contested = |act: &&Act| match &act.seen {
            Some((place, _)) => is_within(&all, place, true),
            None => false,
        };
        let acts = journal.acts.iter().filter(|act| !contested(act));
        known.extend(journal.known(acts.map(|act| &act.path), since, true));
        Known::add(&self.place.notes, known)?;
        self.forget()
    }

    /// Opens directories for the undoing of a commit that was done: it counts as interrupted before
    /// the first of them is open, and as done again if one cannot be opened.
    fn begin_undo(&mut self) -> Result<(), Refusal> {
        self.place.enter(State::Recalling)?;
        self.open_dirs().or_else(|why| {
            self.close_dirs(true)?;
            self.place.enter(State::Done)?;
            Err(why)
        })
    }

    /// Removes what was made under hidden names.
    pub(crate) fn unprepare(&mut self) -> Result<(), Refusal> {
        for act in self.journal.acts.iter().filter(|act| !act.items.is_empty()) {
            self.remove_staged(&act.before, &[act.new])?;
        }
        for moment in self.journal.moments.iter().filter(|moment| !moment.is_new) {
            self.moment(&moment.path_before, moment.id, moment.atime, moment.before)?;
        }
        self.close_dirs(false)?;
        // Further names came and went, and times were put back.
        let moments = self.journal.moments.iter().map(|moment| &moment.path);
        let links = self.journal.links.iter().map(|link| &link.path);
        let known = self.journal.known(moments.chain(links), now(), false);
        Known::add(&self.place.notes, known)
    }

    /// Removes all that is known of the commit.
    pub(crate) fn forget(&mut self) -> Result<(), Refusal> {
        let (notes, name) = (&self.place.notes, self.place.name);
        // First what makes it one.
        for path in [&join(name, b"state")[..], name] {
            notes
                .tree
                .remove(path)
                .map_err(|why| notes.said(path, why))?;
        }
        Ok(())
    }

    /// R2
    fn recall(&mut self) -> Result<(), Refusal> {
        let all = self.journal.acts.len();
        self.put_away(Way::Back, Phase::Undoing, 2 * all as u64)?;
        for number in 0..all {
            let act = &mut self.journal.acts[number];
            if act.copy.is_some() {
                act.old = act.copy.take();
            }
        }
        Ok(())
    }

    fn undo(&mut self) -> Result<(), Refusal> {
        for touch in self.journal.touches.iter().rev() {
            self.touch(touch, false)?;
        }
        self.open_dirs()?;
        let all = self.journal.acts.len();
        for number in (0..all).rev() {
            self.step(Phase::Undoing, (2 * all - number) as u64, 2 * all as u64)?;
            let act = &self.journal.acts[number];
            let put_back = self.names(act, |names| names.back(act))?;
            let displaced = put_back.transpose();
            let displaced = displaced.map_err(|why| rename::said(&act.path, why))?;
            let displaced = displaced.flatten();
            self.displaced.extend(displaced.map(|id| (number, id)));
        }
        for number in (0..self.journal.moves.len()).rev() {
            self.step(Phase::Undoing, all as u64, all as u64)?;
            let moved = &self.journal.moves[number];
            let said = |why| rename::said(&moved.from, why);
            let Some(stage) = self.at_if(&moved.stage, When::Before)? else {
                continue;
            };
            let held = Held::open(&*stage.0, &stage.1).map_err(said)?;
            if let Some(held) = held.filter(|held| held.id().is(&moved.id)) {
                let to = self.at(&moved.from, When::Before)?;
                let (from, to) = ((stage.0.as_fd(), &stage.1[..]), (to.0.as_fd(), &to.1[..]));
                rename::held(from, to, &held).map_err(said)?;
                self.base.forget();
            }
        }
        for number in 0..all {
            self.step(Phase::Undoing, all as u64, all as u64)?;
            let act = &self.journal.acts[number];
            let is_moved = act.items.is_empty() && act.new.is_some();
            if !is_moved {
                let displaced = self.displaced.get(&number).copied();
                self.remove_staged(&act.before, &[act.new, displaced])?;
            }
        }
        let touches = self.journal.touches.iter();
        let touched: HashSet<Bytes> = touches.map(|touch| touch.path.clone()).collect();
        for number in (0..self.journal.sweeps.len()).rev() {
            self.step(Phase::Undoing, all as u64, all as u64)?;
            match &self.journal.sweeps[number] {
                Sweep::Take(path) => {
                    self.give_back(&kept("view", number), path, &mut |_| {}, Some(&touched))?;
                }
                Sweep::Mark(path) => self.mark(path, false)?,
                Sweep::Unmark(path) => self.mark(path, true)?,
            }
        }
        for moment in self.journal.moments.iter().filter(|moment| !moment.is_new) {
            let (path, id) = (&moment.path_before, moment.id);
            self.moment(path, id, moment.atime, moment.before)?;
        }
        Ok(())
    }

    /// Gives the view back what was taken out of it, where it has nothing newer; what is in the way
    /// is told. `touched`: the paths of which the commit changed the attributes; without it nothing
    /// is done.
    fn give_back(
        &self,
        from: &[u8],
        to: &[u8],
        told: &mut dyn FnMut(&[u8]),
        touched: Option<&HashSet<Bytes>>,
    ) -> Result<(), Refusal> {
        let mut todo = vec![(from.to_vec(), to.to_vec())];
        while let Some((from, to)) = todo.pop() {
            let said = |why| failed(&to, why);
            let Some(old) = self.store.hold(&from).map_err(said)? else {
                continue;
            };
            let Some(newer) = self.upper.look(&to).map_err(said)? else {
                if touched.is_some() {
                    self.store
                        .rename_to(&from, &self.upper, &to)
                        .map_err(said)?;
                }
                continue;
            };
            if !old.facts.is_dir() || !newer.is_dir() {
                told(&to);
                continue;
            }
            let marks = Noted::read(&old).map_err(said)?;
            if marks.mark("opaque").is_some() || marks.mark("redirect").is_some() {
                told(&to);
                continue;
            }
            if touched.is_some_and(|touched| touched.contains(&to)) {
                // R3
                self.note_attrs(&to, marks.mark("attrs")).map_err(said)?;
            }
            let names = self.store.names(&from).map_err(said)?;
            todo.extend(
                names
                    .iter()
                    .map(|name| (join(&from, name), join(&to, name))),
            );
        }
        Ok(())
    }

    /// Has a directory of the view count as copied up with the attributes in this mark.
    fn note_attrs(&self, path: &[u8], mark: Option<&[u8]>) -> rustix::io::Result<()> {
        let Some(held) = self.upper.hold(path)? else {
            return Ok(());
        };
        match mark {
            Some(mark) => rustix::fs::setxattr(held.path(), ATTRS, mark, XattrFlags::empty()),
            None => match rustix::fs::removexattr(held.path(), ATTRS) {
                Err(Errno::NODATA) => Ok(()),
                done => done,
            },
        }
    }

    /// R1
    pub(crate) fn later(&self) -> Result<Vec<Conflict>, Refusal> {
        let done = self.journal.done.unwrap_or_default();
        let mut found = Vec::new();
        let of_commit = self.paths_of_acts();
        let conflict = |path: &[u8], did, in_view| Conflict {
            path: told(path),
            place: told(path),
            did,
            unseen: did == Did::Made && !of_commit.contains(path),
            in_view,
        };
        let mut note = |path: &[u8], did| found.push(conflict(path, did, false));
        for path in &self.journal.edited {
            note(path, Did::Changed);
        }
        let moved = self.journal.moved_to();
        for act in &self.journal.acts {
            let said = |why| failed(&act.path, why);
            let there = self.base.look(&act.path).map_err(said)?;
            match (act.new, there) {
                (None, Some(_)) => note(&act.path, Did::Made),
                (None, None) => {}
                (Some(_), None) => note(&act.path, Did::Removed),
                (Some(new), Some(there)) if !there.id().is(&new) => note(&act.path, Did::Changed),
                // What moved may change: it moves back as it is.
                (Some(_), Some(_)) if act.items.is_empty() => {}
                (Some(_), Some(_)) => self.changed_below((act, &moved), done, &mut note)?,
            }
        }
        for touch in &self.journal.touches {
            let said = |why| failed(&touch.path, why);
            match self.base.hold(&touch.path).map_err(said)? {
                None => note(&touch.path, Did::Removed),
                Some(there) if !there.id().is(&touch.id) => note(&touch.path, Did::Changed),
                Some(there) if there.facts.is_dir() => {
                    // Names that others made or removed in it move its times.
                    let now = there.attributes().map_err(said)?;
                    if !self.has(&now, &touch.after) {
                        note(&touch.path, Did::Changed);
                    }
                }
                Some(there) if there.facts.ctime > done => note(&touch.path, Did::Changed),
                Some(_) => {}
            }
        }
        for (number, sweep) in self.journal.sweeps.iter().enumerate() {
            if let Sweep::Take(path) = sweep {
                let mut newer = |path: &[u8]| found.push(conflict(path, Did::Changed, true));
                self.give_back(&kept("view", number), path, &mut newer, None)?;
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found.dedup_by(|a, b| a.path == b.path);
        Ok(found)
    }

    /// Notes what changed of what was made, and what others made in it.
    fn changed_below(
        &self,
        (act, moved): (&Act, &HashSet<&[u8]>),
        done: Time,
        note: &mut impl FnMut(&[u8], Did),
    ) -> Result<(), Refusal> {
        let made = act.made();
        let mut todo = vec![act.path.clone()];
        while let Some(path) = todo.pop() {
            let said = |why| failed(&path, why);
            let Some(facts) = self.base.look(&path).map_err(said)? else {
                continue;
            };
            let moved = moved.contains(&path[..]);
            match made.get(&path[..]) {
                None if !moved => {
                    note(&path, Did::Made);
                    continue;
                }
                _ if facts.ctime > done => note(&path, Did::Changed),
                Some(Some(stamp)) if !self.is_as_made(&path, stamp)? => {
                    note(&path, Did::Changed);
                }
                _ => {}
            }
            if facts.is_dir() && !moved {
                let names = self.base.names(&path).map_err(said)?;
                todo.extend(names.iter().map(|name| join(&path, name)));
            }
        }
        Ok(())
    }
}
