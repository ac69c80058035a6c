// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads one file of an upper tree, with the attributes that the view shows for it and the marks of
//! the overlay.
//!
//! # Rules
//! R1. An upper tree of an ordinary user keeps owner, mode and type in `user.openpath.attr`, as the
//!     backend `host` writes it. Marks of the overlay have the prefix of the view (`marks`), and
//!     such an attribute of a guest is kept with `overlay.` after it.
//! R2. There, a character device 0:0 is a whiteout. One with the sticky bit is a device of the
//!     view, which does not have that bit.
//! R3. The access control lists of such a file are in `user.openpath.acl_*`. Its lists on the host
//!     come from the directory of views, and are not the view's.

use crate::attributes::acl;
use crate::attributes::file_stat::{Attributes, FileStat};
use crate::attributes::own_attr::{KEPT, OWN, parse};
use crate::attributes::xattrs::Xattrs;
use crate::host::held_file::HeldFile;
use openpath_abi::mode;
use openpath_overlay::Marks;
use rustix::io::Result;

/// What comes after our prefix in a guest's own name.
const OWN_ESCAPE: &[u8] = b"openpath.";

/// A file of an upper tree (R1, R2).
pub(crate) struct UpperFile {
    /// The attributes on the host, with type, owner and mode as the view has them.
    pub(crate) stat: FileStat,
    xattrs: Xattrs,
    pub(crate) marks: Xattrs,
    /// It is a whiteout (R2).
    pub(crate) is_whiteout: bool,
}

impl UpperFile {
    /// Reads it; `prefix`: the marks of its tree.
    pub(crate) fn read(held: &HeldFile, prefix: Marks) -> Result<UpperFile> {
        let mut stat = held.stat.clone();
        let mut plain = Vec::new();
        let mut marks = Vec::new();
        let mut kept = None;
        let is_root = rustix::process::geteuid().is_root();
        let has = stat.is_dir() || stat.is_file() || is_root;
        let all = if has {
            Xattrs::read(&held.path())?
        } else {
            Xattrs::default()
        };
        let all = all.iter();
        let all = all.map(|(name, value)| (Box::<[u8]>::from(name), Box::<[u8]>::from(value)));
        for (name, value) in all {
            if let Some(mark) = name.strip_prefix(prefix.prefix()) {
                match prefix.shown_name(&name) {
                    Some(own) => plain.push((own.into(), value)),
                    None => marks.push((mark.into(), value)),
                };
            } else if is_root {
                // Root's upper tree keeps nothing in attributes: such names are the command's.
                plain.push((name, value));
            } else if *name == *KEPT {
                kept = parse(&value);
            } else if let Some(list) = acl::kept_as(&name) {
                plain.push((list.into(), value));
            } else if acl::is_acl(&name) {
                // R3
            } else if let Some(own) = name.strip_prefix(OWN) {
                if let Some(own) = own.strip_prefix(OWN_ESCAPE) {
                    plain.push(([OWN, own].concat().into(), value));
                }
            } else {
                plain.push((name, value));
            }
        }
        if let Some((mode, uid, gid, rdev)) = kept {
            (stat.mode, stat.uid, stat.gid, stat.rdev) = (mode, uid, gid, rdev);
        }
        let mut is_whiteout = false;
        if stat.is_null_device() {
            is_whiteout = stat.mode & mode::S_ISVTX == 0;
            stat.mode &= !mode::S_ISVTX;
        }
        Ok(UpperFile {
            is_whiteout,
            stat,
            xattrs: plain.into_iter().collect(),
            marks: marks.into_iter().collect(),
        })
    }

    /// The attributes that the view shows.
    pub(crate) fn attributes(&self) -> Attributes {
        Attributes::of(&self.stat, self.xattrs.clone())
    }

    /// Whether it has an access control list, which an ordinary user's format keeps otherwise than
    /// the kernel's overlay does.
    pub(crate) fn has_acl(&self) -> bool {
        acl::has_acl(&self.xattrs)
    }

    pub(crate) fn mark(&self, name: &str) -> Option<&[u8]> {
        self.marks.get(name.as_bytes())
    }
}
