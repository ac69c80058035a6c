// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applies the journal of a commit: makes the new files, exchanges them with the old ones in the
//! real tree, and moves backups and committed files into the commit's directory. A failure before
//! the first exchange is rolled back.
//!
//! # Rules
//! R1. All new files are made under hidden names first, and synced. A step that can fail for want
//!     of rights or room fails then, with nothing done.
//! R2. After that there are only renames within one file system. A name that gets another file is
//!     exchanged in one step, so it always exists. It gets its privileges right before
//!     (`privileges`).
//! R3. Every step can be repeated after a crash: inodes show whether it is done (`R1` of the
//!     journal).
//! R4. Committed files are moved out of the view last, by a rename.
//! R5. Other users may rename files in the real tree meanwhile. A directory in which a name changes
//!     must be the inode that the plan saw, and a file that is changed is held (`held_file`).

pub(crate) mod give_privileges;
pub(crate) mod recheck;

use crate::attributes::clock::now;
use crate::copies::privileges;
use crate::host::rename::rename_failed;
use crate::journal::{KnownSince, State, UpperCleanup};
use crate::report::messages::{changed_meanwhile, failed};
use crate::report::phase::Phase;
use crate::report::refusal::Refusal;
use crate::transaction::backups::Direction;
use crate::transaction::name_pair::NamePair;
use crate::transaction::{Transaction, store_path};
use rustix::io::Errno;

impl Transaction<'_> {
    /// Continues from a state until all is done; rolls back if a step fails before a name was
    /// exchanged.
    pub(crate) fn apply(&mut self, state: State) -> Result<(), Refusal> {
        let done = self.apply_from(state);
        match done {
            Err(why) if self.commit_dir.is_next() && !self.stopped => {
                match self.roll_back(State::Preparing) {
                    Ok(()) => Err(why),
                    Err(again) => Err(Refusal::new(
                        why.kind(),
                        format!("{why}; going back: {again}"),
                    )),
                }
            }
            done => done,
        }
    }

    fn apply_from(&mut self, state: State) -> Result<(), Refusal> {
        self.hold_filesystems()?;
        self.make_dirs_writable()?;
        if state == State::Preparing {
            self.prepare()?;
            self.journal.after.sort();
            self.commit_dir.write(&self.journal)?;
            self.apply_top_metadata()?;
            self.sync()?;
            self.step(Phase::Copying, 1, 1)?;
            self.recheck_all()?;
            self.commit_dir.enter(State::Applying)?;
        }
        self.replace_previous()?;
        if state != State::Settling {
            self.exchange_all()?;
            // Some lost write permission with their new attributes.
            self.make_dirs_writable()?;
            self.sync()?;
            self.commit_dir.enter(State::Settling)?;
        }
        self.settle()?;
        self.remove_previous()?;
        self.restore_dir_modes(true)?;
        let done = now();
        let mtimes = self.journal.mtimes.iter().map(|restore| &restore.path);
        let known = self.journal.known(mtimes, done, false);
        KnownSince::add(&self.commit_dir.records, known)?;
        self.journal.done = Some(done);
        self.commit_dir.write(&self.journal)?;
        self.sync()?;
        self.commit_dir.enter(State::Done)
    }

    /// R2
    fn exchange_all(&mut self) -> Result<(), Refusal> {
        let all = (self.journal.moves.len() + self.journal.replacements.len()) as u64;
        let mut done = 0;
        for moved in self.journal.moves.clone() {
            self.step(Phase::Exchanging, done, all)?;
            done += 1;
            self.move_dir(&moved, (&moved.from, &moved.stage))?;
        }
        for number in 0..self.journal.replacements.len() {
            self.step(Phase::Exchanging, done, all)?;
            let replace = &self.journal.replacements[number];
            self.recheck(replace)?;
            let install = |names: &NamePair<'_>| {
                let given = self.give_privileges(names, replace)?;
                let done = names.install(replace);
                done.inspect_err(|_| given.iter().for_each(privileges::take))
            };
            match self.with_names(replace, install)? {
                Some(done) => done.map_err(|why| rename_failed(&replace.path, why))?,
                // It was removed with its directory.
                None if replace.new.is_none() => {}
                None => return Err(changed_meanwhile(&replace.path)),
            }
            done += 1;
        }
        for number in 0..self.journal.set_attrs.len() {
            self.step(Phase::Exchanging, done, all)?;
            self.set_attrs(&self.journal.set_attrs[number], true)?;
        }
        Ok(())
    }

    /// R4
    fn settle(&mut self) -> Result<(), Refusal> {
        let (replacements, cleanups) =
            (self.journal.replacements.len(), self.journal.cleanups.len());
        let all = (replacements + cleanups) as u64;
        self.move_backups(Direction::Save, Phase::Settling, all)?;
        for number in 0..cleanups {
            self.step(Phase::Settling, (replacements + number) as u64, all)?;
            match &self.journal.cleanups[number] {
                UpperCleanup::MoveOut(path) => {
                    let to = store_path("view", number);
                    match self.upper.rename_to(path, &self.store, &to) {
                        // Moved before an interruption.
                        Err(Errno::NOENT) => {}
                        done => done.map_err(|why| failed(path, why))?,
                    }
                }
                UpperCleanup::MakeOpaque(path) => self.set_opaque(path, true)?,
                UpperCleanup::ClearOpaque(path) => {
                    self.record_lower(path)?;
                    self.set_opaque(path, false)?;
                }
            }
        }
        self.step(Phase::Settling, all, all)?;
        for restore in &self.journal.mtimes {
            if let Some(after) = restore.after {
                self.restore_mtime(&restore.path, restore.id, restore.atime, after)?;
            }
        }
        Ok(())
    }
}
