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
//! R5. Other users may rename things in the real tree meanwhile. A directory in which a name
//!     changes must be the inode that the plan saw, and what is changed is held (`held`).

use crate::away::Way;
use crate::carry::{Carry, When, kept, now};
use crate::held::Held;
use crate::journal::{Known, State, Sweep};
use crate::messages::{changed, failed};
use crate::phase::Phase;
use crate::refusal::Refusal;
use crate::rename::{self, said};
use rustix::fd::AsFd as _;
use rustix::io::Errno;

impl Carry<'_> {
    /// Goes on from a state until all is done; back, if no name was exchanged and it cannot be.
    pub(crate) fn forth(&mut self, state: State) -> Result<(), Refusal> {
        let done = self.forward(state);
        match done {
            Err(why) if self.place.is_next() && !self.stopped => {
                match self.back(State::Preparing) {
                    Ok(()) => Err(why),
                    Err(again) => Err(Refusal::new(format!("{why}; going back: {again}"))),
                }
            }
            done => done,
        }
    }

    fn forward(&mut self, state: State) -> Result<(), Refusal> {
        self.hold_disks()?;
        self.open_dirs()?;
        if state == State::Preparing {
            self.prepare()?;
            self.journal.after.sort();
            self.place.write(&self.journal)?;
            self.open_tops()?;
            self.sync()?;
            self.step(Phase::Copying, 1, 1)?;
            self.look_again()?;
            self.place.enter(State::Applying)?;
        }
        self.take_place()?;
        if state != State::Settling {
            self.apply()?;
            // Some were closed by the attributes that they have now.
            self.open_dirs()?;
            self.sync()?;
            self.place.enter(State::Settling)?;
        }
        self.settle()?;
        self.close_dirs(true)?;
        let done = now();
        let moments = self.journal.moments.iter().map(|moment| &moment.path);
        let known = self.journal.known(moments, done, false);
        Known::add(&self.place.notes, known)?;
        self.journal.done = Some(done);
        self.place.write(&self.journal)?;
        self.sync()?;
        self.place.enter(State::Done)
    }

    /// R2
    fn apply(&mut self) -> Result<(), Refusal> {
        let all = (self.journal.moves.len() + self.journal.acts.len()) as u64;
        let mut done = 0;
        for moved in self.journal.moves.clone() {
            self.step(Phase::Exchanging, done, all)?;
            done += 1;
            let Some(from) = self.at_if(&moved.from, When::Before)? else {
                continue;
            };
            let fail = |why| said(&moved.from, why);
            let held = Held::open(&*from.0, &from.1).map_err(fail)?;
            if let Some(held) = held.filter(|held| held.id().is(&moved.id)) {
                let to = self.at(&moved.stage, When::Before)?;
                let (from, to) = ((from.0.as_fd(), &from.1[..]), (to.0.as_fd(), &to.1[..]));
                rename::held(from, to, &held).map_err(fail)?;
                self.base.forget();
            }
        }
        for number in 0..self.journal.acts.len() {
            self.step(Phase::Exchanging, done, all)?;
            let act = &self.journal.acts[number];
            self.look_at(act)?;
            match self.names(act, |names| names.forth(act))? {
                Some(done) => done.map_err(|why| said(&act.path, why))?,
                // It went with its directory.
                None if act.new.is_none() => {}
                None => return Err(changed(&act.path)),
            }
            done += 1;
        }
        for number in 0..self.journal.touches.len() {
            self.step(Phase::Exchanging, done, all)?;
            self.touch(&self.journal.touches[number], true)?;
        }
        Ok(())
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
                    match self.upper.rename_to(path, &self.store, &to) {
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
                self.moment(&moment.path, moment.id, moment.atime, after)?;
            }
        }
        Ok(())
    }
}
