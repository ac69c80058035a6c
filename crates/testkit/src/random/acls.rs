// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates random operations on access control lists; most lists are valid and name the users of
//! the cases.

use super::Gen;
use super::guess::Kind;
use crate::op::{Obj, Op, Path, XFlags};
use openpath_abi::xattr::{ACL_ACCESS_NAME, ACL_DEFAULT_NAME};

const USER_OBJ: u16 = 1;
const USER: u16 = 2;
const GROUP_OBJ: u16 = 4;
const GROUP: u16 = 8;
const MASK: u16 = 16;
const OTHER: u16 = 32;
/// The id of an entry without one.
const NO_ID: u32 = u32::MAX;
/// Ids of users.
const USERS: &[u32] = &[1000, 1001, 0, 7];
const GROUPS: &[u32] = &[1000, 2000, 1001, 0];

impl Gen {
    /// An operation on a list.
    pub(super) fn acls(&mut self) -> Op {
        let access = self.rng.below(3) > 0;
        let obj = if access {
            self.object()
        } else {
            // Only directories have a default list.
            match self.object() {
                Obj::Path(_) => Obj::Path(self.old_of(Some(Kind::Dir)).1),
                other => other,
            }
        };
        let name = if access {
            ACL_ACCESS_NAME
        } else {
            ACL_DEFAULT_NAME
        };
        let name = Path(name.to_vec());
        match self.rng.below(10) {
            0..7 => Op::SetXattr {
                obj,
                name,
                value: Path(self.list()),
                flags: XFlags(self.rng.weighted(&[(12, 0), (1, 1), (1, 2)])),
            },
            7 | 8 => Op::GetXattr { obj, name },
            _ => Op::RemoveXattr { obj, name },
        }
    }

    fn list(&mut self) -> Vec<u8> {
        let perm = |this: &mut Self| *this.rng.pick(&[7u16, 7, 6, 5, 4, 0, 1, 2, 3]);
        let mut entries = vec![(USER_OBJ, perm(self), NO_ID)];
        let named = self.rng.below(4) > 0;
        for _ in 0..self.rng.below(3) * usize::from(named) {
            entries.push((USER, perm(self), *self.rng.pick(USERS)));
        }
        entries.push((GROUP_OBJ, perm(self), NO_ID));
        for _ in 0..self.rng.below(3) * usize::from(named) {
            entries.push((GROUP, perm(self), *self.rng.pick(GROUPS)));
        }
        if entries.len() > 2 || self.rng.one_in(3) {
            entries.push((MASK, perm(self), NO_ID));
        }
        entries.push((OTHER, perm(self), NO_ID));
        match self.rng.below(24) {
            0 => drop(entries.remove(self.rng.below(entries.len()))),
            1 => entries.reverse(),
            2 => entries.clear(),
            3 => entries[0].1 = 8,
            4 => entries[0].0 = 3,
            5 => entries.iter_mut().for_each(|entry| entry.2 = NO_ID),
            _ => {}
        }
        let version = self.rng.weighted(&[(24, 2u32), (1, 1)]);
        let mut value = version.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(perm.to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        if self.rng.one_in(24) {
            value.truncate(self.rng.below(value.len()));
        }
        value
    }
}
