// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and writes the marks that the overlay keeps in extended attributes of its layers, and
//! keeps guests' names apart from them.
//!
//! # Layout
//! | mark | of | value | meaning |
//! |---|---|---|---|
//! | `opaque` | a directory | `y` | no lower directory shows through |
//! | `redirect` | a directory | a path | its lower path: from the roots, or a name beside |
//! | `impure` | a directory | `y` | some of its files show other inode numbers than their own |
//! | `ino` | a copied-up file | a number | the number it shows; Linux ignores the mark |
//! | `origin` | a copy by Linux | a handle | its lower file, see `origin_mark`; Linux sets it |
//! | `taken` | an entry that replaced another | seconds | when its name was taken; as `ino` |
//! | `attrs` | a copied-up directory | digests | the attributes it had; as `ino` |
//! | `lower` | a copied-up directory | number, birth | which lower directory it shows; as `ino` |
//!
//! A commit sets `taken` too, on what a run with the overlay of Linux left.
//!
//! # Rules
//! R1. A guest's attribute with the prefix of marks is stored with `overlay.` after that prefix, so
//!     an overlay can be made of an overlay.

use crate::options::Marks;
use openpath_abi::{Errno, Timespec, XattrFlags};
use openpath_vfs::Inode;
use std::borrow::Cow;

/// The mark of an opaque directory.
pub(crate) const OPAQUE: &[u8] = b"opaque";
/// The mark of a directory that has another path in lower layers.
pub(crate) const REDIRECT: &[u8] = b"redirect";
/// The mark of a directory with files that show other inode numbers.
pub(crate) const IMPURE: &[u8] = b"impure";
/// The mark of a file that shows another inode number.
pub(crate) const NUMBER: &[u8] = b"ino";
/// The mark of a file that the overlay of the kernel copied up, without attributes that have names
/// of marks.
pub(crate) const ORIGIN: &[u8] = b"origin";
/// The mark of an entry that replaced another one of the upper tree.
pub(crate) const TAKEN: &[u8] = b"taken";
/// The mark of a copied-up directory that records its attributes.
pub(crate) const ATTRS: &[u8] = b"attrs";
/// The mark of a copied-up directory that records the identity of the lower one.
pub(crate) const LOWER: &[u8] = b"lower";
/// Flags to set an attribute, whether or not it exists.
const ANY: XattrFlags = XattrFlags::empty();
/// Separates the prefix from a guest's own name.
const ESCAPE: &[u8] = b"overlay.";

/// The marks of a directory.
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
    /// Those of the backend, except for having none.
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
    /// Those of the backend, except for having none.
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
    /// Those of the backend.
    pub(crate) fn set(
        self,
        inode: &Inode,
        what: &[u8],
        value: &[u8],
        now: Timespec,
    ) -> Result<(), Errno> {
        let name = self.name(what);
        crate::layer::with_lock(inode, |ops| ops.setxattr(inode, &name, value, ANY, now))
    }

    /// The name under which a guest's attribute is stored in a layer (R1).
    pub(crate) fn stored_name(self, name: &[u8]) -> Cow<'_, [u8]> {
        match name.strip_prefix(self.prefix()) {
            Some(rest) => Cow::Owned([self.prefix(), ESCAPE, rest].concat()),
            None => Cow::Borrowed(name),
        }
    }

    /// The name that guests see of a layer's attribute; `None` for a mark.
    #[must_use]
    pub fn shown_name(self, name: &[u8]) -> Option<Vec<u8>> {
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
    fn guests_names_survive_storing() {
        for marks in [Marks::User, Marks::Trusted] {
            let mark = marks.name(OPAQUE);
            assert_eq!(marks.shown_name(&mark), None);
            for name in [b"user.x".to_vec(), mark.clone(), marks.name(b"overlay.x")] {
                let beneath = marks.stored_name(&name);
                assert_ne!(*beneath, mark);
                assert_eq!(marks.shown_name(&beneath), Some(name));
            }
        }
    }
}
