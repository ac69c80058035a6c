// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes that are set, and put back.
//!
//! # Rules
//! R1. Setting them takes several calls. If one fails, those before are taken back at once.
//! R2. A kill between two calls leaves some attributes from before and some from after. If each
//!     attribute of a file is one or the other, nobody else changed it.
//! R3. The calls pass through modes of their own: chown(2) clears the set-user-ID and set-group-ID
//!     bits, an ordinary user needs `u+rw` to set extended attributes, and a list has the owner's
//!     permissions of the mode.

use crate::carry::{Carry, When};
use crate::facts::{Attributes, Id, is_ours};
use crate::held::Held;
use crate::journal::Touch;
use crate::lists::{is_list, with_owner};
use crate::messages::{changed, failed};
use crate::refusal::Refusal;
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
    let names: BTreeSet<&Vec<u8>> = names.filter(|name| is_ours(name)).collect();
    names.into_iter().all(|name| {
        let value = |one: &Attributes| {
            let value = one.xattrs.get(name)?;
            match is_list(name) {
                // R3
                true => Some(with_owner(value, 7)),
                false => Some(value.clone()),
            }
        };
        sides.iter().any(|side| value(side) == value(now))
    })
}

impl Carry<'_> {
    /// Sets or puts back attributes (R1).
    pub(crate) fn touch(&self, touch: &Touch, forth: bool) -> Result<(), Refusal> {
        let fail = |why| failed(&touch.path, why);
        let at = match forth {
            true => Some(self.at(&touch.path, When::After)?),
            false => self.spot(&touch.path, When::After)?,
        };
        // The way back leaves what others changed.
        let Some((dir, name)) = at else {
            return Ok(());
        };
        let held = Held::open(&*dir, &name).map_err(fail)?;
        let Some(held) = held.filter(|held| held.id().is(&touch.id)) else {
            if forth {
                return Err(changed(&touch.path));
            }
            return Ok(());
        };
        let (had, to) = match forth {
            true => (&touch.before, &touch.after),
            false => (&touch.after, &touch.before),
        };
        if forth && self.is_contrary(&held, touch)? {
            return Err(changed(&touch.path));
        }
        let done = held.dress(to, Some(had), self.journal.any_owner);
        done.map_err(|why| {
            // R1. What cannot be taken back is between both (R2).
            let _if_it_can = held.dress(had, Some(to), self.journal.any_owner);
            fail(why)
        })
    }

    /// Whether others changed a file before its turn. A name that this commit gave or took has
    /// moved the time of change.
    fn is_contrary(&self, held: &Held, touch: &Touch) -> Result<bool, Refusal> {
        if self.resumed {
            return self.is_neither(held, touch);
        }
        let now = self.attributes_of(held, touch)?;
        let written = !held.facts.is_dir() && now.mtime != touch.before.mtime;
        Ok(written || !now.same(&touch.before))
    }

    /// Whether a file has attributes that it had neither before the commit nor has after it.
    pub(crate) fn is_neither(&self, held: &Held, touch: &Touch) -> Result<bool, Refusal> {
        let now = self.attributes_of(held, touch)?;
        let (before, after) = (&touch.before, &touch.after);
        let times = [before.mtime, after.mtime].contains(&now.mtime);
        Ok(!is_between(&now, before, after) || !held.facts.is_dir() && !times)
    }

    fn attributes_of(&self, held: &Held, touch: &Touch) -> Result<Attributes, Refusal> {
        let now = held.attributes();
        let mut now = now.map_err(|why| failed(&touch.path, why))?;
        self.as_closed(&touch.id, &mut now, touch.before.mode);
        Ok(now)
    }

    /// Whether these are the attributes that the commit gave; an owner that it may have been unable
    /// to give does not count.
    pub(crate) fn has(&self, now: &Attributes, given: &Attributes) -> bool {
        if now.same(given) || !self.journal.any_owner {
            return now.same(given);
        }
        let mut given = given.clone();
        (given.uid, given.gid) = (now.uid, now.gid);
        now.same(&given)
    }

    /// Whether others changed a file since a commit, interrupted since, set its attributes.
    pub(crate) fn is_touched(&self, touch: &Touch) -> Result<bool, Refusal> {
        let held = self.base.hold(&touch.path);
        let held = held.map_err(|why| failed(&touch.path, why))?;
        let ours = |id: &Id| id.is(&touch.id);
        match held.filter(|held| ours(&held.id())) {
            Some(held) => self.is_neither(&held, touch),
            // The way back leaves it.
            None => Ok(false),
        }
    }
}
