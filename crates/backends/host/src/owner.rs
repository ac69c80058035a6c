// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whose files are, here and on the host.
//!
//! # Layout
//! With [`Ownership::Xattr`] the attribute [`ATTRIBUTE`] of a regular file or directory holds mode,
//! owner, group and device number as decimal numbers with a blank between two. A value that is none
//! of ours counts as none.

use crate::node::Node;
use crate::options::Ownership;
use crate::pool::Handle;
use crate::sys::{Facts, errno};
use crate::tree::Tree;
use openpath_abi::{Errno, mode};
use openpath_vfs::Attr;
use rustix::fd::AsFd;
use rustix::fs::XattrFlags;

/// What begins the names of attributes that are the tree's own.
pub(crate) const OWN: &[u8] = b"user.openpath.";
/// What begins the names of a guest's attributes whose names would begin so.
pub(crate) const ESCAPED: &[u8] = b"user.openpath.openpath.";
/// The attribute with mode, owner, group and device number.
pub(crate) const ATTRIBUTE: &str = "user.openpath.attr";
/// The longest value of it.
const ROOM: usize = 64;

/// What the guest sees of a file where the host's own attributes do not tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Guest {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u64,
}

impl Guest {
    pub(crate) fn of(attr: &Attr, rdev: u64) -> Self {
        Self {
            mode: attr.mode,
            uid: attr.uid,
            gid: attr.gid,
            rdev,
        }
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut numbers = text.split(' ').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let (mode, uid, gid, rdev) = (next()?, next()?, next()?, next()?);
        Some(Self {
            mode: u32::try_from(mode).ok()?,
            uid: u32::try_from(uid).ok()?,
            gid: u32::try_from(gid).ok()?,
            rdev,
        })
    }

    /// What is kept of `file`.
    ///
    /// # Errors
    /// Those of the host, but for having none.
    pub(crate) fn read(file: impl AsFd) -> Result<Option<Self>, Errno> {
        let mut value = [0; ROOM];
        match rustix::fs::fgetxattr(file, ATTRIBUTE, &mut value) {
            Ok(len) => Ok(value.get(..len).and_then(Self::parse)),
            Err(rustix::io::Errno::NODATA | rustix::io::Errno::RANGE) => Ok(None),
            Err(error) => Err(errno(error)),
        }
    }

    /// Keeps it with `file`.
    ///
    /// # Errors
    /// Those of the host; `EOPNOTSUPP` where it has no such attributes.
    pub(crate) fn write(self, file: impl AsFd) -> Result<(), Errno> {
        let Self {
            mode,
            uid,
            gid,
            rdev,
        } = self;
        let value = format!("{mode} {uid} {gid} {rdev}");
        let flags = XattrFlags::empty();
        rustix::fs::fsetxattr(file, ATTRIBUTE, value.as_bytes(), flags).map_err(errno)
    }
}

impl Tree {
    /// What the host says of a file, as the guest sees it; with [`Ownership::Xattr`] `file` is a
    /// handle on it that can be read, if there is one.
    ///
    /// # Errors
    /// Those of the host.
    pub(crate) fn shown(&self, facts: Facts, file: Option<&Handle>) -> Result<Facts, Errno> {
        let kept = match file {
            Some(file) => Guest::read(file)?,
            None => None,
        };
        Ok(self.shown_as(facts, kept))
    }

    /// As [`Tree::shown`], of a file that is open.
    pub(crate) fn shown_by(&self, facts: Facts, file: impl AsFd) -> Result<Facts, Errno> {
        Ok(self.shown_as(facts, Guest::read(file)?))
    }

    /// Whether owner and mode of such a file are kept in an attribute.
    pub(crate) fn is_kept_by_attribute(&self, facts: &Facts) -> bool {
        let kept = matches!(self.options.ownership, Ownership::Xattr { .. });
        kept && matches!(facts.kind(), mode::S_IFREG | mode::S_IFDIR)
    }

    /// As [`Tree::shown`], with what is kept of it.
    pub(crate) fn shown_as(&self, mut facts: Facts, kept: Option<Guest>) -> Facts {
        match self.options.ownership {
            Ownership::PassThrough => {}
            Ownership::Squash { uid, gid } => {
                facts.attr.uid = uid;
                facts.attr.gid = gid;
            }
            Ownership::Xattr { uid, gid } => {
                facts.attr.uid = uid;
                facts.attr.gid = gid;
                if let Some(guest) = kept.filter(|guest| fits(guest.mode, facts.kind())) {
                    facts.attr.mode = guest.mode;
                    facts.attr.uid = guest.uid;
                    facts.attr.gid = guest.gid;
                    facts.rdev = guest.rdev;
                }
            }
        }
        facts
    }
}

/// Whether a file of the host of type `kind` can stand for one of this mode.
fn fits(mode_bits: u32, kind: u32) -> bool {
    match mode::file_type(mode_bits) {
        mode::S_IFDIR => kind == mode::S_IFDIR,
        mode::S_IFLNK => false,
        _ => kind == mode::S_IFREG,
    }
}

impl Node {
    /// Whether owner and mode are kept in an attribute.
    pub(crate) fn is_owned_by_attribute(&self) -> bool {
        let kept = matches!(self.tree.options.ownership, Ownership::Xattr { .. });
        kept && (self.is_file() || self.is_dir())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_is_none() {
        let parse = |text: &str| Guest::parse(text.as_bytes());
        let guest = parse("33188 1000 100 0").expect("four numbers");
        assert_eq!((guest.mode, guest.uid, guest.gid), (0o100_644, 1000, 100));
        for text in ["", "1 2 3", "1 2 x 4", "-1 2 3 4", "1 4294967296 3 4"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(fits(mode::S_IFIFO, mode::S_IFREG) && !fits(mode::S_IFREG, mode::S_IFDIR));
    }
}
