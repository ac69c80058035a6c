// SPDX-License-Identifier: MIT OR Apache-2.0
//! New files, made whole under hidden names.
//!
//! # Rules
//! R1. What is made for one name is made below one descriptor, in a directory that nobody else can
//!     enter until the journal says which inode it is. A tree that another user puts under the
//!     hidden name gets nothing.
//! R2. Only what is provably the commit's own is removed from under a hidden name: the inode of the
//!     journal. After an interruption that is also a file that was born since the commit began, and
//!     such a directory if it belongs to this user and is closed to others. All else stays where it
//!     is.

use crate::carry::{Carry, When};
use crate::copy::{copy, make_dir};
use crate::facts::Id;
use crate::held::Held;
use crate::journal::{Act, Journal, Opened};
use crate::messages::{changed, failed};
use crate::names::{join, names_in, split};
use crate::noted::Noted;
use crate::notes::is_own;
use crate::phase::Phase;
use crate::refusal::Refusal;
use crate::remove;
use crate::rename::{Name, said};
use crate::stamp::Stamp;
use crate::tree::Tree;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};

/// Names of files that others of the view are to be names of as well; with the stamp of a file that
/// the commit made.
type First = HashMap<u64, (Vec<u8>, Id, Option<Stamp>)>;

/// New directories that something moves into.
struct Goals {
    into: HashSet<Vec<u8>>,
    /// Those with times of their own, by the number of their moments.
    moments: HashMap<Vec<u8>, usize>,
}

impl Goals {
    /// Whether the commit makes a directory, into which something moves.
    fn is_new(&self, path: &[u8]) -> bool {
        self.into.contains(path) && self.moments.contains_key(path)
    }

    fn of(journal: &Journal) -> Goals {
        let moves = journal.moves.iter();
        let moments = journal.moments.iter().enumerate();
        let moments = moments.filter(|(_, moment)| moment.is_new);
        Goals {
            into: moves.map(|moved| split(&moved.to).0.to_vec()).collect(),
            moments: moments
                .map(|(number, moment)| (moment.path.clone(), number))
                .collect(),
        }
    }
}

impl Carry<'_> {
    /// Makes all that is new.
    pub(crate) fn prepare(&mut self) -> Result<(), Refusal> {
        self.start_again()?;
        let goals = Goals::of(&self.journal);
        let links = self.journal.links.iter();
        let links = links.map(|link| (link.number, (link.place.clone(), link.id, None)));
        let mut first: First = links.collect();
        let all = self.journal.acts.iter().map(|act| act.items.len() as u64);
        let all: u64 = all.sum();
        let mut made = 0;
        for number in 0..self.journal.acts.len() {
            let act = self.journal.acts[number].clone();
            if !act.items.is_empty() {
                let (id, stamps) = self.make(&act, (&goals, &mut first), (&mut made, all))?;
                let act = &mut self.journal.acts[number];
                (act.new, act.stamps) = (Some(id), stamps);
            }
        }
        self.step(Phase::Copying, made, all)
    }

    /// Removes what was made before an interruption, and forgets which inodes that were.
    fn start_again(&mut self) -> Result<(), Refusal> {
        let mut recorded = false;
        // Those that are made are found again.
        let goals = Goals::of(&self.journal);
        self.journal.after.retain(|(known, _)| !goals.is_new(known));
        for number in 0..self.journal.acts.len() {
            let act = &self.journal.acts[number];
            if !act.items.is_empty() {
                self.remove_staged(&act.before, &[act.new])?;
                recorded |= act.new != Some(Id::default());
                let act = &mut self.journal.acts[number];
                (act.new, act.stamps) = (Some(Id::default()), Vec::new());
            }
        }
        match recorded {
            true => self.place.write(&self.journal),
            false => Ok(()),
        }
    }

    /// Makes what one act is for; which inode it is, and the stamps of its items.
    fn make(
        &mut self,
        act: &Act,
        (goals, first): (&Goals, &mut First),
        (made, all): (&mut u64, u64),
    ) -> Result<(Id, Vec<Option<Stamp>>), Refusal> {
        self.step(Phase::Copying, *made, all)?;
        let (dir, name) = self.at(&act.before, When::Before)?;
        let Some((top, below)) = act.items.split_first() else {
            return Err(failed(&act.path, Errno::NOENT));
        };
        let noted = self.noted(top)?;
        *made += 1;
        if !noted.facts.is_dir() {
            let to = (dir.as_fd(), &name[..]);
            let (id, stamp) = self.file(to, (top, &act.before), &noted, first)?;
            return Ok((id, vec![stamp]));
        }
        let held = make_dir(dir.as_fd(), &name).map_err(|why| said(top, why))?;
        let id = held.id();
        self.made(goals, top, (id, noted.facts.mode));
        // R1
        let stage = Tree::at(held.into_fd());
        let mut stamps = vec![None];
        for item in below {
            self.step(Phase::Copying, *made, all)?;
            *made += 1;
            let within = &item[act.path.len()..];
            let place = [&act.before[..], within].concat();
            let noted = self.noted(item)?;
            let (dir, name) = stage.spot(within).map_err(|why| failed(item, why))?;
            if noted.facts.is_dir() {
                let held = make_dir(dir.as_fd(), name).map_err(|why| said(item, why))?;
                self.made(goals, item, (held.id(), noted.facts.mode));
                stamps.push(None);
            } else {
                let (_, stamp) = self.file((dir.as_fd(), name), (item, &place), &noted, first)?;
                stamps.push(stamp);
            }
        }
        for item in below.iter().rev() {
            let noted = self.noted(item)?;
            if noted.facts.is_dir() {
                let dress = || {
                    let held = stage.hold(&item[act.path.len()..])?.ok_or(Errno::STALE)?;
                    self.dress_new(&held, &noted.attributes)
                };
                dress().map_err(|why| said(item, why))?;
            }
        }
        Ok((id, stamps))
    }

    /// Makes anything but a directory, as a further name of a file where it is one.
    fn file(
        &mut self,
        to: Name<'_>,
        (item, place): (&[u8], &[u8]),
        noted: &Noted,
        first: &mut First,
    ) -> Result<(Id, Option<Stamp>), Refusal> {
        if noted.facts.nlink > 1
            && let Some((known, id, stamp)) = first.get(&noted.facts.ino)
        {
            let held = self.base.hold(known).map_err(|why| failed(item, why))?;
            let held = held.filter(|held| held.id().is(id));
            let held = held.ok_or_else(|| changed(known))?;
            let follow = AtFlags::SYMLINK_FOLLOW;
            match rustix::fs::linkat(CWD, held.path(), to.0, to.1, follow) {
                Ok(()) => return Ok((held.id(), stamp.clone())),
                // One file cannot have names in two file systems.
                Err(Errno::XDEV | Errno::MLINK) => {}
                Err(why) => return Err(failed(item, why)),
            }
        }
        let source = self.upper.hold(item).map_err(|why| failed(item, why))?;
        let source = source.ok_or_else(|| failed(item, Errno::NOENT))?;
        let watch = &mut *self.watch;
        let (attributes, any) = (&noted.attributes, self.journal.any_owner);
        let made = copy(&source, to, attributes, any, &mut |bytes| {
            watch.copied(bytes)
        });
        let (id, stamp) = made.map_err(|why| said(item, why))?;
        let stamp = Some(stamp);
        if noted.facts.nlink > 1 {
            first.insert(noted.facts.ino, (place.to_vec(), id, stamp.clone()));
        }
        Ok((id, stamp))
    }

    /// Notes which inode a new directory is, for what is done in it and to it later.
    fn made(&mut self, goals: &Goals, path: &[u8], (id, mode): (Id, u32)) {
        if let Some(number) = goals.moments.get(path) {
            self.journal.moments[*number].id = Some(id);
        }
        if goals.into.contains(path) {
            self.journal.after.push((path.to_vec(), id));
            self.journal.opened.extend(Opened::made(path, id, mode));
        }
    }

    /// Gives new directories their attributes, once the journal says which inodes they are (R1).
    pub(crate) fn open_tops(&mut self) -> Result<(), Refusal> {
        for act in &self.journal.acts {
            let Some(top) = act.items.first() else {
                continue;
            };
            let noted = self.noted(top)?;
            if !noted.facts.is_dir() {
                continue;
            }
            let (dir, name) = self.at(&act.before, When::Before)?;
            let held = Held::open(&*dir, &name).map_err(|why| failed(top, why))?;
            let held = held.filter(|held| act.new.is_some_and(|new| held.id().is(&new)));
            let held = held.ok_or_else(|| changed(&act.before))?;
            let done = self.dress_new(&held, &noted.attributes);
            done.map_err(|why| said(top, why))?;
        }
        Ok(())
    }

    /// What the view has at a path.
    pub(crate) fn noted(&self, item: &[u8]) -> Result<Noted, Refusal> {
        let said = |why| failed(item, why);
        let held = self.upper.hold(item).map_err(said)?;
        let held = held.ok_or_else(|| said(Errno::NOENT))?;
        Noted::read(&held).map_err(said)
    }

    /// Removes what is under a hidden name of the real tree, if it may be (R2). `own`: the inodes
    /// that the journal has for it.
    pub(crate) fn remove_staged(&self, path: &[u8], own: &[Option<Id>]) -> Result<(), Refusal> {
        let fail = |why| failed(path, why);
        let Some(held) = self.base.hold(path).map_err(fail)? else {
            return Ok(());
        };
        let id = held.id();
        let known = own.iter().flatten().any(|own| own.is(&id));
        // A further name of a file is the commit's own if another one is left.
        let known = known || held.facts.nlink > 1 && self.is_link(&id);
        let recorded = own.iter().flatten().any(|own| own.number != 0);
        let since = held.facts.btime.map(|born| born >= self.journal.began);
        let ours = match held.facts.is_dir() {
            _ if recorded => false,
            true => {
                let empty = || names_in(held.fd()).is_ok_and(|names| names.is_empty());
                let closed = is_own(&held) && held.facts.mode & 0o077 == 0;
                closed && (since == Some(true) || empty())
            }
            false => since != Some(false),
        };
        if !known && !ours {
            return Ok(());
        }
        // All that is in the directory that is held goes; then its name, if it is that one's.
        if held.facts.is_dir() {
            remove::let_in(held.fd()).map_err(fail)?;
            let within = Tree::at(clone(&held).map_err(fail)?);
            for name in names_in(held.fd()).map_err(fail)? {
                within.remove(&join(b"", &name)).map_err(fail)?;
            }
        }
        let (dir, name) = self.base.spot(path).map_err(fail)?;
        let flags = match held.facts.is_dir() {
            true => AtFlags::REMOVEDIR,
            false => AtFlags::empty(),
        };
        self.base.forget();
        rustix::fs::unlinkat(&*dir, name, flags).map_err(fail)
    }
}

fn clone(held: &Held) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(held.fd(), ".", flags, Mode::empty())
}
