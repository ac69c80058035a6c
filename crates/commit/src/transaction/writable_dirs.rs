// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes directories writable for their owner while a commit changes names in them.
//!
//! # Rules
//! R1. An ordinary user's own directory gets `u+wx` while the commit works, by a descriptor, and
//!     its final mode when the work is done. Directories of others stay as they are.
//! R2. The journal lists them before the first one changes. An interrupted commit makes them
//!     writable again, and restores their modes at its end.
//! R3. A mode that others set meanwhile stays.

use crate::attributes::acl;
use crate::attributes::file_stat::{Attributes, FileStat, InodeId};
use crate::host::held_file::HeldFile;
use crate::host::names::split;
use crate::host::tree::Tree;
use crate::journal::{Bytes, Journal, SetAttrs, WritableDir};
use crate::report::messages::failed;
use crate::report::refusal::Refusal;
use crate::transaction::Transaction;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The bits of a mode that chmod(2) sets.
const BITS: u32 = 0o7777;
/// The bits that changing names needs.
const WRITES: u32 = 0o300;

impl WritableDir {
    /// A directory that the commit makes and in which it changes names: it is made writable.
    pub(crate) fn made(path: &[u8], id: InodeId, mode: u32) -> Option<WritableDir> {
        let mode = mode & BITS;
        let closed = mode & WRITES != WRITES && !rustix::process::geteuid().is_root();
        closed.then(|| WritableDir {
            before: path.into(),
            after: path.into(),
            id,
            modes: [mode; 2],
        })
    }

    /// Whether this is one of its modes with the added bits.
    fn is_open(&self, mode: u32) -> bool {
        let open = |closed: &u32| closed | WRITES == mode & BITS;
        self.modes.iter().any(open)
    }
}

/// The directories to make writable: those in which names change, and those that move elsewhere
/// (R1).
///
/// # Errors
/// One of them cannot be looked at.
pub(crate) fn find(base: &Tree, journal: &Journal) -> Result<Vec<WritableDir>, Refusal> {
    let user = rustix::process::geteuid();
    let mut found: Vec<WritableDir> = Vec::new();
    let mut known = HashSet::new();
    if user.is_root() {
        return Ok(found);
    }
    let moved = journal.moves.iter();
    let moved = moved.filter(|moved| split(&moved.from).0 != split(&moved.to).0);
    let moved = moved.map(|moved| (&moved.from, &moved.to, moved.id));
    // Identities of one plan match only if they are equal.
    let after = journal.after.iter().map(|(path, id)| (*id, path));
    let after: HashMap<InodeId, &Bytes> = after.collect();
    let set_attrs = journal.set_attrs.iter().map(|attrs| (attrs.id, attrs));
    let set_attrs: HashMap<InodeId, &SetAttrs> = set_attrs.collect();
    let names = journal.before.iter();
    let names = names.map(|(path, id)| (path, after.get(id).copied().unwrap_or(path), *id));
    for (before, after, id) in names.chain(moved) {
        let stat = base.stat(before).map_err(|why| failed(before, why))?;
        let own = |stat: &FileStat| stat.is_dir() && stat.uid == user.as_raw();
        let Some(stat) = stat.filter(own) else {
            continue;
        };
        let changed = set_attrs.get(&id);
        let mode = stat.mode & BITS;
        let last = changed.map_or(mode, |attrs| attrs.after.mode & BITS);
        if known.insert(id) && mode & last & WRITES != WRITES {
            found.push(WritableDir {
                before: before.clone(),
                after: after.clone(),
                id,
                modes: [mode, last],
            });
        }
    }
    Ok(found)
}

impl Transaction<'_> {
    /// The writable directory with this identity, if there is one.
    fn opened_as(&self, id: &InodeId) -> Option<&WritableDir> {
        let all = &self.journal.opened;
        let mut known = self.opened.borrow_mut();
        for (at, dir) in all.iter().enumerate().skip(known.length) {
            known.all.entry(dir.id.number).or_default().push(at);
        }
        known.length = all.len();
        let found = known.all.get(&id.number)?.iter().map(|at| &all[*at]);
        found.into_iter().find(|dir| dir.id.matches(id))
    }

    /// Replaces the mode of a writable directory by `mode` in its attributes.
    pub(crate) fn with_closed_mode(&self, id: &InodeId, now: &mut Attributes, mode: u32) {
        let opened = self.opened_as(id);
        if opened.is_some_and(|dir| dir.is_open(now.mode)) {
            now.mode = mode;
            if let Some(list) = now.xattrs.get(acl::ACCESS) {
                let owner = u16::try_from(mode >> 6 & 7).unwrap_or_default();
                let list = acl::with_owner(list, owner);
                now.xattrs.insert(acl::ACCESS, &list);
            }
        }
    }

    /// Gives a new directory its metadata, and makes it writable if the journal lists it.
    ///
    /// # Errors
    /// What [`HeldFile::apply_metadata`] gives.
    pub(crate) fn apply_metadata_to_new(
        &self,
        held: &HeldFile,
        attributes: &Attributes,
    ) -> rustix::io::Result<()> {
        let id = held.id();
        let mut attributes = Cow::Borrowed(attributes);
        if self.opened_as(&id).is_some() {
            attributes.to_mut().mode |= WRITES;
        }
        held.apply_metadata(&attributes, None, self.journal.any_owner)
    }

    /// Makes the directories of the journal writable (R1).
    pub(crate) fn make_dirs_writable(&self) -> Result<(), Refusal> {
        for dir in &self.journal.opened {
            let Some(held) = self.find_dir(dir)? else {
                continue;
            };
            let mode = held.stat.mode & BITS;
            if mode & WRITES != WRITES && dir.modes.contains(&mode) {
                held.chmod(mode | WRITES)
                    .map_err(|why| failed(&dir.before, why))?;
            }
        }
        Ok(())
    }

    /// Restores their modes from before the commit, or sets those after it (R3).
    pub(crate) fn restore_dir_modes(&self, forward: bool) -> Result<(), Refusal> {
        for dir in &self.journal.opened {
            let Some(held) = self.find_dir(dir)? else {
                continue;
            };
            let mode = dir.modes[usize::from(forward)];
            if dir.is_open(held.stat.mode) && held.stat.mode & BITS != mode {
                held.chmod(mode).map_err(|why| failed(&dir.before, why))?;
            }
        }
        Ok(())
    }

    /// A directory, wherever it is by now.
    fn find_dir(&self, dir: &WritableDir) -> Result<Option<HeldFile>, Refusal> {
        self.base.forget_paths();
        for path in [&dir.after, &dir.before] {
            let held = self.base.hold(path).map_err(|why| failed(path, why))?;
            if let Some(held) = held.filter(|held| held.id().matches(&dir.id)) {
                return Ok(Some(held));
            }
        }
        Ok(None)
    }
}
