// SPDX-License-Identifier: MIT OR Apache-2.0
//! A commit carried out.
//!
//! # Rules
//! R1. Everything new is made whole under hidden names first, and brought to the disk. What can
//!     fail for want of rights or room fails then, with nothing done.
//! R2. After that there are renames within one file system alone. A name that stands for something
//!     else afterwards is exchanged in one step, so it is always there.
//! R3. Every step can be tried again after a crash: inodes tell whether it is done (`R1` of the
//!     journal).
//! R4. What the view holds is taken out of it last, by a rename.

use crate::Refusal;
use crate::commit::away::Way;
use crate::commit::copy::{copy, dress};
use crate::commit::facts::{Noted, Time};
use crate::commit::journal::{Act, Journal, Known, Place, State, Sweep, Touch};
use crate::commit::scan::failed;
use crate::commit::seen::changed;
use crate::commit::tree::{Tree, join, split};
use crate::commit::{Phase, Watch};
use rustix::fs::{AtFlags, Mode, RenameFlags, XattrFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The mark of a directory that hides what is beneath it.
const OPAQUE: &str = "user.overlay.opaque";

/// A commit, and all that it works on.
pub(crate) struct Carry<'a> {
    pub(crate) base: Tree,
    pub(crate) upper: Tree,
    /// The commit's own directory.
    pub(crate) store: Tree,
    pub(crate) place: Place,
    pub(crate) journal: Journal,
    pub(crate) watch: &'a mut dyn Watch,
    /// Who watches has ended it, as a crash would.
    pub(crate) stopped: bool,
}

impl<'a> Carry<'a> {
    pub(crate) fn open(
        place: Place,
        journal: Journal,
        watch: &'a mut dyn Watch,
    ) -> Result<Carry<'a>, Refusal> {
        Ok(Carry {
            base: Tree::open(Path::new("/"))?,
            upper: Tree::open(&place.view.join("upper"))?,
            store: Tree::open(&place.dir)?,
            place,
            journal,
            watch,
            stopped: false,
        })
    }

    /// Tells how far it is.
    pub(crate) fn step(&mut self, phase: Phase, done: u64, of: u64) -> Result<(), Refusal> {
        if self.watch.step(phase, done, of) {
            return Ok(());
        }
        self.stopped = true;
        Err(Refusal::new("stopped"))
    }

    /// Goes on from a state until all is done; back, if no name was exchanged and it cannot be.
    pub(crate) fn forth(&mut self, state: State) -> Result<(), Refusal> {
        let done = self.forward(state);
        if done.is_err() && self.place.is_next() && !self.stopped {
            self.back(State::Preparing)?;
        }
        done
    }

    fn forward(&mut self, state: State) -> Result<(), Refusal> {
        if state == State::Preparing {
            self.prepare()?;
            self.place.write(&self.journal)?;
            self.sync()?;
            self.step(Phase::Copying, 1, 1)?;
            self.look_again()?;
            self.place.enter(State::Applying)?;
        }
        self.take_place()?;
        if state != State::Settling {
            self.apply()?;
            self.sync()?;
            self.place.enter(State::Settling)?;
        }
        self.settle()?;
        let done = now();
        let moments = self.journal.moments.iter().map(|moment| &moment.path);
        let known = self.journal.known(moments, done, false);
        Known::add(&self.place.view, known)?;
        self.journal.done = Some(done);
        self.place.write(&self.journal)?;
        self.sync()?;
        self.place.enter(State::Done)
    }

    /// Replaces the commit before, which cannot be undone any more.
    pub(crate) fn take_place(&mut self) -> Result<(), Refusal> {
        if !self.place.is_next() {
            return Ok(());
        }
        let view = Tree::open(&self.place.view)?;
        let said = |why| failed(b"/commit", why);
        // First what makes it one.
        view.remove(b"/commit/state").map_err(said)?;
        view.remove(b"/commit").map_err(said)?;
        let whole = RenameFlags::NOREPLACE;
        view.rename(b"/next", b"/commit", whole).map_err(said)?;
        self.place.dir = self.place.view.join("commit");
        Ok(())
    }

    /// Removes what was made under hidden names.
    pub(crate) fn unprepare(&mut self) -> Result<(), Refusal> {
        for act in self.journal.acts.iter().filter(|act| !act.items.is_empty()) {
            let removed = self.base.remove(&act.before);
            removed.map_err(|why| failed(&act.before, why))?;
        }
        for moment in self.journal.moments.iter().filter(|moment| moment.ino != 0) {
            self.moment(&moment.path_before, moment.ino, moment.atime, moment.before)?;
        }
        // Further names came and went, and times were put back.
        let moments = self.journal.moments.iter().map(|moment| &moment.path);
        let links = self.journal.links.iter().map(|(_, _, path)| path);
        let known = self.journal.known(moments.chain(links), now(), false);
        Known::add(&self.place.view, known)
    }

    /// R1
    fn prepare(&mut self) -> Result<(), Refusal> {
        let links = self.journal.links.iter();
        let links = links.map(|(ino, place, _)| (*ino, place.clone()));
        let mut first: HashMap<u64, Vec<u8>> = links.collect();
        let all: u64 = self
            .journal
            .acts
            .iter()
            .map(|act| act.items.len() as u64)
            .sum();
        let mut made = 0;
        for number in 0..self.journal.acts.len() {
            let act = self.journal.acts[number].clone();
            if act.items.is_empty() {
                continue;
            }
            let removed = self.base.remove(&act.before);
            removed.map_err(|why| failed(&act.before, why))?;
            for item in &act.items {
                self.step(Phase::Copying, made, all)?;
                self.make(&act, item, &mut first)?;
                made += 1;
            }
            for item in act.items.iter().rev() {
                self.finish(&act, item)?;
            }
            let ino = self.base.number(&act.before);
            let ino = ino.map_err(|why| failed(&act.before, why))?;
            self.journal.acts[number].new = ino;
        }
        self.step(Phase::Copying, made, all)
    }

    /// Makes one thing under its hidden name, or in what has one.
    fn make(
        &mut self,
        act: &Act,
        item: &[u8],
        first: &mut HashMap<u64, Vec<u8>>,
    ) -> Result<(), Refusal> {
        let said = |why| failed(item, why);
        let place = [&act.before[..], &item[act.path.len()..]].concat();
        let noted = self.noted(item)?;
        let (dir, name) = self.base.spot(&place).map_err(said)?;
        if noted.facts.is_dir() {
            let mode = Mode::from_raw_mode(0o700);
            return rustix::fs::mkdirat(&*dir, name, mode).map_err(said);
        }
        if noted.facts.nlink > 1 {
            if let Some(known) = first.get(&noted.facts.ino) {
                let (source, old) = self.base.spot(known).map_err(said)?;
                match rustix::fs::linkat(&*source, old, &*dir, name, AtFlags::empty()) {
                    Ok(()) => return Ok(()),
                    // One file cannot have names in two file systems.
                    Err(Errno::XDEV | Errno::MLINK) => {}
                    Err(why) => return Err(said(why)),
                }
            }
            first.insert(noted.facts.ino, place.clone());
        }
        let watch = &mut *self.watch;
        copy(
            (&self.upper, item),
            (&self.base, &place),
            &noted.attributes,
            self.journal.any_owner,
            &mut |bytes| watch.copied(bytes),
        )
    }

    /// Gives a new directory its attributes, once all is in it.
    fn finish(&self, act: &Act, item: &[u8]) -> Result<(), Refusal> {
        let said = |why| failed(item, why);
        let noted = self.noted(item)?;
        if noted.facts.is_dir() {
            let place = [&act.before[..], &item[act.path.len()..]].concat();
            let (dir, name) = self.base.spot(&place).map_err(said)?;
            let any = self.journal.any_owner;
            dress(&dir, name, &noted.attributes, None, any).map_err(said)?;
        }
        Ok(())
    }

    fn noted(&self, item: &[u8]) -> Result<Noted, Refusal> {
        let said = |why| failed(item, why);
        let facts = self.upper.look(item).map_err(said)?;
        let facts = facts.ok_or_else(|| said(Errno::NOENT))?;
        Noted::read(&self.upper, item, facts).map_err(said)
    }

    /// R2
    fn apply(&mut self) -> Result<(), Refusal> {
        let all = (self.journal.moves.len() + self.journal.acts.len()) as u64;
        let mut done = 0;
        for moved in self.journal.moves.clone() {
            self.step(Phase::Exchanging, done, all)?;
            let said = |why| failed(&moved.from, why);
            if self.base.number(&moved.from).map_err(said)? == Some(moved.ino) {
                let whole = RenameFlags::NOREPLACE;
                let staged = self.base.rename(&moved.from, &moved.stage, whole);
                staged.map_err(said)?;
            }
            done += 1;
        }
        for number in 0..self.journal.acts.len() {
            self.step(Phase::Exchanging, done, all)?;
            let act = &self.journal.acts[number];
            self.look_at(act)?;
            exchange(&self.base, act).map_err(|why| failed(&act.path, why))?;
            done += 1;
        }
        for number in 0..self.journal.touches.len() {
            self.step(Phase::Exchanging, done, all)?;
            self.touch(&self.journal.touches[number], true)?;
        }
        Ok(())
    }

    /// Sets or puts back attributes.
    pub(crate) fn touch(&self, touch: &Touch, forth: bool) -> Result<(), Refusal> {
        let said = |why| failed(&touch.path, why);
        if self.base.number(&touch.path).map_err(said)? != Some(touch.ino) {
            if forth {
                return Err(changed(&touch.path));
            }
            return Ok(());
        }
        let (had, to) = match forth {
            true => (&touch.before, &touch.after),
            false => (&touch.after, &touch.before),
        };
        let (dir, name) = self.base.spot(&touch.path).map_err(said)?;
        dress(&dir, name, to, Some(had), self.journal.any_owner).map_err(said)
    }

    /// R4
    fn settle(&mut self) -> Result<(), Refusal> {
        let (acts, sweeps) = (self.journal.acts.len(), self.journal.sweeps.len());
        let all = (acts + sweeps) as u64;
        self.put_away(Way::Away, Phase::Settling, all)?;
        for number in 0..sweeps {
            self.step(Phase::Settling, (acts + number) as u64, all)?;
            match &self.journal.sweeps[number] {
                Sweep::Take(path) => {
                    let to = kept("view", number);
                    let whole = RenameFlags::NOREPLACE;
                    match self.upper.rename_to(path, &self.store, &to, whole) {
                        // Taken before.
                        Err(Errno::NOENT) => {}
                        done => done.map_err(|why| failed(path, why))?,
                    }
                }
                Sweep::Mark(path) => self.mark(path, true)?,
                Sweep::Unmark(path) => self.mark(path, false)?,
            }
        }
        self.step(Phase::Settling, all, all)?;
        for moment in &self.journal.moments {
            if let Some(after) = moment.after {
                self.moment(&moment.path, moment.ino, moment.atime, after)?;
            }
        }
        Ok(())
    }

    /// Has a directory of the view hide what is beneath it, or show it.
    pub(crate) fn mark(&self, path: &[u8], hides: bool) -> Result<(), Refusal> {
        let said = |why| failed(path, why);
        let (dir, name) = match self.upper.spot(path) {
            Err(Errno::NOENT) => return Ok(()),
            spot => spot.map_err(said)?,
        };
        let place = crate::commit::tree::by_handle(&dir, name);
        let done = match hides {
            true => rustix::fs::lsetxattr(&place, OPAQUE, b"y", XattrFlags::empty()),
            false => rustix::fs::lremovexattr(&place, OPAQUE),
        };
        match done {
            Err(Errno::NODATA | Errno::NOENT) => Ok(()),
            done => done.map_err(said),
        }
    }

    /// Sets the time of a directory, of which that may not be this process's to set.
    pub(crate) fn moment(
        &self,
        path: &[u8],
        ino: u64,
        atime: Time,
        mtime: Time,
    ) -> Result<(), Refusal> {
        let said = |why| failed(path, why);
        let there = self.base.number(path).map_err(said)?;
        if there.is_none() || ino != 0 && there != Some(ino) {
            return Ok(());
        }
        let time = |(tv_sec, nanoseconds): Time| rustix::fs::Timespec {
            tv_sec,
            tv_nsec: nanoseconds.into(),
        };
        let times = rustix::fs::Timestamps {
            last_access: time(atime),
            last_modification: time(mtime),
        };
        let (dir, name) = self.base.spot(path).map_err(said)?;
        match rustix::fs::utimensat(&*dir, name, &times, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::PERM | Errno::ACCESS) => Ok(()),
            done => done.map_err(said),
        }
    }

    /// Brings every file system that is worked on to the disk.
    pub(crate) fn sync(&self) -> Result<(), Refusal> {
        let mut known = Vec::new();
        let places = self.journal.acts.iter();
        let places = places.flat_map(|act| [&act.before, &act.hidden]);
        for path in places.map(|place| split(place).0) {
            let facts = self.base.look(path).map_err(|why| failed(path, why))?;
            let Some(facts) = facts else { continue };
            if !known.contains(&facts.device) {
                known.push(facts.device);
                self.base.sync(path).map_err(|why| failed(path, why))?;
            }
        }
        self.store.sync(b"").map_err(|why| failed(b"/", why))
    }
}

/// Has a name stand for what is new, and the hidden one for what was there; done twice it is done
/// once.
fn exchange(base: &Tree, act: &Act) -> rustix::io::Result<()> {
    let there = base.number(&act.path)?;
    let whole = RenameFlags::NOREPLACE;
    match (act.new, act.old) {
        (Some(new), old) if there == Some(new) => {
            let aside = [&act.hidden[..], b"+"].concat();
            if old.is_some() && base.number(&act.hidden)?.is_none() && base.number(&aside)? == old {
                return base.rename(&aside, &act.hidden, whole);
            }
            Ok(())
        }
        (Some(new), Some(old)) if there == Some(old) => {
            must_be(base, &act.hidden, new)?;
            match base.rename(&act.hidden, &act.path, RenameFlags::EXCHANGE) {
                // A file system that cannot: for a moment the name is not there.
                Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                    let aside = [&act.hidden[..], b"+"].concat();
                    base.rename(&act.path, &aside, whole)?;
                    base.rename(&act.hidden, &act.path, whole)?;
                    base.rename(&aside, &act.hidden, whole)
                }
                done => done,
            }
        }
        (Some(new), None) if there.is_none() => {
            must_be(base, &act.hidden, new)?;
            base.rename(&act.hidden, &act.path, whole)
        }
        (None, Some(old)) if there == Some(old) => base.rename(&act.path, &act.hidden, whole),
        (None, _) if there.is_none() => Ok(()),
        // Where exchanging was given up in the middle.
        (Some(new), Some(old)) if there.is_none() => {
            let aside = [&act.hidden[..], b"+"].concat();
            must_be(base, &aside, old)?;
            must_be(base, &act.hidden, new)?;
            base.rename(&act.hidden, &act.path, whole)?;
            base.rename(&aside, &act.hidden, whole)
        }
        _ => Err(Errno::STALE),
    }
}

fn must_be(base: &Tree, path: &[u8], ino: u64) -> rustix::io::Result<()> {
    if base.number(path)? == Some(ino) {
        Ok(())
    } else {
        Err(Errno::STALE)
    }
}

/// The time now.
pub(crate) fn now() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    (seconds, now.subsec_nanos())
}

/// A path in the store.
pub(crate) fn kept(kind: &str, number: usize) -> Vec<u8> {
    join(format!("/{kind}").as_bytes(), number.to_string().as_bytes())
}
