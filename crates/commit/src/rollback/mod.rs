// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rolls back an unfinished commit or undoes a finished one: the real tree and the view are then as
//! they were before.
//!
//! # Rules
//! R1. Changes since the commit, by others or in the view, are found before the first step
//!     (`since_commit`, and `interruption` for an interrupted commit). With force the commit is
//!     undone over them in the real tree, and the view keeps its newer files.
//! R2. As in `apply`: backups first come back under hidden names, then names are exchanged, the
//!     last ones first. Each step can be repeated.
//! R3. A directory of the view that was copied up since the commit has the committed attributes. It
//!     gets the mark of the directory that was taken out, so its attributes count as its change
//!     again.
//! R4. What is out of reach stays as it is, and its backup in the view (`not_undone`).

pub(crate) mod interruption;
pub(crate) mod out_of_reach;
pub(crate) mod since_commit;

use crate::attributes::clock::now;
use crate::attributes::file_stat::{InodeId, are_one};
use crate::attributes::xattrs;
use crate::copies::privileges;
use crate::host::held_file::HeldFile;
use crate::host::names::join;
use crate::host::rename;
use crate::journal::{Bytes, KnownSince, Replace, State, UpperCleanup, is_within};
use crate::report::messages::{changed_meanwhile, failed};
use crate::report::phase::Phase;
use crate::report::refusal::Refusal;
use crate::scan::upper_file::UpperFile;
use crate::transaction::backups::Direction;
use crate::transaction::name_pair::NamePair;
use crate::transaction::{Transaction, store_path};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::collections::HashSet;

/// The mark of a directory that was copied up.
const ATTRS: &[u8] = b"attrs";

impl Transaction<'_> {
    /// Rolls back from a state until the commit is undone and its records are removed.
    pub(crate) fn roll_back(&mut self, state: State) -> Result<(), Refusal> {
        if state != State::Preparing {
            self.hold_filesystems()?;
        }
        if state == State::Done {
            self.begin_undo()?;
        } else {
            self.make_dirs_writable()?;
        }
        if state == State::Preparing {
            self.remove_staged_files()?;
            return self.remove_commit_dir();
        }
        self.replace_previous()?;
        if state == State::Settling {
            self.commit_dir.enter(State::Recalling)?;
        }
        if self.needs_backups(state)? {
            self.restore_backups()?;
            self.commit_dir.write(&self.journal)?;
            self.sync()?;
        }
        self.commit_dir.enter(State::Undoing)?;
        self.restore_names()?;
        self.restore_dir_modes(false)?;
        self.remove_previous()?;
        self.sync()?;
        let (journal, since) = (&self.journal, now());
        let mtimes = self.restored_mtimes();
        let set_attrs = journal.set_attrs.iter();
        let set_attrs = set_attrs
            .filter(|attrs| self.is_there(&attrs.place, Some(attrs.id)))
            .map(|attrs| &attrs.path);
        let mut known = journal.known(mtimes.chain(set_attrs), since, false);
        let all = journal.contested();
        let contested = |replace: &&Replace| match &replace.snapshot {
            Some((place, _)) => is_within(&all, place, true),
            None => false,
        };
        let out_of_reach = &self.out_of_reach.replacements;
        let replacements = journal.replacements.iter().enumerate();
        let replacements = replacements
            .filter(|(number, replace)| !out_of_reach.contains_key(number) && !contested(replace))
            .map(|(_, replace)| replace);
        known.extend(journal.known(replacements.map(|replace| &replace.path), since, true));
        KnownSince::add(&self.commit_dir.records, known)?;
        self.keep_old_content()?;
        self.remove_commit_dir()
    }

    /// Whether backups are in the view that have to come back first.
    fn needs_backups(&self, state: State) -> Result<bool, Refusal> {
        match state {
            State::Preparing | State::Applying => return Ok(false),
            State::Settling | State::Done | State::Recalling => return Ok(true),
            State::Undoing => {}
        }
        // Their directory was out of reach before an interruption.
        for number in 0..self.journal.replacements.len() {
            let is_left = self.out_of_reach.replacements.contains_key(&number);
            if !is_left && self.has_backup(number)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes directories writable for the undo of a finished commit. The commit counts as
    /// interrupted before the first one is writable, and as done again if one cannot be made so.
    fn begin_undo(&mut self) -> Result<(), Refusal> {
        self.commit_dir.enter(State::Recalling)?;
        self.make_dirs_writable().or_else(|why| {
            self.restore_dir_modes(true)?;
            self.commit_dir.enter(State::Done)?;
            Err(why)
        })
    }

    /// Removes the staged files under hidden names.
    pub(crate) fn remove_staged_files(&mut self) -> Result<(), Refusal> {
        for replace in self
            .journal
            .replacements
            .iter()
            .filter(|replace| !replace.items.is_empty())
        {
            self.remove_staged(&replace.before, &[replace.new])?;
        }
        for restore in self.journal.mtimes.iter().filter(|restore| !restore.is_new) {
            self.restore_mtime(
                &restore.path_before,
                restore.id,
                restore.atime,
                restore.before,
            )?;
        }
        self.restore_dir_modes(false)?;
        // Further names came and went, and times were restored.
        let mtimes = self.restored_mtimes();
        let links = self.journal.links.iter();
        let links = links
            .filter(|link| self.is_there(&link.place, Some(link.id)))
            .map(|link| &link.path);
        let known = self.journal.known(mtimes.chain(links), now(), false);
        KnownSince::add(&self.commit_dir.records, known)
    }

    /// Whether a file has its place again: what others put there is not known.
    fn is_there(&self, path: &[u8], id: Option<InodeId>) -> bool {
        are_one(self.base.id(path).ok().flatten(), id)
    }

    /// The directories that have their times again.
    fn restored_mtimes(&self) -> impl Iterator<Item = &Bytes> {
        let all = self.journal.mtimes.iter();
        let all =
            all.filter(|restore| restore.is_new || self.is_there(&restore.path_before, restore.id));
        all.map(|restore| &restore.path)
    }

    /// Removes all records of the commit.
    pub(crate) fn remove_commit_dir(&mut self) -> Result<(), Refusal> {
        let (records, name) = (&self.commit_dir.records, self.commit_dir.name);
        // The state first: without it there is no commit.
        for path in [&join(name, b"state")[..], name] {
            records
                .tree
                .remove(path)
                .map_err(|why| records.failed(path, why))?;
        }
        Ok(())
    }

    /// R2
    fn restore_backups(&mut self) -> Result<(), Refusal> {
        let all = self.journal.replacements.len();
        self.move_backups(Direction::Restore, Phase::Undoing, 2 * all as u64)?;
        for number in 0..all {
            let replace = &mut self.journal.replacements[number];
            if let Some(copy) = replace.copy.take() {
                replace.old = Some(*copy);
            }
        }
        Ok(())
    }

    /// Gives a name its old file again; returns the inode that it had, if it was exchanged now.
    fn restore_name(&self, replace: &Replace) -> Result<Option<InodeId>, Refusal> {
        let restore = |names: &NamePair<'_>| {
            let new = HeldFile::open(names.name.0, names.name.1)?;
            let is_new = |held: &HeldFile| are_one(Some(held.id()), replace.new);
            let new = new.filter(is_new).filter(|_| replace.new != replace.old);
            let displaced = names.restore(replace)?;
            if names.has_new(replace)? {
                return Err(Errno::STALE);
            }
            // Another user may move the hidden name away.
            new.iter().for_each(privileges::take);
            Ok(displaced)
        };
        match self.with_names(replace, restore)? {
            Some(done) => done.map_err(|why| rename::rename_failed(&replace.path, why)),
            None if self.is_moved_back(&replace.path)? => Ok(None),
            None => Err(changed_meanwhile(&replace.path)),
        }
    }

    fn restore_names(&mut self) -> Result<(), Refusal> {
        for attrs in self.journal.set_attrs.iter().rev() {
            self.set_attrs(attrs, false)?;
        }
        self.make_dirs_writable()?;
        let all = self.journal.replacements.len();
        for number in (0..all).rev() {
            self.step(Phase::Undoing, (2 * all - number) as u64, 2 * all as u64)?;
            if self.out_of_reach.replacements.contains_key(&number) {
                continue;
            }
            let replace = &self.journal.replacements[number];
            let displaced = self.restore_name(replace)?;
            self.displaced.extend(displaced.map(|id| (number, id)));
        }
        self.move_dirs_back(all as u64)?;
        self.remove_new_files(all as u64)?;
        self.restore_view(all as u64)?;
        for restore in self.journal.mtimes.iter().filter(|restore| !restore.is_new) {
            let (path, id) = (&restore.path_before, restore.id);
            self.restore_mtime(path, id, restore.atime, restore.before)?;
        }
        Ok(())
    }

    fn move_dirs_back(&mut self, all: u64) -> Result<(), Refusal> {
        for number in (0..self.journal.moves.len()).rev() {
            self.step(Phase::Undoing, all, all)?;
            if self.out_of_reach.moves.contains_key(&number) {
                continue;
            }
            let moved = &self.journal.moves[number];
            self.move_dir(moved, (&moved.stage, &moved.from))?;
        }
        Ok(())
    }

    /// Removes what the commit made, and an undo took from its name.
    fn remove_new_files(&mut self, all: u64) -> Result<(), Refusal> {
        for number in 0..self.journal.replacements.len() {
            self.step(Phase::Undoing, all, all)?;
            let replace = &self.journal.replacements[number];
            let is_moved = replace.items.is_empty() && replace.new.is_some();
            if !is_moved && !self.out_of_reach.replacements.contains_key(&number) {
                let displaced = self.displaced.get(&number).copied();
                self.remove_staged(&replace.before, &[replace.new, displaced])?;
            }
        }
        Ok(())
    }

    /// Gives the view back what was moved out of it.
    fn restore_view(&mut self, all: u64) -> Result<(), Refusal> {
        let set_attrs = self.journal.set_attrs.iter();
        let attrs_changed: HashSet<Bytes> = set_attrs.map(|attrs| attrs.path.clone()).collect();
        for number in (0..self.journal.cleanups.len()).rev() {
            self.step(Phase::Undoing, all, all)?;
            match &self.journal.cleanups[number] {
                UpperCleanup::MoveOut(path) => {
                    self.return_to_view(
                        &store_path("view", number),
                        path,
                        &mut |_| {},
                        Some(&attrs_changed),
                    )?;
                }
                UpperCleanup::MakeOpaque(path) => self.set_opaque(path, false)?,
                UpperCleanup::ClearOpaque(path) => self.set_opaque(path, true)?,
            }
        }
        Ok(())
    }

    /// Returns files to the view that were moved out, where it has none newer; `on_newer` gets the
    /// others. `attrs_changed`: the paths whose attributes the commit changed; without it nothing
    /// is changed.
    pub(crate) fn return_to_view(
        &self,
        from: &[u8],
        to: &[u8],
        on_newer: &mut dyn FnMut(&[u8]),
        attrs_changed: Option<&HashSet<Bytes>>,
    ) -> Result<(), Refusal> {
        let mut todo = vec![(from.to_vec(), to.to_vec())];
        while let Some((from, to)) = todo.pop() {
            let fail = |why| failed(&to, why);
            let Some(old) = self.store.hold(&from).map_err(fail)? else {
                continue;
            };
            let Some(newer) = self.upper.stat(&to).map_err(fail)? else {
                if attrs_changed.is_some() {
                    self.store
                        .rename_to(&from, &self.upper, &to)
                        .map_err(fail)?;
                }
                continue;
            };
            if !old.stat.is_dir() || !newer.is_dir() {
                on_newer(&to);
                continue;
            }
            let marks = UpperFile::read(&old, self.upper.marks).map_err(fail)?;
            if marks.mark("opaque").is_some() || marks.mark("redirect").is_some() {
                on_newer(&to);
                continue;
            }
            if attrs_changed.is_some_and(|attrs_changed| attrs_changed.contains(&to[..])) {
                // R3
                self.set_attrs_mark(&to, marks.mark("attrs"))
                    .map_err(fail)?;
            }
            let names = self.store.names(&from).map_err(fail)?;
            todo.extend(
                names
                    .iter()
                    .map(|name| (join(&from, name), join(&to, name))),
            );
        }
        Ok(())
    }

    /// Marks a directory of the view as copied up with the attributes in this mark.
    fn set_attrs_mark(&self, path: &[u8], mark: Option<&[u8]>) -> rustix::io::Result<()> {
        let Some(held) = self.upper.hold(path)? else {
            return Ok(());
        };
        let name = self.upper.mark(ATTRS);
        match mark {
            Some(mark) => rustix::fs::setxattr(held.path(), &*name, mark, XattrFlags::empty()),
            None => xattrs::remove(&held.path(), &name),
        }
    }
}
