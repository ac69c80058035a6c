// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines POSIX access control lists, and parses, checks and encodes them in their form as an
//! extended attribute.
//!
//! # Kernel analogue
//! `struct posix_acl`, `posix_acl_from_xattr`, `posix_acl_to_xattr`, `posix_acl_valid`.
//!
//! # Layout
//! The value of `system.posix_acl_access` and `system.posix_acl_default`: version 2 as 32 bits,
//! then 8 bytes for each entry (tag and permissions of 16 bits each, id of 32), all little-endian.
//!
//! # Rules
//! R1. A list that a file has was valid when it was set. [`Acl::parse`] reads any well-formed
//!     value; [`Acl::check`] is separate, because other errors come between the two.
//! R2. A list never changes: a change puts another one in its place.

mod check;
mod inherit;
#[cfg(test)]
mod tests;

pub use check::AclMatch;

use openpath_abi::xattr::{ACL_ACCESS_NAME, ACL_DEFAULT_NAME, XATTR_SIZE_MAX};
use openpath_abi::{Errno, Timespec};
use std::sync::Arc;

const VERSION: u32 = 2;
const HEAD: usize = 4;
const ENTRY: usize = 8;
/// The id field of an entry without an id (`ACL_UNDEFINED_ID`).
const NO_ID: u32 = u32::MAX;

/// Which of a file's two lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AclKind {
    /// The access list, which decides on access to the file.
    Access,
    /// The one that a directory gives to new files in it.
    Default,
}

impl AclKind {
    /// The list that an extended attribute of this name holds.
    #[must_use]
    pub fn of_name(name: &[u8]) -> Option<Self> {
        match name {
            ACL_ACCESS_NAME => Some(Self::Access),
            ACL_DEFAULT_NAME => Some(Self::Default),
            _ => None,
        }
    }

    /// The name of the extended attribute that holds it.
    #[must_use]
    pub const fn name(self) -> &'static [u8] {
        match self {
            Self::Access => ACL_ACCESS_NAME,
            Self::Default => ACL_DEFAULT_NAME,
        }
    }
}

/// The users or groups that an entry is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AclTag {
    /// The file's owner.
    UserObj,
    /// The user of this id.
    User(u32),
    /// The file's group.
    GroupObj,
    /// The group of this id.
    Group(u32),
    /// The most that entries other than those of owner and others give.
    Mask,
    /// Everyone else.
    Other,
}

/// An entry of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AclEntry {
    /// The users or groups that it is about.
    pub tag: AclTag,
    /// Its permissions: 4 read, 2 write, 1 execute or search.
    pub perm: u16,
}

/// An access control list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acl {
    entries: Box<[AclEntry]>,
}

impl AclEntry {
    fn parse(bytes: [u8; ENTRY]) -> Option<Self> {
        let [t0, t1, p0, p1, id @ ..] = bytes;
        let id = u32::from_le_bytes(id);
        let tag = match u16::from_le_bytes([t0, t1]) {
            0x01 => AclTag::UserObj,
            0x02 if id != NO_ID => AclTag::User(id),
            0x04 => AclTag::GroupObj,
            0x08 if id != NO_ID => AclTag::Group(id),
            0x10 => AclTag::Mask,
            0x20 => AclTag::Other,
            _ => return None,
        };
        let perm = u16::from_le_bytes([p0, p1]);
        Some(Self { tag, perm })
    }

    fn encode(self) -> [u8; ENTRY] {
        let (tag, id): (u16, u32) = match self.tag {
            AclTag::UserObj => (0x01, NO_ID),
            AclTag::User(id) => (0x02, id),
            AclTag::GroupObj => (0x04, NO_ID),
            AclTag::Group(id) => (0x08, id),
            AclTag::Mask => (0x10, NO_ID),
            AclTag::Other => (0x20, NO_ID),
        };
        let ([t0, t1], [p0, p1]) = (tag.to_le_bytes(), self.perm.to_le_bytes());
        let [i0, i1, i2, i3] = id.to_le_bytes();
        [t0, t1, p0, p1, i0, i1, i2, i3]
    }
}

impl Acl {
    /// A list of these entries.
    #[must_use]
    pub fn new(entries: Vec<AclEntry>) -> Self {
        Self {
            entries: entries.into(),
        }
    }

    /// Reads the value of an extended attribute; a value without entries is no list.
    ///
    /// # Errors
    /// In this order: `EINVAL` (shorter than its head), `EOPNOTSUPP` (another version), `EINVAL`
    /// (half an entry, an unknown tag, an id that is none).
    pub fn parse(value: &[u8]) -> Result<Option<Self>, Errno> {
        let (head, rest) = value.split_first_chunk::<HEAD>().ok_or(Errno::EINVAL)?;
        if u32::from_le_bytes(*head) != VERSION {
            return Err(Errno::EOPNOTSUPP);
        }
        let (entries, half) = rest.as_chunks::<ENTRY>();
        if !half.is_empty() {
            return Err(Errno::EINVAL);
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let entries = entries.iter().map(|bytes| AclEntry::parse(*bytes));
        let entries = entries.collect::<Option<Box<_>>>().ok_or(Errno::EINVAL)?;
        Ok(Some(Self { entries }))
    }

    /// The value of the extended attribute that holds it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.value_len());
        value.extend_from_slice(&VERSION.to_le_bytes());
        value.extend(self.entries.iter().flat_map(|entry| entry.encode()));
        value
    }

    /// Length of [`Acl::encode`].
    #[must_use]
    pub fn value_len(&self) -> usize {
        HEAD + self.entries.len() * ENTRY
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> &[AclEntry] {
        &self.entries
    }

    /// Whether it can be a file's list (`posix_acl_valid`): owner, users, group, groups, mask and
    /// others in this order, the mask there if there is a named user or group.
    ///
    /// # Errors
    /// `EINVAL`; `E2BIG`: longer than a value can be.
    pub fn check(&self) -> Result<(), Errno> {
        if self.value_len() > XATTR_SIZE_MAX {
            return Err(Errno::E2BIG);
        }
        // The entries that may come next: 0 the owner, 1 users or the group, 2 groups, mask or
        // others, 3 others alone, 4 none.
        let (mut state, mut wants_mask) = (0, false);
        for entry in &self.entries {
            if entry.perm & !7 != 0 {
                return Err(Errno::EINVAL);
            }
            state = match (entry.tag, state) {
                (AclTag::UserObj, 0) | (AclTag::User(_), 1) => 1,
                (AclTag::GroupObj, 1) | (AclTag::Group(_), 2) => 2,
                (AclTag::Mask, 2) => 3,
                (AclTag::Other, 3) => 4,
                (AclTag::Other, 2) if !wants_mask => 4,
                _ => return Err(Errno::EINVAL),
            };
            wants_mask |= matches!(entry.tag, AclTag::User(_) | AclTag::Group(_));
        }
        if state == 4 {
            Ok(())
        } else {
            Err(Errno::EINVAL)
        }
    }
}

/// The lists of one file.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Acls {
    /// The access list.
    pub access: Option<Arc<Acl>>,
    /// Of a directory: the one for new files in it.
    pub default: Option<Arc<Acl>>,
}

impl Acls {
    /// The list of this kind.
    #[must_use]
    pub fn get(&self, kind: AclKind) -> Option<&Arc<Acl>> {
        match kind {
            AclKind::Access => self.access.as_ref(),
            AclKind::Default => self.default.as_ref(),
        }
    }

    /// Puts a list in place, or takes it away.
    pub fn set(&mut self, kind: AclKind, acl: Option<Arc<Acl>>) {
        match kind {
            AclKind::Access => self.access = acl,
            AclKind::Default => self.default = acl,
        }
    }

    /// Whether there is neither.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.access.is_none() && self.default.is_none()
    }
}

/// A change of one list, already permitted, as a backend makes it.
#[derive(Clone, Copy, Debug)]
pub struct SetAcl<'a> {
    /// Which list.
    pub kind: AclKind,
    /// The new one; `None`: the file has none after it.
    pub acl: Option<&'a Arc<Acl>>,
    /// The call removes the list; else it sets one, if only to what the mode says alone.
    pub removes: bool,
    /// The mode that an access list leaves, with its type bits.
    pub mode: Option<u32>,
    /// The time of the call.
    pub now: Timespec,
}
