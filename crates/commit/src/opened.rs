// SPDX-License-Identifier: MIT OR Apache-2.0
//! Directories that their owner may not write, and in which a commit changes names all the same.
//!
//! # Rules
//! R1. An ordinary user's own directory gets `u+wx` for the time of the work, by a descriptor, and
//!     the mode that it is to have when the work is done. Directories of others stay as they are.
//! R2. The journal says which, before the first of them changes: what was interrupted opens them
//!     again, and closes them at its end.
//! R3. A mode that somebody else set meanwhile stays.

use crate::carry::Carry;
use crate::facts::{Attributes, Facts, Id};
use crate::held::Held;
use crate::journal::{Bytes, Journal, Opened, Touch};
use crate::lists;
use crate::messages::failed;
use crate::names::split;
use crate::refusal::Refusal;
use crate::tree::Tree;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The bits of a mode that chmod(2) sets.
const BITS: u32 = 0o7777;
/// What changing names takes.
const WRITES: u32 = 0o300;

impl Opened {
    /// A directory that the commit makes, and in which it changes names: it is made open.
    pub(crate) fn made(path: &[u8], id: Id, mode: u32) -> Option<Opened> {
        let mode = mode & BITS;
        let closed = mode & WRITES != WRITES && !rustix::process::geteuid().is_root();
        closed.then(|| Opened {
            before: path.to_vec(),
            after: path.to_vec(),
            id,
            modes: [mode; 2],
        })
    }

    /// Whether this is one of its modes with the bits that the work takes.
    fn is_open(&self, mode: u32) -> bool {
        let open = |closed: &u32| closed | WRITES == mode & BITS;
        self.modes.iter().any(open)
    }
}

/// The directories in which names change, and those that move elsewhere, as far as they are to be
/// opened (R1).
///
/// # Errors
/// One of them cannot be looked at.
pub(crate) fn needed(base: &Tree, journal: &Journal) -> Result<Vec<Opened>, Refusal> {
    let user = rustix::process::geteuid();
    let mut found: Vec<Opened> = Vec::new();
    let mut known = HashSet::new();
    if user.is_root() {
        return Ok(found);
    }
    let moved = journal.moves.iter();
    let moved = moved.filter(|moved| split(&moved.from).0 != split(&moved.to).0);
    let moved = moved.map(|moved| (&moved.from, &moved.to, moved.id));
    // Identities of one plan are alike only if they are equal.
    let after = journal.after.iter().map(|(path, id)| (*id, path));
    let after: HashMap<Id, &Bytes> = after.collect();
    let touches = journal.touches.iter().map(|touch| (touch.id, touch));
    let touches: HashMap<Id, &Touch> = touches.collect();
    let names = journal.before.iter();
    let names = names.map(|(path, id)| (path, after.get(id).copied().unwrap_or(path), *id));
    for (before, after, id) in names.chain(moved) {
        let facts = base.look(before).map_err(|why| failed(before, why))?;
        let own = |facts: &Facts| facts.is_dir() && facts.uid == user.as_raw();
        let Some(facts) = facts.filter(own) else {
            continue;
        };
        let touched = touches.get(&id);
        let mode = facts.mode & BITS;
        let last = touched.map_or(mode, |touch| touch.after.mode & BITS);
        if known.insert(id) && mode & last & WRITES != WRITES {
            found.push(Opened {
                before: before.clone(),
                after: after.clone(),
                id,
                modes: [mode, last],
            });
        }
    }
    Ok(found)
}

impl Carry<'_> {
    /// The directory of this identity, if it is opened.
    fn opened_as(&self, id: &Id) -> Option<&Opened> {
        let all = &self.journal.opened;
        let mut known = self.opened.borrow_mut();
        for (at, dir) in all.iter().enumerate().skip(known.length) {
            known.all.entry(dir.id.number).or_default().push(at);
        }
        known.length = all.len();
        let found = known.all.get(&id.number)?.iter().map(|at| &all[*at]);
        found.into_iter().find(|dir| dir.id.is(id))
    }

    /// Has attributes say `mode` of a directory that is open.
    pub(crate) fn as_closed(&self, id: &Id, now: &mut Attributes, mode: u32) {
        let opened = self.opened_as(id);
        if opened.is_some_and(|dir| dir.is_open(now.mode)) {
            now.mode = mode;
            if let Some(list) = now.xattrs.get_mut(lists::ACCESS) {
                let owner = u16::try_from(mode >> 6 & 7).unwrap_or_default();
                *list = lists::with_owner(list, owner);
            }
        }
    }

    /// Gives a new directory its attributes, open if it is to be.
    ///
    /// # Errors
    /// What [`Held::dress`] gives.
    pub(crate) fn dress_new(&self, held: &Held, attributes: &Attributes) -> rustix::io::Result<()> {
        let id = held.id();
        let mut attributes = Cow::Borrowed(attributes);
        if self.opened_as(&id).is_some() {
            attributes.to_mut().mode |= WRITES;
        }
        held.dress(&attributes, None, self.journal.any_owner)
    }

    /// Opens the directories that the journal names (R1).
    pub(crate) fn open_dirs(&self) -> Result<(), Refusal> {
        for dir in &self.journal.opened {
            let Some(held) = self.find(dir)? else {
                continue;
            };
            let mode = held.facts.mode & BITS;
            if mode & WRITES != WRITES && dir.modes.contains(&mode) {
                held.chmod(mode | WRITES)
                    .map_err(|why| failed(&dir.before, why))?;
            }
        }
        Ok(())
    }

    /// Gives them the modes that they have before the commit, or after it (R3).
    pub(crate) fn close_dirs(&self, forth: bool) -> Result<(), Refusal> {
        for dir in &self.journal.opened {
            let Some(held) = self.find(dir)? else {
                continue;
            };
            let mode = dir.modes[usize::from(forth)];
            if dir.is_open(held.facts.mode) && held.facts.mode & BITS != mode {
                held.chmod(mode).map_err(|why| failed(&dir.before, why))?;
            }
        }
        Ok(())
    }

    /// A directory, wherever it is by now.
    fn find(&self, dir: &Opened) -> Result<Option<Held>, Refusal> {
        self.base.forget();
        for path in [&dir.after, &dir.before] {
            let held = self.base.hold(path).map_err(|why| failed(path, why))?;
            if let Some(held) = held.filter(|held| held.id().is(&dir.id)) {
                return Ok(Some(held));
            }
        }
        Ok(None)
    }
}
