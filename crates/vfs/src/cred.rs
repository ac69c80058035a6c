// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines credentials: the user, groups and capabilities that a task acts with.
//!
//! # Kernel analogue
//! `struct cred`. A set of credentials never changes; a task swaps one for another.

use openpath_abi::caps;

/// User, groups and capabilities of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cred {
    /// Real user.
    pub uid: u32,
    /// Effective user.
    pub euid: u32,
    /// Saved user.
    pub suid: u32,
    /// User for file access.
    pub fsuid: u32,
    /// Real group.
    pub gid: u32,
    /// Effective group.
    pub egid: u32,
    /// Saved group.
    pub sgid: u32,
    /// Group for file access.
    pub fsgid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Effective capabilities, one bit each (`CAP_*`).
    pub caps: u64,
}

impl Cred {
    /// The superuser with every capability.
    #[must_use]
    pub fn root() -> Self {
        Self {
            caps: u64::MAX >> (63 - caps::CAP_LAST_CAP),
            ..Self::user(0, 0, &[])
        }
    }

    /// An ordinary user without capabilities.
    #[must_use]
    pub fn user(uid: u32, gid: u32, groups: &[u32]) -> Self {
        Self {
            uid,
            euid: uid,
            suid: uid,
            fsuid: uid,
            gid,
            egid: gid,
            sgid: gid,
            fsgid: gid,
            groups: groups.to_vec(),
            caps: 0,
        }
    }

    /// Whether the capability is effective (`capable`).
    #[must_use]
    pub fn capable(&self, cap: u32) -> bool {
        self.caps >> cap & 1 != 0
    }

    /// Whether `gid` is the file access group or a supplementary one (`in_group_p`).
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        gid == self.fsgid || self.groups.contains(&gid)
    }

    /// Whether this user owns `uid`'s files or may act as if (`inode_owner_or_capable`).
    #[must_use]
    pub fn owner_or_capable(&self, uid: u32) -> bool {
        self.fsuid == uid || self.capable(caps::CAP_FOWNER)
    }

    /// The same user as access(2) sees it: real ids in place of effective ones, capabilities of the
    /// real user.
    #[must_use]
    pub fn as_real(&self) -> Self {
        // access(2) gives a real root the permitted set and any other real user no capability at
        // all.
        let caps = if self.uid == 0 { Self::root().caps } else { 0 };
        Self {
            fsuid: self.uid,
            fsgid: self.gid,
            caps,
            ..self.clone()
        }
    }
}
