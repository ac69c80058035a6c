// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets owner, mode, times and extended attributes of committed files, and restores them when a
//! commit fails or is undone.
//!
//! # Rules
//! R1. Setting them takes several calls. If one fails, the earlier ones are undone at once.
//! R2. A kill between two calls leaves some attributes from before and some from after. If each
//!     attribute of a file is one or the other, no one else changed it.
//! R3. The calls pass through modes of their own: chown(2) clears the set-user-ID and set-group-ID
//!     bits, an ordinary user needs `u+rw` to set extended attributes, and a list has the owner's
//!     permissions of the mode.
//! R4. A file whose time of change is not that of the plan was changed by others. No call sets that
//!     time, unlike the modification time.
//!
//! # Limits
//! * The modification time decides after an interruption between the calls, and for a file that the
//!   commit gave further names: the commit itself has moved the time of change. Such a file gains
//!   no rights (R2 of `journal_builder`).

use crate::attributes::acl::{is_acl, with_owner};
use crate::attributes::file_stat::{Attributes, InodeId, is_ours};
use crate::host::held_file::HeldFile;
use crate::journal::SetAttrs;
use crate::report::messages::{changed_meanwhile, failed};
use crate::report::refusal::Refusal;
use crate::transaction::{AroundMoves, Transaction};
use openpath_abi::mode::{S_IRUSR, S_ISGID, S_ISUID, S_IWUSR};
use std::collections::BTreeSet;

/// Whether each attribute is one of these two (R2, R3).
fn is_between(now: &Attributes, before: &Attributes, after: &Attributes) -> bool {
    let sides = [before, after];
    let owners = sides.iter().any(|side| side.uid == now.uid)
        && sides.iter().any(|side| side.gid == now.gid);
    let low = |mode: u32| mode & 0o777;
    let high = |mode: u32| mode & 0o7000;
    let open = low(before.mode) | S_IRUSR | S_IWUSR;
    let reset = high(before.mode) & !(S_ISUID | S_ISGID);
    let modes = [low(before.mode), open, low(after.mode)].contains(&low(now.mode))
        && [high(before.mode), reset, high(after.mode)].contains(&high(now.mode));
    owners && modes && values_are_between(now, sides)
}

fn values_are_between(now: &Attributes, sides: [&Attributes; 2]) -> bool {
    let all = [now, sides[0], sides[1]];
    let names = all.iter().flat_map(|one| one.xattrs.keys());
    let names: BTreeSet<&[u8]> = names.filter(|name| is_ours(name)).collect();
    names.into_iter().all(|name| {
        let value = |one: &Attributes| {
            let value = one.xattrs.get(name)?;
            match is_acl(name) {
                // R3
                true => Some(with_owner(value, 7)),
                false => Some(value.to_vec()),
            }
        };
        sides.iter().any(|side| value(side) == value(now))
    })
}

impl Transaction<'_> {
    /// Sets or restores attributes (R1).
    pub(crate) fn set_attrs(&self, attrs: &SetAttrs, forward: bool) -> Result<(), Refusal> {
        let fail = |why| failed(&attrs.path, why);
        let at = match forward {
            true => Some(self.parent(&attrs.path, AroundMoves::After)?),
            false => self.find_parent(&attrs.path, AroundMoves::After)?,
        };
        // A rollback leaves changes by others.
        let Some((dir, name)) = at else {
            return Ok(());
        };
        let held = HeldFile::open(&*dir, &name).map_err(fail)?;
        let Some(held) = held.filter(|held| held.id().matches(&attrs.id)) else {
            if forward {
                return Err(changed_meanwhile(&attrs.path));
            }
            return Ok(());
        };
        let (had, to) = match forward {
            true => (&attrs.before, &attrs.after),
            false => (&attrs.after, &attrs.before),
        };
        // The journal of an older version may set such attributes in place.
        let rights = attrs.before.gains_rights(&attrs.after);
        if forward
            && (rights && held.stat.ctime != attrs.ctime
                || self.was_changed_by_others(&held, attrs)?)
        {
            return Err(changed_meanwhile(&attrs.path));
        }
        let unchanged = self
            .journal
            .done
            .is_some_and(|done| held.stat.ctime <= done);
        let safe = (!forward && rights && !unchanged).then(|| to.without_rights(&held.stat));
        let to = safe.as_ref().unwrap_or(to);
        let done = held.apply_metadata(to, Some(had), self.journal.any_owner);
        done.map_err(|why| {
            // R1. An attribute that cannot be restored is one of both (R2).
            let _if_it_can = held.apply_metadata(had, Some(to), self.journal.any_owner);
            fail(why)
        })
    }

    /// Whether others changed a file before its turn.
    fn was_changed_by_others(&self, held: &HeldFile, attrs: &SetAttrs) -> Result<bool, Refusal> {
        if self.resumed {
            return self.is_foreign(held, attrs);
        }
        let now = self.attributes_of(held, attrs)?;
        Ok(self.is_touched(held, attrs) || !now.same(&attrs.before))
    }

    /// Whether a file that is no directory was changed since the plan (R4).
    pub(crate) fn is_touched(&self, held: &HeldFile, attrs: &SetAttrs) -> bool {
        let stat = &held.stat;
        !stat.is_dir()
            && match self.is_link(&attrs.id) {
                // A name that this commit added has changed the time of change.
                true => stat.mtime != attrs.before.mtime,
                false => stat.ctime != attrs.ctime,
            }
    }

    /// Whether a file has attributes that it had neither before the commit nor has after it.
    pub(crate) fn is_foreign(&self, held: &HeldFile, attrs: &SetAttrs) -> Result<bool, Refusal> {
        let now = self.attributes_of(held, attrs)?;
        let (before, after) = (&attrs.before, &attrs.after);
        let times = [before.mtime, after.mtime].contains(&now.mtime);
        Ok(!is_between(&now, before, after) || !held.stat.is_dir() && !times)
    }

    fn attributes_of(&self, held: &HeldFile, attrs: &SetAttrs) -> Result<Attributes, Refusal> {
        let now = held.attributes();
        let mut now = now.map_err(|why| failed(&attrs.path, why))?;
        self.with_closed_mode(&attrs.id, &mut now, attrs.before.mode);
        Ok(now)
    }

    /// Whether these are the attributes that the commit set; an owner that it may have been unable
    /// to set does not count.
    pub(crate) fn has(&self, now: &Attributes, given: &Attributes) -> bool {
        if now.same(given) || !self.journal.any_owner {
            return now.same(given);
        }
        let mut given = given.clone();
        (given.uid, given.gid) = (now.uid, now.gid);
        now.same(&given)
    }

    /// Whether others changed a file after an interrupted commit set its attributes.
    pub(crate) fn is_changed_since(&self, attrs: &SetAttrs) -> Result<bool, Refusal> {
        let held = self.base.hold(&attrs.path);
        let held = held.map_err(|why| failed(&attrs.path, why))?;
        let ours = |id: &InodeId| id.matches(&attrs.id);
        match held.filter(|held| ours(&held.id())) {
            Some(held) => self.is_foreign(&held, attrs),
            // A rollback leaves it.
            None => Ok(false),
        }
    }
}
