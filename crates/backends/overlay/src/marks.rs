// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the overlay notes with the files of its layers, and how guests are kept from it.
//!
//! # Layout
//! | mark | of | value | what it says |
//! |---|---|---|---|
//! | `opaque` | a directory | `y` | nothing beneath it shows |
//! | `redirect` | a directory | a path | where it is beneath: from the roots, or beside |
//! | `impure` | a directory | `y` | some of its files show other numbers than their own |
//! | `ino` | what was copied up | a number | with which it is shown; Linux passes it over |
//! | `taken` | what replaced an entry | seconds | when its name was taken; as `ino` |
//! | `attrs` | a directory copied up | digests | which attributes it had; as `ino` |
//!
//! # Rules
//! R1. A guest's attribute whose name begins like a mark is kept as `overlay.` and the rest behind
//!     that beginning, so that an overlay can be made of an overlay.

use crate::options::Marks;
use openpath_abi::{Errno, Timespec};
use openpath_vfs::Inode;
use std::borrow::Cow;

/// The mark of a directory that hides what is beneath it.
pub(crate) const OPAQUE: &[u8] = b"opaque";
/// The mark of a directory that is somewhere else beneath.
pub(crate) const REDIRECT: &[u8] = b"redirect";
/// The mark of a directory with files of other numbers.
pub(crate) const IMPURE: &[u8] = b"impure";
/// The mark of a file that shows another number.
pub(crate) const NUMBER: &[u8] = b"ino";
/// The mark of what replaced another entry of the upper tree.
pub(crate) const TAKEN: &[u8] = b"taken";
/// The mark of a directory that was copied up.
pub(crate) const ATTRS: &[u8] = b"attrs";
/// Flags of an attribute that is set, whether or not it was there.
const ANY: u32 = 0;
/// What stands between the beginning and a guest's own name.
const ESCAPE: &[u8] = b"overlay.";

/// What a directory is marked with.
#[derive(Default)]
pub(crate) struct DirMarks {
    pub(crate) opaque: bool,
    pub(crate) impure: bool,
    pub(crate) redirect: Option<Vec<u8>>,
}

impl Marks {
    fn name(self, what: &[u8]) -> Vec<u8> {
        [self.prefix(), what].concat()
    }

    /// The value of a mark.
    ///
    /// # Errors
    /// What the backend meets, but for having none.
    pub(crate) fn get(self, inode: &Inode, what: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        match inode.ops().getxattr(inode, &self.name(what)) {
            Ok(value) => Ok(Some(value)),
            Err(Errno::ENODATA | Errno::EOPNOTSUPP | Errno::EPERM) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// All marks of a directory.
    ///
    /// # Errors
    /// What the backend meets, but for having none.
    pub(crate) fn of_dir(self, dir: &Inode) -> Result<DirMarks, Errno> {
        let names = match dir.ops().listxattr(dir) {
            Ok(names) => names,
            Err(Errno::EOPNOTSUPP | Errno::EPERM) => Vec::new(),
            Err(errno) => return Err(errno),
        };
        let mut marks = DirMarks::default();
        for name in names {
            match name.strip_prefix(self.prefix()) {
                Some(OPAQUE) => marks.opaque = self.is_set(dir, OPAQUE)?,
                Some(IMPURE) => marks.impure = self.is_set(dir, IMPURE)?,
                Some(REDIRECT) => marks.redirect = self.get(dir, REDIRECT)?,
                _ => {}
            }
        }
        Ok(marks)
    }

    fn is_set(self, dir: &Inode, what: &[u8]) -> Result<bool, Errno> {
        Ok(self.get(dir, what)?.is_some_and(|value| value == b"y"))
    }

    /// Sets a mark.
    ///
    /// # Errors
    /// What the backend meets.
    pub(crate) fn set(
        self,
        inode: &Inode,
        what: &[u8],
        value: &[u8],
        now: Timespec,
    ) -> Result<(), Errno> {
        let name = self.name(what);
        crate::layer::change(inode, |ops| ops.setxattr(inode, &name, value, ANY, now))
    }

    /// The name that a guest's attribute has beneath (R1).
    pub(crate) fn beneath(self, name: &[u8]) -> Cow<'_, [u8]> {
        match name.strip_prefix(self.prefix()) {
            Some(rest) => Cow::Owned([self.prefix(), ESCAPE, rest].concat()),
            None => Cow::Borrowed(name),
        }
    }

    /// The name that guests see of an attribute beneath; `None` for a mark.
    pub(crate) fn shown(self, name: &[u8]) -> Option<Vec<u8>> {
        let Some(rest) = name.strip_prefix(self.prefix()) else {
            return Some(name.to_vec());
        };
        let own = rest.strip_prefix(ESCAPE)?;
        Some([self.prefix(), own].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_guests_come_back_as_they_were() {
        for marks in [Marks::User, Marks::Trusted] {
            let mark = marks.name(OPAQUE);
            assert_eq!(marks.shown(&mark), None);
            for name in [b"user.x".to_vec(), mark.clone(), marks.name(b"overlay.x")] {
                let beneath = marks.beneath(&name);
                assert_ne!(*beneath, mark);
                assert_eq!(marks.shown(&beneath), Some(name));
            }
        }
    }
}
