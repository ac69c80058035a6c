// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides on access by an access control list, computes the mode bits that a list amounts to, and
//! changes a list after chmod(2).
//!
//! # Kernel analogue
//! `posix_acl_permission`, `posix_acl_equiv_mode`, `__posix_acl_chmod`.

use super::{Acl, AclTag};
use crate::cred::Cred;

/// The entry of a list that decides about a user who does not own the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AclMatch {
    /// That of a named user.
    User(u32),
    /// That of the file's group.
    GroupObj,
    /// That of a named group.
    Group(u32),
    /// The mask: an entry gives it, and the mask does not.
    Mask,
    /// That of everyone else.
    Other,
    /// Entries of groups that the user is in; none of them gives all that is asked for.
    Groups,
}

impl Acl {
    fn perm_of(&self, tag: AclTag) -> Option<u32> {
        let entry = self.entries.iter().find(|entry| entry.tag == tag);
        entry.map(|entry| u32::from(entry.perm))
    }

    /// What the mask lets through.
    fn mask(&self) -> u32 {
        self.perm_of(AclTag::Mask).unwrap_or(7)
    }

    /// Which entry decides about `cred`, which does not own the file of the group `gid`, and
    /// whether all of `asked` is given.
    #[must_use]
    pub fn decide(&self, cred: &Cred, gid: u32, asked: u32) -> (AclMatch, bool) {
        let asked = asked & 7;
        let masked = |by: AclMatch, perm: u32| {
            if asked & !perm != 0 {
                (by, false)
            } else if asked & !self.mask() != 0 {
                (AclMatch::Mask, false)
            } else {
                (by, true)
            }
        };
        let mut in_group = false;
        for entry in &self.entries {
            let perm = u32::from(entry.perm);
            let (by, applies) = match entry.tag {
                AclTag::User(uid) if uid == cred.fsuid => {
                    return masked(AclMatch::User(uid), perm);
                }
                AclTag::GroupObj => (AclMatch::GroupObj, cred.in_group(gid)),
                AclTag::Group(group) => (AclMatch::Group(group), cred.in_group(group)),
                AclTag::Other if in_group => return (AclMatch::Groups, false),
                AclTag::Other => return (AclMatch::Other, asked & !perm == 0),
                AclTag::UserObj | AclTag::User(_) | AclTag::Mask => continue,
            };
            in_group |= applies;
            // Of several groups the first that gives all decides; the mask applies then.
            if applies && asked & !perm == 0 {
                return masked(by, perm);
            }
        }
        // No valid list ends without an entry for others.
        (AclMatch::Other, false)
    }

    /// The bits that the list gives `cred`, which does not own the file.
    #[must_use]
    pub fn granted(&self, cred: &Cred, gid: u32) -> u32 {
        let bits = [4, 2, 1].into_iter();
        bits.filter(|bit| self.decide(cred, gid, *bit).1).sum()
    }

    /// The nine mode bits that the list amounts to, and whether they say all of it
    /// (`posix_acl_equiv_mode`).
    #[must_use]
    pub fn mode_bits(&self) -> (u32, bool) {
        let perm = |tag| self.perm_of(tag).unwrap_or(0);
        let group = self.perm_of(AclTag::Mask);
        let named = |tag| matches!(tag, AclTag::User(_) | AclTag::Group(_));
        let is_all = group.is_none() && !self.entries.iter().any(|entry| named(entry.tag));
        let group = group.unwrap_or_else(|| perm(AclTag::GroupObj));
        let bits = perm(AclTag::UserObj) << 6 | group << 3 | perm(AclTag::Other);
        (bits, is_all)
    }

    /// The tag of the entry that the group bits of the mode stand for.
    pub(super) fn group_class(&self) -> AclTag {
        match self.perm_of(AclTag::Mask) {
            Some(_) => AclTag::Mask,
            None => AclTag::GroupObj,
        }
    }

    /// The list after a change of mode (`__posix_acl_chmod`): owner, others, and the mask or the
    /// group follow.
    #[must_use]
    pub fn after_chmod(&self, mode_bits: u32) -> Self {
        let group = self.group_class();
        let mut list = self.clone();
        for entry in &mut list.entries {
            let shift = match entry.tag {
                AclTag::UserObj => 6,
                tag if tag == group => 3,
                AclTag::Other => 0,
                _ => continue,
            };
            entry.perm = (mode_bits >> shift & 7) as u16;
        }
        list
    }
}
