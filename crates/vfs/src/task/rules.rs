// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asks the rules of a mount whether a name is absent there, has to stay, or may be moved
//! ([`crate::absent`]). `namespace::absent` gives rules to mounts.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | `mflag::ABSENT` | the mount's change, with the topology lock | a sample of its life |
//! | rules, and the directory where they begin | topology lock | a section |
//!
//! # Rules
//! R1. Rules are there before the flag is set, and stay until it is gone: a walk that sees the flag
//!     finds rules, or finds that they have just been removed.
//! R2. The directory where rules begin is pinned as long as the mount has them.
//! R3. The place of a directory counts only if no directory moved while it was looked for.

use super::Core;
use crate::absent::{AbsentRules, MountRules};
use crate::dcache::Dcache;
use crate::object::{MountData, dflag, mflag};
use openpath_abi::Errno;
use openpath_sync::rcu::Guard;

/// The rules' answer for a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RuleAnswer {
    /// Nothing.
    Nothing,
    /// It is absent; making it is refused with this.
    Absent(Errno),
    /// Directories moved during the search for this one.
    Moved,
}

impl Core {
    /// The answer of the rules of the mount at `index` for `name` in the directory `dir`; the
    /// caller holds both.
    pub(crate) fn absent(
        &self,
        index: u32,
        mount: &MountData,
        dir: u32,
        name: &[u8],
    ) -> Option<Errno> {
        let word = self.vfs.mounts.at(index).word();
        loop {
            let was = word.sample_steady();
            if !was.has(mflag::ABSENT) {
                return None;
            }
            let answer = self.ask_rules(&self.reader.enter(), mount, dir, name);
            // The directory where replaced rules began may be something else by now.
            match answer {
                RuleAnswer::Nothing if word.is_unchanged(was) => return None,
                RuleAnswer::Absent(errno) if word.is_unchanged(was) => return Some(errno),
                _ => openpath_sync::relax(),
            }
        }
    }

    /// As [`Core::absent`], in a section and without waiting. If nothing holds `dir`, the answer
    /// counts if the directory is then still the same.
    pub(crate) fn ask_rules(
        &self,
        section: &Guard<'_>,
        mount: &MountData,
        dir: u32,
        name: &[u8],
    ) -> RuleAnswer {
        let Some(MountRules { rules, anchor }) = mount.absent.read(section) else {
            return RuleAnswer::Nothing;
        };
        // A name that is too long has an error of its own.
        if name.len() > mount.sb.options().name_max {
            return RuleAnswer::Nothing;
        }
        if rules.means_name(name) {
            return RuleAnswer::Absent(rules.errno());
        }
        if !rules.may_mean(name) {
            return RuleAnswer::Nothing;
        }
        let moves = self.vfs.renames.sample();
        let place = place_below(&self.vfs.dcache, dir, *anchor);
        // R3.
        if moves.is_busy() || !self.vfs.renames.is_unchanged(moves) {
            return RuleAnswer::Moved;
        }
        match place {
            None => RuleAnswer::Moved,
            Some(Some(dirs)) if rules.means_at(&dirs, name) => RuleAnswer::Absent(rules.errno()),
            Some(_) => RuleAnswer::Nothing,
        }
    }

    /// Whether the rules of the mount at `index` allow the directory `name` of `from` to become
    /// that of `to` with the name `new`. The caller holds both with their names locked, so that
    /// only directories above them move.
    ///
    /// Each move by itself keeps the answers of the rules, so the places of several directories at
    /// one moment need not be one place.
    pub(crate) fn let_move(
        &self,
        index: u32,
        mount: &MountData,
        (from, name): (u32, &[u8]),
        (to, new): (u32, &[u8]),
    ) -> bool {
        let rules = |dir| self.rules_in(index, mount, dir);
        let (Some(old), Some(target)) = (rules(from), rules(to)) else {
            return true;
        };
        match (old.dirs, target.dirs) {
            (Some(mut old_dirs), Some(mut new_dirs)) => {
                old_dirs.push(name.to_vec());
                new_dirs.push(new.to_vec());
                old.rules.let_move(&old_dirs, &new_dirs)
            }
            (None, None) => true,
            _ => false,
        }
    }

    /// Whether the rules of the mount at `index` keep `name` in the directory `dir`; the caller
    /// holds both, with the names of the directory locked.
    pub(crate) fn has_to_stay(&self, index: u32, mount: &MountData, dir: u32, name: &[u8]) -> bool {
        let may = {
            let section = self.reader.enter();
            let absent = mount.absent.read(&section);
            absent.is_some_and(|MountRules { rules, .. }| rules.may_stay(name))
        };
        may && self
            .rules_in(index, mount, dir)
            .is_some_and(|rules| rules.keep(name))
    }

    /// The rules of a mount for one directory, for many names.
    pub(crate) fn rules_in(&self, index: u32, mount: &MountData, dir: u32) -> Option<DirRules> {
        let word = self.vfs.mounts.at(index).word();
        let section = self.reader.enter();
        loop {
            let was = word.sample_steady();
            if !was.has(mflag::ABSENT) {
                return None;
            }
            let MountRules { rules, anchor } = mount.absent.read(&section)?;
            let moves = self.vfs.renames.sample();
            let place = place_below(&self.vfs.dcache, dir, *anchor);
            if !moves.is_busy()
                && self.vfs.renames.is_unchanged(moves)
                && word.is_unchanged(was)
                && let Some(dirs) = place
            {
                let rules = rules.clone();
                return Some(DirRules { rules, dirs });
            }
            openpath_sync::relax();
        }
    }
}

/// Rules, and the place of a directory at one moment.
pub(crate) struct DirRules {
    rules: AbsentRules,
    /// The names that lead to it; `None` if it is not below where the rules begin.
    dirs: Option<Vec<Vec<u8>>>,
}

impl DirRules {
    /// Whether the name is absent there.
    pub(crate) fn is_absent(&self, name: &[u8]) -> bool {
        let at = |dirs: &Vec<Vec<u8>>| self.rules.means_at(dirs, name);
        self.rules.means_name(name) || self.dirs.as_ref().is_some_and(at)
    }

    /// Whether the name stays there.
    fn keep(&self, name: &[u8]) -> bool {
        let at = |dirs: &Vec<Vec<u8>>| self.rules.stays_at(dirs, name);
        self.dirs.as_ref().is_some_and(at)
    }
}

/// The names that lead from `anchor` down to `dir`; `Some(None)` if it is not below, `None` if an
/// entry changed meanwhile.
fn place_below(dcache: &Dcache, dir: u32, anchor: u32) -> Option<Option<Vec<Vec<u8>>>> {
    let mut names = Vec::new();
    let mut at = dir;
    while at != anchor {
        if dcache.at(at).word().sample().has(dflag::ROOT) {
            return Some(None);
        }
        let (name, parent) = dcache.name_of(at)?;
        if parent == at {
            return Some(None);
        }
        names.push(name);
        at = parent;
    }
    names.reverse();
    Some(Some(names))
}
