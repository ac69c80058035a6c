// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moves backups of replaced files out of the real tree into the view's directory, and back for an
//! undo. The two may be on different file systems.
//!
//! # Rules
//! R1. A name exists complete or not at all, on both sides. A copy is made under a further name
//!     (`+`) and gets its own name once it is on the disk. Then its source gets another name (`-`),
//!     and only after that is on the disk it is removed.
//! R2. So a commit that is resumed or rolled back uses what has the name, and ignores what has one
//!     of the others.
//! R3. Another user may be able to write in the real tree. A file that is taken from there must be
//!     the old one of the journal. The journal knows the inode of a copy that is made there before
//!     the copy is opened to others.

use crate::attributes::file_stat::InodeId;
use crate::copies::copy::copy_tree;
use crate::host::held_file::HeldFile;
use crate::host::rename::rename_failed;
use crate::host::tree::Tree;
use crate::report::messages::{changed_meanwhile, failed};
use crate::report::phase::Phase;
use crate::report::refusal::Refusal;
use crate::transaction::{Transaction, store_path, when_hidden};
use rustix::fd::AsFd as _;
use rustix::io::Errno;

/// Which way backups move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    /// Out of the real tree.
    Save,
    /// Back into the real tree, under the hidden name.
    Restore,
}

impl Direction {
    fn source_and_target<'t>(self, base: &'t Tree, store: &'t Tree) -> (&'t Tree, &'t Tree) {
        match self {
            Direction::Save => (base, store),
            Direction::Restore => (store, base),
        }
    }
}

/// A backup that moves from one name to another.
struct Backup {
    /// The number of its replacement in the journal.
    number: usize,
    /// The path of the replaced file, for messages.
    path: Vec<u8>,
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Backup {
    /// The name of a copy, until it is complete.
    fn partial(&self) -> Vec<u8> {
        [&self.to[..], b"+"].concat()
    }

    /// The name of a source that was copied, until it is removed.
    fn leftover(&self) -> Vec<u8> {
        [&self.from[..], b"-"].concat()
    }
}

impl Transaction<'_> {
    /// Moves all backups in one direction; a second call changes nothing. `of`: the steps of the
    /// phase.
    pub(crate) fn move_backups(
        &mut self,
        direction: Direction,
        phase: Phase,
        of: u64,
    ) -> Result<(), Refusal> {
        let replacements = self.journal.replacements.iter().enumerate();
        let out_of_reach = &self.out_of_reach.replacements;
        let replacements = replacements.filter(|(number, replace)| {
            replace.old.is_some() && !out_of_reach.contains_key(number)
        });
        let backups: Vec<Backup> = replacements
            .map(|(number, replace)| {
                let (hidden, kept) = (replace.hidden.to_vec(), store_path("old", number));
                let (from, to) = match direction {
                    Direction::Save => (hidden, kept),
                    Direction::Restore => (kept, hidden),
                };
                Backup {
                    number,
                    path: replace.path.to_vec(),
                    from,
                    to,
                }
            })
            .collect();
        let mut copied = Vec::new();
        for (done, backup) in backups.into_iter().enumerate() {
            self.step(phase, done as u64, of)?;
            if self.move_one(direction, &backup)? {
                copied.push((done as u64, backup));
            }
        }
        if copied.is_empty() {
            return Ok(());
        }
        // R3
        self.commit_dir.write(&self.journal)?;
        for (_, backup) in &copied {
            self.open_partial(direction, backup)?;
        }
        // R1
        self.sync()?;
        for (done, backup) in &copied {
            self.step(phase, *done, of)?;
            self.name_partial(direction, backup)?;
        }
        self.sync()?;
        for (done, backup) in &copied {
            self.step(phase, *done, of)?;
            self.remove_source(direction, backup, (phase, *done, of))?;
        }
        Ok(())
    }

    /// The tree that backups come from, and the one that they go to.
    fn source_and_target(&self, direction: Direction) -> (&Tree, &Tree) {
        direction.source_and_target(&self.base, &self.store)
    }

    /// The inodes that a backup may have in the real tree.
    fn replaced_ids(&self, backup: &Backup) -> [Option<InodeId>; 2] {
        let replace = &self.journal.replacements[backup.number];
        [replace.old, replace.copy.as_deref().copied()]
    }

    fn is_replaced(&self, held: &HeldFile, backup: &Backup) -> bool {
        let id = held.id();
        self.replaced_ids(backup)
            .iter()
            .flatten()
            .any(|old| old.matches(&id))
    }

    /// Renames or copies a backup; returns whether a source is left.
    fn move_one(&mut self, direction: Direction, backup: &Backup) -> Result<bool, Refusal> {
        let fail = |why| rename_failed(&backup.path, why);
        if direction == Direction::Restore {
            // No backup goes to another directory that has the path by now.
            self.base.forget_paths();
            let when = when_hidden(&self.journal.replacements[backup.number]);
            self.parent(&backup.to, when)?;
        }
        let (from, to) = self.source_and_target(direction);
        // Left by a move in the other direction.
        let left = [&backup.to[..], b"-"].concat();
        match direction {
            Direction::Save => to.remove(&left).map_err(fail)?,
            Direction::Restore => self.remove_staged(&left, &self.replaced_ids(backup))?,
        }
        let Some(held) = from.hold(&backup.from).map_err(fail)? else {
            return Ok(from.stat(&backup.leftover()).map_err(fail)?.is_some());
        };
        if direction == Direction::Save && !self.is_replaced(&held, backup) {
            return Err(changed_meanwhile(&backup.path));
        }
        if let Some(there) = to.hold(&backup.to).map_err(fail)? {
            if direction == Direction::Restore && !self.is_replaced(&there, backup) {
                return Err(changed_meanwhile(&backup.path));
            }
            return Ok(true);
        }
        match from.rename_held(&backup.from, (to, &backup.to), &held) {
            Err(Errno::XDEV | Errno::ACCESS | Errno::PERM) => {}
            done => return done.map(|()| false).map_err(fail),
        }
        self.copy_one(direction, backup, held)?;
        Ok(true)
    }

    /// Copies a backup to its partial name, unless an earlier call has (R1).
    fn copy_one(
        &mut self,
        direction: Direction,
        backup: &Backup,
        held: HeldFile,
    ) -> Result<(), Refusal> {
        let fail = |why| rename_failed(&backup.path, why);
        let (_, to) = self.source_and_target(direction);
        let partial = backup.partial();
        let there = to.hold(&partial).map_err(fail)?;
        if direction == Direction::Restore
            && there.is_some_and(|there| self.is_replaced(&there, backup))
        {
            // It was copied completely before an interruption.
            return Ok(());
        }
        match direction {
            Direction::Save => to.remove(&partial).map_err(fail)?,
            Direction::Restore => self.remove_staged(
                &partial,
                &[self.journal.replacements[backup.number]
                    .copy
                    .as_deref()
                    .copied()],
            )?,
        }
        let (_, to) = direction.source_and_target(&self.base, &self.store);
        let (dir, name) = to.locate(&partial).map_err(fail)?;
        let observer = &mut *self.observer;
        let on_copied = &mut |bytes| observer.copied(bytes);
        let made = copy_tree(held, (dir.as_fd(), name), &backup.path, on_copied)?;
        if direction == Direction::Restore {
            self.journal.replacements[backup.number].copy = Some(Box::new(made));
        }
        Ok(())
    }

    /// Gives the topmost directory of a copy its metadata, which may open it to others (R3).
    fn open_partial(&self, direction: Direction, backup: &Backup) -> Result<(), Refusal> {
        let fail = |why| rename_failed(&backup.path, why);
        let (from, to) = self.source_and_target(direction);
        let source = from.hold(&backup.from).map_err(fail)?;
        let partial = to.hold(&backup.partial()).map_err(fail)?;
        let (Some(source), Some(partial)) = (source, partial) else {
            return Ok(());
        };
        if !partial.stat.is_dir() || !source.stat.is_dir() {
            return Ok(());
        }
        if direction == Direction::Restore && !self.is_replaced(&partial, backup) {
            return Err(changed_meanwhile(&backup.path));
        }
        let attributes = source.attributes().map_err(fail)?;
        partial
            .apply_metadata(&attributes, None, false)
            .map_err(fail)
    }

    /// Gives a copy its own name.
    fn name_partial(&self, direction: Direction, backup: &Backup) -> Result<(), Refusal> {
        let fail = |why| rename_failed(&backup.path, why);
        let (_, to) = self.source_and_target(direction);
        let Some(partial) = to.hold(&backup.partial()).map_err(fail)? else {
            // It got its name before an interruption.
            return Ok(());
        };
        if direction == Direction::Restore && !self.is_replaced(&partial, backup) {
            return Err(changed_meanwhile(&backup.path));
        }
        let done = to.rename_held(&backup.partial(), (to, &backup.to), &partial);
        done.map_err(fail)
    }

    /// Removes a source that was copied.
    fn remove_source(
        &mut self,
        direction: Direction,
        backup: &Backup,
        (phase, done, of): (Phase, u64, u64),
    ) -> Result<(), Refusal> {
        let fail = |why| rename_failed(&backup.path, why);
        let (from, _) = self.source_and_target(direction);
        let rest = backup.leftover();
        if let Some(held) = from.hold(&backup.from).map_err(fail)? {
            if direction == Direction::Save && !self.is_replaced(&held, backup) {
                return Err(changed_meanwhile(&backup.path));
            }
            let done = from.rename_held(&backup.from, (from, &rest), &held);
            done.map_err(fail)?;
        }
        let Some(held) = from.hold(&rest).map_err(fail)? else {
            return Ok(());
        };
        if direction == Direction::Save && held.stat.is_dir() && !self.is_replaced(&held, backup) {
            return Err(changed_meanwhile(&backup.path));
        }
        let (from, _) = direction.source_and_target(&self.base, &self.store);
        let observer = &mut *self.observer;
        let mut keep_going = || observer.step(phase, done, of);
        let removed = from.remove_held(&rest, &held, &mut keep_going);
        self.stopped |= removed == Err(Errno::CANCELED);
        removed.map_err(|why| failed(&backup.path, why))
    }
}
