// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives a file the POSIX access control lists among its committed attributes, names the attributes
//! in which the real tree and an upper tree keep lists, and asks whether a file system supports
//! them.
//!
//! # Rules
//! R1. A file gets exactly its lists. A list inherited from its directory is removed.
//! R2. A list is replaced in one step. An access list is not removed but replaced by the list that
//!     is equivalent to the mode, which the kernel stores as the mode alone. A removed list would
//!     leave its mask as the group's permissions until the mode is set.

use crate::attributes::xattrs::{self, Xattrs};
use openpath_abi::mode;
use openpath_vfs::{Acl, AclEntry, AclTag};
use rustix::fs::XattrFlags;
use rustix::io::{Errno, Result};

pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";
/// The same in an upper tree of an ordinary user.
const KEPT_ACCESS: &[u8] = b"user.openpath.acl_access";
const KEPT_DEFAULT: &[u8] = b"user.openpath.acl_default";
/// The tag of the owner's entry.
const OWNER: u16 = 1;
/// A longer list counts as different from any other.
const ROOM: usize = 1024;

/// Whether an extended attribute is an access control list.
pub(crate) fn is_acl(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

/// The list that an upper tree of an ordinary user keeps in this attribute.
pub(crate) fn kept_as(name: &[u8]) -> Option<&'static [u8]> {
    match name {
        KEPT_ACCESS => Some(ACCESS),
        KEPT_DEFAULT => Some(DEFAULT),
        _ => None,
    }
}

/// The attribute in which an upper tree of an ordinary user keeps this list.
pub(crate) fn kept_name(name: &[u8]) -> &'static [u8] {
    match name {
        ACCESS => KEPT_ACCESS,
        _ => KEPT_DEFAULT,
    }
}

/// Whether these attributes have a list.
pub(crate) fn has_acl(attributes: &Xattrs) -> bool {
    attributes.keys().any(is_acl)
}

/// Whether the file system of a descriptor's path supports lists.
pub(crate) fn are_supported(path: &str) -> Result<bool> {
    match rustix::fs::getxattr(path, ACCESS, &mut [0_u8; 0][..]) {
        Ok(_) | Err(Errno::NODATA) => Ok(true),
        Err(Errno::OPNOTSUPP) => Ok(false),
        Err(why) => Err(why),
    }
}

/// Gives a file the lists among these attributes, and no others (R1). `path` is its descriptor's;
/// `bits`: the mode it is to have.
pub(crate) fn apply(path: &str, attributes: &Xattrs, bits: u32) -> Result<()> {
    if mode::is_lnk(bits) {
        return Ok(());
    }
    let names = match mode::is_dir(bits) {
        true => &[ACCESS, DEFAULT][..],
        false => &[ACCESS],
    };
    for name in names {
        let mut room = [0; ROOM];
        let had = match rustix::fs::getxattr(path, *name, &mut room[..]) {
            Ok(length) => Some(&room[..length]),
            Err(Errno::RANGE) => Some(&[][..]),
            Err(Errno::NODATA | Errno::OPNOTSUPP) => None,
            Err(why) => return Err(why),
        };
        let to = attributes.get(name);
        if had == to {
            continue;
        }
        let flags = XattrFlags::empty();
        match to {
            Some(list) => rustix::fs::setxattr(path, *name, list, flags)?,
            // R2
            None if *name == ACCESS => {
                rustix::fs::setxattr(path, *name, &from_mode(bits), flags)?;
            }
            None => xattrs::remove(path, name)?,
        }
    }
    Ok(())
}

/// The list with these permissions for its owner. Other bytes stay as they are.
pub(crate) fn with_owner(list: &[u8], perm: u16) -> Vec<u8> {
    let mut list = list.to_vec();
    // A version of four bytes, then tag, permissions and number of each entry.
    for entry in list.get_mut(4..).unwrap_or_default().chunks_exact_mut(8) {
        if entry[..2] == OWNER.to_le_bytes() {
            entry[2..4].copy_from_slice(&perm.to_le_bytes());
        }
    }
    list
}

/// The list that is equivalent to the mode.
fn from_mode(bits: u32) -> Vec<u8> {
    let entry = |tag, shift: u32| AclEntry {
        tag,
        perm: (bits >> shift & 7) as u16,
    };
    let entries = vec![
        entry(AclTag::UserObj, 6),
        entry(AclTag::GroupObj, 3),
        entry(AclTag::Other, 0),
    ];
    Acl::new(entries).encode()
}
