// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records with each copied-up directory which lower directory was copied and with which
//! attributes, and finds out later whether the attributes of either have changed.
//!
//! # Fields
//! The mark `attrs` has two digests: of the copy, and of the directory that was copied. They differ
//! where the upper tree cannot keep an extended attribute. The mark `lower` has the inode number of
//! the directory that was copied, and its time of birth (zero: there is none).
//!
//! # Rules
//! R1. A digest covers owner, mode, access control lists and extended attributes, marks aside.
//!     Times are not in it.
//! R2. The second digest is made of the values that were copied, so a change by others during the
//!     copy counts as one after it.
//!
//! # Limits
//! * A directory that was copied up without [`OverlayOptions::records_taken`], or by another
//!   overlay, has no mark.
//!
//! [`OverlayOptions::records_taken`]: crate::OverlayOptions::records_taken

use crate::fs::Fs;
use crate::marks::{ATTRS, LOWER};
use crate::options::Marks;
use crate::whiteout::shown_mode;
use openpath_abi::{Errno, Timespec};
use openpath_vfs::{AclKind, Acls, Attr, Inode};
use std::collections::{BTreeMap, HashMap};

/// Extended attributes by name.
pub(crate) type Values = BTreeMap<Vec<u8>, Vec<u8>>;

/// On which sides the attributes of a directory changed since it was copied up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sides {
    /// In the upper tree.
    pub upper: bool,
    /// In the lower tree.
    pub lower: bool,
}

/// The sides of directories, by path.
pub type SidesByPath = HashMap<Vec<u8>, Sides>;

/// The extended attributes of an inode as guests see them, marks and access control lists aside:
/// not every tree lists the lists that its files have.
///
/// # Errors
/// What the layer meets, but for having none.
pub(crate) fn values(inode: &Inode, marks: Option<Marks>) -> Result<Values, Errno> {
    let names = match inode.ops().listxattr(inode) {
        Err(Errno::EOPNOTSUPP) => return Ok(Values::new()),
        names => names?,
    };
    let mut all = Values::new();
    for name in names {
        let shown = marks.map_or_else(|| Some(name.clone()), |marks| marks.shown_name(&name));
        if let Some(shown) = shown.filter(|_| AclKind::of_name(&name).is_none()) {
            match inode.ops().getxattr(inode, &name) {
                Err(Errno::ENODATA) => {}
                value => {
                    all.insert(shown, value?);
                }
            }
        }
    }
    Ok(all)
}

/// Notes with a new copy of a directory what it has, and which directory was copied with what.
///
/// # Errors
/// What the upper tree meets, but for keeping no marks.
pub(crate) fn note(
    made: &Inode,
    lower: &Inode,
    (attr, acls, copied): (&Attr, &Acls, &Values),
    marks: Marks,
    now: Timespec,
) -> Result<(), Errno> {
    let copy = digest_of(made, Some(marks))?;
    let source = digest(attr.mode, (attr.uid, attr.gid), acls, copied);
    let born = lower.btime();
    let identity = format!("{:x} {}.{:09}", lower.ino(), born.sec, born.nsec);
    let digests = format!("{copy:016x} {source:016x}");
    for (mark, value) in [(LOWER, identity), (ATTRS, digests)] {
        match marks.set(made, mark, value.as_bytes(), now) {
            Err(Errno::EPERM | Errno::EOPNOTSUPP) => {}
            done => done?,
        }
    }
    Ok(())
}

impl Fs {
    /// Where the attributes of a directory changed since it was copied up; `None`: not noted.
    ///
    /// # Errors
    /// What the layers meet.
    pub(crate) fn sides(&self, upper: &Inode, lower: &Inode) -> Result<Option<Sides>, Errno> {
        let marks = self.options.marks;
        let Some((copy, source)) = marks.get(upper, ATTRS)?.as_deref().and_then(parse) else {
            return Ok(None);
        };
        Ok(Some(Sides {
            upper: digest_of(upper, Some(marks))? != copy,
            lower: digest_of(lower, self.lower_marks())? != source,
        }))
    }
}

fn digest_of(inode: &Inode, marks: Option<Marks>) -> Result<u64, Errno> {
    let mode = shown_mode(inode.mode(), inode.rdev());
    Ok(digest(
        mode,
        inode.ids(),
        &inode.acls(),
        &values(inode, marks)?,
    ))
}

/// FNV-1a, with the length before each part.
fn digest(mode: u32, (uid, gid): (u32, u32), acls: &Acls, values: &Values) -> u64 {
    let mut all = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |bytes: &[u8]| {
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in length.iter().chain(bytes) {
            all = (all ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for number in [mode, uid, gid] {
        add(&number.to_le_bytes());
    }
    for kind in [AclKind::Access, AclKind::Default] {
        let list = acls.get(kind).map(|list| list.encode());
        add(&list.unwrap_or_default());
    }
    for (name, value) in values {
        add(name);
        add(value);
    }
    all
}

fn parse(mark: &[u8]) -> Option<(u64, u64)> {
    let (copy, source) = std::str::from_utf8(mark).ok()?.split_once(' ')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(copy)?, number(source)?))
}
