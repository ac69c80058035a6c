// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the owner, group, mode and access control lists of a new file from the directory it is
//! made in.
//!
//! # Kernel analogue
//! `posix_acl_create`, with `inode_init_owner` before it.

use super::{new_mode, new_owner};
use crate::acl::{AclTag, Acls};
use crate::cred::Cred;
use crate::inode::{Inode, flag};
use openpath_abi::{Errno, mode};
use std::sync::Arc;

/// The attributes of a new file.
pub(crate) struct NewFile {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Type and permission bits.
    pub(crate) mode: u32,
    /// Its lists, if it gets any.
    pub(crate) acls: Option<Acls>,
}

/// The attributes of a file that `cred` makes in `dir` with this mode. A default list takes the
/// place of the umask; a link has neither.
///
/// # Errors
/// `EIO`: the default list has no entry for the group, which no valid list lacks.
pub(crate) fn new_file(
    cred: &Cred,
    dir: &Inode,
    wanted: u32,
    umask: u32,
) -> Result<NewFile, Errno> {
    let stripped = new_mode(cred, dir, wanted);
    let (uid, gid, mode) = new_owner(cred, dir, stripped);
    let mut new = NewFile {
        uid,
        gid,
        mode,
        acls: None,
    };
    if mode::is_lnk(mode) {
        return Ok(new);
    }
    let default = if dir.flags() & flag::DEFAULT_ACL == 0 {
        None
    } else {
        dir.acls().default
    };
    let Some(default) = default else {
        new.mode &= !(umask & 0o777);
        return Ok(new);
    };
    if !default.entries().iter().any(|e| e.tag == AclTag::GroupObj) {
        return Err(Errno::EIO);
    }
    let (list, bits) = default.inherited(mode);
    let (_, is_all) = list.mode_bits();
    new.mode = bits;
    new.acls = Some(Acls {
        access: (!is_all).then(|| Arc::new(list)),
        default: mode::is_dir(mode).then_some(default),
    });
    Ok(new)
}
