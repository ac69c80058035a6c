// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides whether credentials allow access to an inode, and whether they allow a name to be made
//! in a directory or removed from it. Computes also the mode and owner of a new file.
//!
//! # Kernel analogue
//! `inode_permission`, `generic_permission`, `acl_permission_check`, `may_delete`, `may_create`,
//! `check_sticky`.

mod new_file;

pub(crate) use new_file::{NewFile, new_file};

use crate::acl::AclMatch;
use crate::cred::Cred;
use crate::inode::{Inode, flag};
use crate::superblock::SuperBlock;
use openpath_abi::{Errno, caps, mode};

/// Execute, or search a directory.
pub(crate) const MAY_EXEC: u32 = 1;
/// Write.
pub(crate) const MAY_WRITE: u32 = 2;
/// Read.
pub(crate) const MAY_READ: u32 = 4;
/// Append only; asked together with [`MAY_WRITE`].
pub(crate) const MAY_APPEND: u32 = 8;

/// The rule that decided on access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Decider {
    /// The owner's bits of the mode.
    Owner,
    /// The group's.
    Group,
    /// Everyone else's.
    Other,
    /// An entry of its access control list.
    Acl(AclMatch),
    /// A capability (`CAP_*`), by its number.
    Capability(u32),
}

impl Decider {
    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        use openpath_abi::caps;
        match self {
            Self::Owner => "owner bits",
            Self::Group => "group bits",
            Self::Other => "other bits",
            Self::Acl(AclMatch::User(_)) => "the list's entry of the user",
            Self::Acl(AclMatch::GroupObj) => "the list's entry of the file's group",
            Self::Acl(AclMatch::Group(_)) => "the list's entry of a group",
            Self::Acl(AclMatch::Groups) => "the list's entries of groups",
            Self::Acl(AclMatch::Mask) => "the list's mask",
            Self::Acl(AclMatch::Other) => "the list's entry of others",
            Self::Capability(caps::CAP_DAC_OVERRIDE) => "CAP_DAC_OVERRIDE",
            Self::Capability(caps::CAP_DAC_READ_SEARCH) => "CAP_DAC_READ_SEARCH",
            Self::Capability(_) => "a capability",
        }
    }
}

/// The entry of the inode's access control list that decides about `cred`, which does not own it;
/// `None`: it has no list, or its group bits are empty, and the mode decides
/// (`acl_permission_check`).
#[inline(always)]
fn by_acl(cred: &Cred, inode: &Inode, mode_bits: u32, mask: u32) -> Option<(Decider, bool)> {
    if inode.flags() & flag::ACL == 0 || mode_bits & 0o070 == 0 {
        return None;
    }
    by_list(cred, inode, mask)
}

/// Whether a check for `cred` would have the backend read the lists of the inode first, which may
/// wait.
#[inline]
pub(crate) fn reads_acls(cred: &Cred, inode: &Inode) -> bool {
    inode.are_acls_unread() && cred.fsuid != inode.ids().0 && inode.mode() & 0o070 != 0
}

/// As [`by_acl`], of an inode with a list.
#[cold]
#[inline(never)]
fn by_list(cred: &Cred, inode: &Inode, mask: u32) -> Option<(Decider, bool)> {
    let acl = inode.acls().access?;
    let (entry, granted) = acl.decide(cred, inode.ids().1, mask);
    Some((Decider::Acl(entry), granted))
}

/// Whether mode, owner and access control list, or a capability, allow `mask`, and which of them
/// decides (`generic_permission`, `acl_permission_check`): the first class that applies, unless a
/// capability overrides it.
#[inline(always)]
pub(crate) fn decide(cred: &Cred, inode: &Inode, mask: u32) -> (Decider, bool) {
    let (mode_bits, (uid, gid)) = (inode.mode(), inode.ids());
    let (class, granted) = if cred.fsuid == uid {
        (Decider::Owner, mask & 7 & !(mode_bits >> 6) == 0)
    } else if let Some(decided) = by_acl(cred, inode, mode_bits, mask) {
        decided
    } else if cred.in_group(gid) {
        (Decider::Group, mask & 7 & !(mode_bits >> 3) == 0)
    } else {
        (Decider::Other, mask & 7 & !mode_bits == 0)
    };
    if granted {
        return (class, true);
    }
    let by = |cap: u32| (Decider::Capability(cap), true);
    let (search, all) = (caps::CAP_DAC_READ_SEARCH, caps::CAP_DAC_OVERRIDE);
    if mode_bits & mode::S_IFMT == mode::S_IFDIR {
        if mask & MAY_WRITE == 0 && cred.capable(search) {
            return by(search);
        }
        return if cred.capable(all) {
            by(all)
        } else {
            (class, false)
        };
    }
    if mask & 7 == MAY_READ && cred.capable(search) {
        return by(search);
    }
    // Root too executes only files with some x bit.
    if (mask & MAY_EXEC == 0 || mode_bits & 0o111 != 0) && cred.capable(all) {
        return by(all);
    }
    (class, false)
}

/// Whether mode, owner and access control list, or a capability, allow `mask`
/// (`generic_permission`).
///
/// # Errors
/// `EACCES`.
pub(crate) fn generic_permission(cred: &Cred, inode: &Inode, mask: u32) -> Result<(), Errno> {
    if decide(cred, inode, mask).1 {
        Ok(())
    } else {
        Err(Errno::EACCES)
    }
}

/// Whether `cred` may access the inode in the ways of `mask` (`inode_permission`).
///
/// # Errors
/// `EROFS` (write to a file, directory or link of a read-only superblock), `EPERM` (write to an
/// immutable inode), `EACCES`.
pub(crate) fn inode_permission(
    cred: &Cred,
    sb: &SuperBlock,
    inode: &Inode,
    mask: u32,
) -> Result<(), Errno> {
    if mask & MAY_WRITE != 0 {
        let kind = inode.kind();
        if sb.is_read_only() && matches!(kind, mode::S_IFREG | mode::S_IFDIR | mode::S_IFLNK) {
            return Err(Errno::EROFS);
        }
        if inode.flags() & flag::IMMUTABLE != 0 {
            return Err(Errno::EPERM);
        }
    }
    generic_permission(cred, inode, mask)
}

/// Whether the sticky bit of `dir` keeps `cred` from removing a file of `victim_uid`
/// (`check_sticky`).
fn sticky_forbids(cred: &Cred, dir: &Inode, victim_uid: u32) -> bool {
    dir.mode() & mode::S_ISVTX != 0
        && cred.fsuid != victim_uid
        && cred.fsuid != dir.ids().0
        && !cred.capable(caps::CAP_FOWNER)
}

/// Whether a new name may be made in `dir` (`may_create`).
///
/// # Errors
/// `ENOENT` in a removed directory, then as [`inode_permission`] for writing and searching.
pub(crate) fn may_create(cred: &Cred, sb: &SuperBlock, dir: &Inode) -> Result<(), Errno> {
    if dir.flags() & flag::DEAD != 0 {
        return Err(Errno::ENOENT);
    }
    inode_permission(cred, sb, dir, MAY_WRITE | MAY_EXEC)
}

/// Whether the name of `victim` in `dir` may be removed, or replaced by a rename (`may_delete`).
///
/// `want_dir`: the operation removes a directory.
///
/// # Errors
/// As [`inode_permission`] of `dir`; `EPERM` (append-only directory, sticky, immutable or
/// append-only victim); `ENOTDIR`, `EISDIR`; `EBUSY` (root of the tree); `ENOENT` (removed
/// directory).
pub(crate) fn may_delete(
    cred: &Cred,
    sb: &SuperBlock,
    dir: &Inode,
    victim: &Inode,
    want_dir: bool,
) -> Result<(), Errno> {
    inode_permission(cred, sb, dir, MAY_WRITE | MAY_EXEC)?;
    if dir.flags() & flag::APPEND_ONLY != 0
        || sticky_forbids(cred, dir, victim.ids().0)
        || victim.flags() & (flag::IMMUTABLE | flag::APPEND_ONLY) != 0
    {
        return Err(Errno::EPERM);
    }
    if want_dir {
        if !victim.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        if core::ptr::eq(victim, &raw const **sb.root()) {
            return Err(Errno::EBUSY);
        }
    } else if victim.is_dir() {
        return Err(Errno::EISDIR);
    }
    if dir.flags() & flag::DEAD != 0 {
        return Err(Errno::ENOENT);
    }
    Ok(())
}

/// The permission bits of a new file before umask. An executable loses its set-group-id bit, if the
/// caller is not in the group of a set-group-id directory (`vfs_prepare_mode`).
#[must_use]
pub(crate) fn new_mode(cred: &Cred, dir: &Inode, wanted: u32) -> u32 {
    let (dir_mode, (_, dir_gid)) = (dir.mode(), dir.ids());
    // By the requested bits: umask does not change whether a file is executable.
    let strips = wanted & mode::S_IFMT != mode::S_IFDIR
        && wanted & (mode::S_ISGID | mode::S_IXGRP) == mode::S_ISGID | mode::S_IXGRP
        && dir_mode & mode::S_ISGID != 0
        && !cred.in_group(dir_gid)
        && !cred.capable(caps::CAP_FSETID);
    if strips {
        wanted & !mode::S_ISGID
    } else {
        wanted
    }
}

/// Owner, group and final mode of a new inode in `dir` (`inode_init_owner`): a set-group-id
/// directory passes its group on, and the bit to directories.
#[must_use]
pub(crate) fn new_owner(cred: &Cred, dir: &Inode, mode_bits: u32) -> (u32, u32, u32) {
    if dir.mode() & mode::S_ISGID == 0 {
        return (cred.fsuid, cred.fsgid, mode_bits);
    }
    let inherits = mode_bits & mode::S_IFMT == mode::S_IFDIR;
    (
        cred.fsuid,
        dir.ids().1,
        if inherits {
            mode_bits | mode::S_ISGID
        } else {
            mode_bits
        },
    )
}
