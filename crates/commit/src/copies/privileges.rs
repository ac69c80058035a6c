// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives files that a commit makes their privileges: the set-user-ID and set-group-ID bits, and
//! file capabilities.
//!
//! # Rules
//! R1. A new file waits under a hidden name without privileges. It gets them by a descriptor right
//!     before its exchange, and loses them if that fails: another user can move the hidden name
//!     away, and has a plain file.
//! R2. Only the inode of the journal gets them, whatever has the name.
//! R3. A rollback takes them by a descriptor before it removes a file, unless the file has further
//!     names.

use crate::attributes::file_stat::Attributes;
use crate::host::held_file::HeldFile;
use openpath_abi::mode::{self, S_ISGID, S_ISUID};
use openpath_abi::xattr::CAPABILITY_NAME as CAPABILITY;
use rustix::fs::XattrFlags;
use rustix::io::{Errno, Result};

/// The bits of a mode that give privileges.
const BITS: u32 = S_ISUID | S_ISGID;

/// Whether a file with these attributes gives privileges when it is executed.
pub(crate) fn has(attributes: &Attributes) -> bool {
    let has = attributes.mode & BITS != 0 || attributes.xattrs.contains_key(CAPABILITY);
    mode::is_reg(attributes.mode) && has
}

/// The same attributes without privileges (R1).
pub(crate) fn without(attributes: &Attributes) -> Attributes {
    let mut plain = attributes.clone();
    if mode::is_reg(plain.mode) {
        plain.mode &= !BITS;
        plain.xattrs.remove(CAPABILITY);
    }
    plain
}

/// Adds the privileges that `from` has, as [`give`] will.
pub(crate) fn add(to: &mut Attributes, from: &Attributes) {
    if !has(from) {
        return;
    }
    to.mode |= from.mode & BITS;
    let is_root = rustix::process::geteuid().is_root();
    if !is_root && !is_in_group(to.gid) {
        // chmod(2) leaves it out.
        to.mode &= !S_ISGID;
    }
    if let Some(value) = from.xattrs.get(CAPABILITY).filter(|_| is_root) {
        to.xattrs.insert(CAPABILITY, value);
    }
}

fn is_in_group(gid: u32) -> bool {
    let groups = rustix::process::getgroups().unwrap_or_default();
    rustix::process::getegid().as_raw() == gid || groups.iter().any(|one| one.as_raw() == gid)
}

/// Gives a file the privileges among these attributes.
pub(crate) fn give(held: &HeldFile, attributes: &Attributes) -> Result<()> {
    if let Some(value) = attributes.xattrs.get(CAPABILITY) {
        match rustix::fs::setxattr(held.path(), CAPABILITY, value, XattrFlags::empty()) {
            Err(Errno::PERM | Errno::OPNOTSUPP) if !rustix::process::geteuid().is_root() => {}
            done => done?,
        }
    }
    held.chmod(attributes.mode)
}

/// Takes the privileges of a file, as far as this process can (R1, R3).
pub(crate) fn take(held: &HeldFile) {
    if held.stat.is_file() && held.stat.nlink == 1 {
        let _if_it_may = rustix::fs::removexattr(held.path(), CAPABILITY);
        if let Ok(now) = rustix::fs::fstat(held.fd())
            && now.st_mode & BITS != 0
        {
            let _if_it_may = held.chmod(now.st_mode & !BITS);
        }
    }
}
