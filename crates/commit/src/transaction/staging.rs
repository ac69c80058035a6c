// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the new files of a commit completely under hidden names in the real tree, and removes what
//! is under such a name if it is the commit's own.
//!
//! # Rules
//! R1. All files for one name are made below one descriptor, in a directory that no other user can
//!     enter until the journal has its inode. A tree that another user puts under the hidden name
//!     gets nothing.
//! R2. Only a file that is provably the commit's own is removed from under a hidden name: the inode
//!     of the journal. After an interruption that is also a file that was born since the commit
//!     began, and such a directory if it belongs to this user and is closed to others. All others
//!     stay.

use crate::attributes::file_stat::{InodeId, are_one};
use crate::attributes::owner::is_own;
use crate::attributes::xattrs::Xattrs;
use crate::copies::copy::{copy, make_dir};
use crate::copies::privileges;
use crate::copies::stamp::Stamp;
use crate::host::held_file::HeldFile;
use crate::host::names::{names_in, split};
use crate::host::rename::{Name, rename_failed};
use crate::host::tree::Tree;
use crate::journal::{Bytes, Journal, Replace, WritableDir};
use crate::report::messages::{changed_meanwhile, failed};
use crate::report::phase::Phase;
use crate::report::refusal::Refusal;
use crate::scan::upper_file::UpperFile;
use crate::transaction::{AroundMoves, Transaction};
use rustix::fd::AsFd as _;
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};

/// First names of files with several names in the view; with the stamp of a file that the commit
/// made.
type FirstNames = HashMap<u64, (Bytes, InodeId, Option<Stamp>)>;

/// New directories that others move into.
struct MoveTargets {
    into: HashSet<Vec<u8>>,
    /// Those with times of their own, by the number in `mtimes`.
    mtimes: HashMap<Bytes, usize>,
}

impl MoveTargets {
    /// Whether the commit makes this directory, and another one moves into it.
    fn is_new(&self, path: &[u8]) -> bool {
        self.into.contains(path) && self.mtimes.contains_key(path)
    }

    fn of(journal: &Journal) -> MoveTargets {
        let moves = journal.moves.iter();
        let mtimes = journal.mtimes.iter().enumerate();
        let mtimes = mtimes.filter(|(_, restore)| restore.is_new);
        MoveTargets {
            into: moves.map(|moved| split(&moved.to).0.to_vec()).collect(),
            mtimes: mtimes
                .map(|(number, restore)| (restore.path.clone(), number))
                .collect(),
        }
    }
}

impl Transaction<'_> {
    /// Makes all new files.
    pub(crate) fn prepare(&mut self) -> Result<(), Refusal> {
        self.restart()?;
        let targets = MoveTargets::of(&self.journal);
        let links = self.journal.links.iter();
        let links = links.map(|link| (link.number, (link.place.clone(), link.id, None)));
        let mut first: FirstNames = links.collect();
        let all = self
            .journal
            .replacements
            .iter()
            .map(|replace| replace.items.len() as u64);
        let all: u64 = all.sum();
        let mut made = 0;
        for number in 0..self.journal.replacements.len() {
            let replace = self.journal.replacements[number].clone();
            if !replace.items.is_empty() {
                let (id, stamps) =
                    self.make_items(&replace, (&targets, &mut first), (&mut made, all))?;
                let replace = &mut self.journal.replacements[number];
                (replace.new, replace.stamps) = (Some(id), stamps);
            }
        }
        self.step(Phase::Copying, made, all)
    }

    /// Removes files that were made before an interruption, and clears their inodes in the journal.
    fn restart(&mut self) -> Result<(), Refusal> {
        let mut recorded = false;
        // New directories are recorded again.
        let targets = MoveTargets::of(&self.journal);
        self.journal
            .after
            .retain(|(known, _)| !targets.is_new(known));
        for number in 0..self.journal.replacements.len() {
            let replace = &self.journal.replacements[number];
            if !replace.items.is_empty() {
                self.remove_staged(&replace.before, &[replace.new])?;
                recorded |= replace.new != Some(InodeId::default());
                let replace = &mut self.journal.replacements[number];
                (replace.new, replace.stamps) = (Some(InodeId::default()), Vec::new());
            }
        }
        match recorded {
            true => self.commit_dir.write(&self.journal),
            false => Ok(()),
        }
    }

    /// Makes the items of one replacement; returns the inode of the topmost one, and all stamps.
    fn make_items(
        &mut self,
        replace: &Replace,
        (targets, first): (&MoveTargets, &mut FirstNames),
        (made, all): (&mut u64, u64),
    ) -> Result<(InodeId, Vec<Option<Stamp>>), Refusal> {
        self.step(Phase::Copying, *made, all)?;
        let (dir, name) = self.parent(&replace.before, AroundMoves::Before)?;
        let Some((top, below)) = replace.items.split_first() else {
            return Err(failed(&replace.path, Errno::NOENT));
        };
        let (source, upper_file) = self.hold_upper_file(top)?;
        *made += 1;
        if !upper_file.stat.is_dir() {
            let to = (dir.as_fd(), &name[..]);
            let (id, stamp) = self.make_file(
                to,
                (top, &replace.before),
                (&source, &upper_file, &replace.kept),
                first,
            )?;
            return Ok((id, vec![stamp]));
        }
        let held = make_dir(dir.as_fd(), &name).map_err(|why| rename_failed(top, why))?;
        let id = held.id();
        self.record_new_dir(targets, top, (id, upper_file.stat.mode));
        // R1
        let stage = Tree::at(held.into_fd());
        let mut stamps = vec![None];
        let mut dirs = Vec::new();
        for item in below {
            self.step(Phase::Copying, *made, all)?;
            *made += 1;
            let within = &item[replace.path.len()..];
            let place = [&replace.before[..], within].concat();
            let none = Xattrs::default();
            let (source, upper_file) = self.hold_upper_file(item)?;
            let (dir, name) = stage.locate(within).map_err(|why| failed(item, why))?;
            if upper_file.stat.is_dir() {
                let held = make_dir(dir.as_fd(), name).map_err(|why| rename_failed(item, why))?;
                self.record_new_dir(targets, item, (held.id(), upper_file.stat.mode));
                stamps.push(None);
                dirs.push(item);
            } else {
                let (_, stamp) = self.make_file(
                    (dir.as_fd(), name),
                    (item, &place),
                    (&source, &upper_file, &none),
                    first,
                )?;
                stamps.push(stamp);
            }
        }
        for item in dirs.into_iter().rev() {
            let (_, upper_file) = self.hold_upper_file(item)?;
            let apply_metadata = || {
                let held = stage
                    .hold(&item[replace.path.len()..])?
                    .ok_or(Errno::STALE)?;
                self.apply_metadata_to_new(&held, &upper_file.attributes())
            };
            apply_metadata().map_err(|why| rename_failed(item, why))?;
        }
        Ok((id, stamps))
    }

    /// Makes a file other than a directory, as a further name of another one where it is one;
    /// `source`: it in the view; `kept`: attributes besides those of the view.
    fn make_file(
        &mut self,
        to: Name<'_>,
        (item, place): (&[u8], &[u8]),
        (source, upper_file, kept): (&HeldFile, &UpperFile, &Xattrs),
        first: &mut FirstNames,
    ) -> Result<(InodeId, Option<Stamp>), Refusal> {
        if upper_file.stat.nlink > 1
            && let Some((known, id, stamp)) = first.get(&upper_file.stat.ino)
        {
            let held = self.base.hold(known).map_err(|why| failed(item, why))?;
            let held = held.filter(|held| held.id().matches(id));
            let held = held.ok_or_else(|| changed_meanwhile(known))?;
            let follow = AtFlags::SYMLINK_FOLLOW;
            match rustix::fs::linkat(CWD, held.path(), to.0, to.1, follow) {
                Ok(()) => return Ok((held.id(), stamp.clone())),
                // One file cannot have names in two file systems.
                Err(Errno::XDEV | Errno::MLINK) => {}
                Err(why) => return Err(failed(item, why)),
            }
        }
        let observer = &mut *self.observer;
        let (mut attributes, any) = (upper_file.attributes(), self.journal.any_owner);
        for (name, value) in kept.iter() {
            attributes.xattrs.insert(name, value);
        }
        let made = copy(
            source,
            to,
            &privileges::without(&attributes),
            any,
            &mut |bytes| observer.copied(bytes),
        );
        let (id, stamp) = made.map_err(|why| rename_failed(item, why))?;
        let stamp = Some(stamp.with_privileges(&attributes));
        if upper_file.stat.nlink > 1 {
            first.insert(upper_file.stat.ino, (place.into(), id, stamp.clone()));
        }
        Ok((id, stamp))
    }

    /// Records the inode of a new directory, for later changes in it and to it.
    fn record_new_dir(&mut self, targets: &MoveTargets, path: &[u8], (id, mode): (InodeId, u32)) {
        if let Some(number) = targets.mtimes.get(path) {
            self.journal.mtimes[*number].id = Some(id);
        }
        if targets.into.contains(path) {
            self.journal.after.push((path.into(), id));
            self.journal
                .opened
                .extend(WritableDir::made(path, id, mode));
        }
    }

    /// Gives new directories their metadata, once the journal has their inodes (R1).
    pub(crate) fn apply_top_metadata(&mut self) -> Result<(), Refusal> {
        for replace in &self.journal.replacements {
            // Of what was made, a directory has no stamp.
            let (Some(top), Some(None)) = (replace.items.first(), replace.stamps.first()) else {
                continue;
            };
            let (_, upper_file) = self.hold_upper_file(top)?;
            if !upper_file.stat.is_dir() {
                continue;
            }
            let (dir, name) = self.parent(&replace.before, AroundMoves::Before)?;
            let held = HeldFile::open(&*dir, &name).map_err(|why| failed(top, why))?;
            let held = held.filter(|held| are_one(Some(held.id()), replace.new));
            let held = held.ok_or_else(|| changed_meanwhile(&replace.before))?;
            let done = self.apply_metadata_to_new(&held, &upper_file.attributes());
            done.map_err(|why| rename_failed(top, why))?;
        }
        Ok(())
    }

    /// Holds the file of the view at a path, and reads it.
    fn hold_upper_file(&self, item: &[u8]) -> Result<(HeldFile, UpperFile), Refusal> {
        let fail = |why| failed(item, why);
        let held = self.upper.hold(item).map_err(fail)?;
        let held = held.ok_or_else(|| fail(Errno::NOENT))?;
        let upper_file = UpperFile::read(&held, self.upper.marks).map_err(fail)?;
        Ok((held, upper_file))
    }

    /// Removes the file under a hidden name of the real tree, if it may be removed (R2). `own`: the
    /// inodes that the journal has for it.
    pub(crate) fn remove_staged(
        &self,
        path: &[u8],
        own: &[Option<InodeId>],
    ) -> Result<(), Refusal> {
        let fail = |why| failed(path, why);
        let Some(held) = self.base.hold(path).map_err(fail)? else {
            return Ok(());
        };
        let id = held.id();
        let known = own.iter().flatten().any(|own| own.matches(&id));
        // A further name of a file is the commit's own if another one is left.
        let known = known || held.stat.nlink > 1 && self.is_link(&id);
        let recorded = own.iter().flatten().any(|own| own.number != 0);
        let since = held.stat.btime.map(|born| born >= self.journal.began);
        let ours = match held.stat.is_dir() {
            _ if recorded => false,
            true => {
                let empty = || names_in(held.fd()).is_ok_and(|names| names.is_empty());
                let closed = is_own(held.stat.uid) && held.stat.mode & 0o077 == 0;
                closed && (since == Some(true) || empty())
            }
            false => since != Some(false),
        };
        if !known && !ours {
            return Ok(());
        }
        privileges::take(&held);
        let removed = self.base.remove_held(path, &held, &mut || true);
        removed.map_err(fail)
    }
}
