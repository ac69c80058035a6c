// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds the changes that a rollback cannot put back, and keeps the old content of those files in
//! the view's directory.
//!
//! # Rules
//! R1. A change is out of reach if its directory is not the inode of the journal any more: others
//!     moved, removed or replaced it. Where the directory is now is unknown. A directory that the
//!     commit itself removed comes back before others move back into it.
//! R2. It is also out of reach if the old content is neither in the view nor under one of its
//!     names.
//! R3. Without force such a change refuses the rollback. With force the rest is rolled back, and
//!     backups of the view that are left stay in `old-content` of the view's directory.
//! R4. A directory that cannot be moved back stays where the commit put it, and so do the new
//!     directories that it is in.
//! R5. Where an interruption leaves open whether a change was made, it counts as made.

use crate::attributes::file_stat::{InodeId, are_one};
use crate::attributes::owner::is_own;
use crate::host::held_file::HeldFile;
use crate::host::names::{at_and_above, join, split};
use crate::journal::{Replace, State};
use crate::kept::OLD_CONTENT;
use crate::report::messages::{failed, public_path};
use crate::report::path_bytes::{PathBytes, path_of};
use crate::report::printable::printable;
use crate::report::refusal::Refusal;
use crate::transaction::not_undone::{NotUndone, NotUndoneReason, OutOfReach};
use crate::transaction::{AroundMoves, Transaction, store_path, when_hidden};
use rustix::fd::AsFd as _;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// A path, and where its old content is, for the list in the view's directory.
fn listed(left: &NotUndone) -> [String; 2] {
    let kept = left.kept.as_ref().map(|path| path.as_os_str().as_bytes());
    let place = kept.or(left.hidden.as_ref().map(PathBytes::bytes));
    [left.path.bytes(), place.unwrap_or_default()].map(printable)
}

impl Transaction<'_> {
    /// Finds what a rollback from this state cannot put back (R1, R2, R4).
    pub(crate) fn find_out_of_reach(&mut self, state: State) -> Result<(), Refusal> {
        let mut found = OutOfReach::default();
        if state == State::Preparing {
            // No name was exchanged yet.
            self.out_of_reach = found;
            return Ok(());
        }
        self.base.forget_paths();
        // Directories that are nearest to the root move back first.
        for number in (0..self.journal.moves.len()).rev() {
            if let Some(why) = self.is_move_out_of_reach(number, &found, state)? {
                found.moves.insert(number, why);
            }
        }
        for (number, replace) in self.journal.replacements.iter().enumerate() {
            let moved = self.move_of(replace);
            let stays = match moved {
                Some(at) if found.moves.contains_key(&at) => {
                    self.has_id(&replace.path, &self.journal.moves[at].id)?
                }
                _ => false,
            };
            let why = match stays {
                true => Some(NotUndoneReason::Directory),
                false => self.is_out_of_reach(number, state)?,
            };
            if let Some(why) = why {
                found.replacements.insert(number, why);
                if let Some(at) = moved {
                    found.moves.entry(at).or_insert(why);
                }
            }
        }
        let stuck: Vec<_> = found.moves.iter().map(|(at, why)| (*at, *why)).collect();
        for (at, why) in stuck {
            let moved = &self.journal.moves[at];
            if self.has_id(&moved.to, &moved.id)? {
                // R4
                let above = at_and_above(split(&moved.to).0);
                for number in above.filter_map(|path| self.replacement_at(path)) {
                    // A directory that moves back takes it along.
                    if !self.journal.replacements[number].items.is_empty() {
                        found.replacements.entry(number).or_insert(why);
                    }
                }
            }
        }
        for (number, attrs) in self.journal.set_attrs.iter().enumerate() {
            if self.has_id(&attrs.path, &attrs.id)? || self.has_id(&attrs.place, &attrs.id)? {
                continue;
            }
            let dir = self.find_parent(&attrs.path, AroundMoves::After)?;
            let is_moved_back = self.is_moved_back(&attrs.path)?;
            let why = match (dir, state) {
                (None, _) if !is_moved_back => NotUndoneReason::Directory,
                (_, State::Applying | State::Undoing) => continue,
                _ => NotUndoneReason::File,
            };
            found.set_attrs.insert(number, why);
        }
        self.out_of_reach = found;
        Ok(())
    }

    fn has_id(&self, path: &[u8], id: &InodeId) -> Result<bool, Refusal> {
        let there = self.base.id(path).map_err(|why| failed(path, why))?;
        Ok(are_one(there, Some(*id)))
    }

    /// The number of the move that puts a directory under the name of this replacement.
    fn move_of(&self, replace: &Replace) -> Option<usize> {
        let is_move = replace.items.is_empty() && replace.new.is_some();
        is_move.then(|| self.moves().to(&replace.path)).flatten()
    }

    /// Whether a directory that the commit moves cannot be moved back.
    fn is_move_out_of_reach(
        &self,
        number: usize,
        found: &OutOfReach,
        state: State,
    ) -> Result<Option<NotUndoneReason>, Refusal> {
        let moved = &self.journal.moves[number];
        if self.has_id(&moved.from, &moved.id)? {
            return Ok(None);
        }
        if !self.has_id(&moved.stage, &moved.id)? && !self.has_id(&moved.to, &moved.id)? {
            return Ok(Some(NotUndoneReason::File));
        }
        let outer = self.moves().by_source_above(&moved.from);
        // A directory that moves back before this one has its old directory in it.
        let is_lost = match outer.map(|outer| (outer, &self.journal.moves[outer])) {
            Some((outer, _)) if found.moves.contains_key(&outer) => true,
            Some((_, outer)) if !self.has_id(&outer.from, &outer.id)? => false,
            _ => {
                let parent = self.find_parent(&moved.from, AroundMoves::Before)?;
                parent.is_none() && !self.comes_back(split(&moved.from).0, state)?
            }
        };
        Ok(is_lost.then_some(NotUndoneReason::Directory))
    }

    /// Whether a directory that the commit removed with what is at this path comes back.
    fn comes_back(&self, path: &[u8], state: State) -> Result<bool, Refusal> {
        let Some(number) = at_and_above(path).find_map(|path| self.replacement_at(path)) else {
            return Ok(false);
        };
        let replace = &self.journal.replacements[number];
        Ok(replace.old.is_some() && self.is_out_of_reach(number, state)?.is_none())
    }

    /// Whether a directory with this path moved back, or has not moved yet: what is in it, and
    /// itself, is as before the commit.
    pub(crate) fn is_moved_back(&self, path: &[u8]) -> Result<bool, Refusal> {
        for number in self.moves().to_or_above(path) {
            let moved = &self.journal.moves[number];
            if self.has_id(&moved.stage, &moved.id)? || self.has_id(&moved.from, &moved.id)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_out_of_reach(
        &self,
        number: usize,
        state: State,
    ) -> Result<Option<NotUndoneReason>, Refusal> {
        let replace = &self.journal.replacements[number];
        if self.is_moved_back(&replace.path)? {
            return Ok(None);
        }
        let dir = self.find_parent(&replace.path, AroundMoves::After)?;
        let beside = self.find_parent(&replace.hidden, when_hidden(replace))?;
        let (Some(dir), Some(beside)) = (dir, beside) else {
            return Ok(Some(NotUndoneReason::Directory));
        };
        if replace.old.is_none() || replace.old == replace.new {
            return Ok(None);
        }
        let fail = |why| failed(&replace.path, why);
        let aside = [&beside.1[..], b"+"].concat();
        let names = [
            (&dir.0, &dir.1),
            (&beside.0, &beside.1),
            (&beside.0, &aside),
        ];
        for (dir, name) in names {
            let held = HeldFile::open(&**dir, name).map_err(fail)?;
            let ids = [replace.old, replace.copy.as_deref().copied()];
            if held.is_some_and(|held| ids.iter().flatten().any(|id| held.id().matches(id))) {
                return Ok(None);
            }
        }
        if self.has_backup(number)? {
            return Ok(None);
        }
        let why = Some(NotUndoneReason::OldContent);
        if !matches!(state, State::Applying | State::Undoing) || self.kept_backup(number)?.is_some()
        {
            return Ok(why);
        }
        // A name without the new file was not exchanged, or is restored.
        let there = HeldFile::open(&*dir.0, &dir.1).map_err(fail)?;
        let there = there.map(|there| there.id());
        Ok(why.filter(|_| are_one(there, replace.new)))
    }

    /// Whether the commit's directory has the backup of a replacement.
    pub(crate) fn has_backup(&self, number: usize) -> Result<bool, Refusal> {
        let path = store_path("old", number);
        let held = self.store.hold(&path).map_err(|why| failed(&path, why))?;
        Ok(held.is_some())
    }

    /// The backup of a replacement that an earlier rollback kept (R3).
    fn kept_backup(&self, number: usize) -> Result<Option<Vec<u8>>, Refusal> {
        let path = join(&self.old_content(), number.to_string().as_bytes());
        let records = &self.commit_dir.records;
        let held = records.tree.hold(&path);
        let held = held.map_err(|why| records.failed(&path, why))?;
        Ok(held.map(|_| path))
    }

    /// Where the old content of this commit is kept, in the view's directory.
    fn old_content(&self) -> Vec<u8> {
        let dir = join(b"", OLD_CONTENT.as_bytes());
        join(&dir, self.journal.id.as_bytes())
    }

    /// Moves the backups that are left to where a view keeps them, and lists beside them where the
    /// old content of each path is (R3).
    pub(crate) fn keep_old_content(&self) -> Result<(), Refusal> {
        let mut left = false;
        for number in self.out_of_reach.replacements.keys() {
            left |= self.has_backup(*number)?;
        }
        if self.out_of_reach.is_empty() {
            return Ok(());
        }
        let records = &self.commit_dir.records;
        let to = self.old_content();
        let fail = |why| records.failed(&to, why);
        let dir = join(b"", OLD_CONTENT.as_bytes());
        let (above, name) = records.tree.locate(&dir).map_err(fail)?;
        // Backups keep their own permissions, so the directory is closed to others.
        match rustix::fs::mkdirat(above.as_fd(), name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(why) => return Err(fail(why)),
        }
        let held = records.tree.hold(&dir).map_err(fail)?;
        if !held.is_some_and(|held| held.stat.is_dir() && is_own(held.stat.uid)) {
            return Err(fail(Errno::PERM));
        }
        if left {
            // As a whole: an ordinary user cannot move a directory without write permission.
            let moved = self.store.rename_to(b"/old", &records.tree, &to);
            moved.map_err(fail)?;
        }
        let list: Vec<[String; 2]> = self.not_undone()?.iter().map(listed).collect();
        records.write(&[&to[..], b".json"].concat(), &list)
    }

    /// What was found out of reach, by path, with where its old content is now.
    pub(crate) fn not_undone(&self) -> Result<Vec<NotUndone>, Refusal> {
        let records = &self.commit_dir.records;
        let in_view = |path: &[u8]| {
            let path = path.strip_prefix(b"/").unwrap_or(path);
            records.path.join(OsStr::from_bytes(path))
        };
        let mut all = Vec::new();
        for (number, reason) in &self.out_of_reach.replacements {
            let replace = &self.journal.replacements[*number];
            let kept = match self.has_backup(*number)? {
                true => {
                    let path = store_path("old", *number);
                    Some(in_view(&[self.commit_dir.name, &path[..]].concat()))
                }
                false => self.kept_backup(*number)?.map(|path| in_view(&path)),
            };
            let is_hidden = kept.is_none() && *reason == NotUndoneReason::Directory;
            let hidden = is_hidden && replace.old.is_some();
            all.push(NotUndone {
                path: public_path(&replace.path),
                reason: *reason,
                kept,
                hidden: hidden.then(|| path_of(&replace.hidden)),
            });
        }
        for (number, reason) in &self.out_of_reach.moves {
            let moved = &self.journal.moves[*number];
            let waits = self.has_id(&moved.stage, &moved.id)?;
            all.push(NotUndone {
                path: public_path(&moved.to),
                reason: *reason,
                kept: waits.then(|| public_path(&moved.stage).path().to_owned()),
                hidden: None,
            });
        }
        for (number, reason) in &self.out_of_reach.set_attrs {
            all.push(NotUndone {
                path: public_path(&self.journal.set_attrs[*number].path),
                reason: *reason,
                kept: None,
                hidden: None,
            });
        }
        // Of several about one path, the one that names the old content.
        all.sort_by_key(|one| (one.path.bytes().to_vec(), one.kept.is_none()));
        all.dedup_by(|a, b| a.path == b.path);
        Ok(all)
    }
}
