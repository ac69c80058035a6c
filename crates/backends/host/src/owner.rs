// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts owner, mode and device number of a file between what the host stores and what a guest
//! sees.
//!
//! # Layout
//! With [`Ownership::Xattr`] the attribute [`ATTRIBUTE`] of a regular file or directory holds mode,
//! owner, group and device number as decimal numbers, separated by blanks. Any other value counts
//! as none.

use crate::node::Node;
use crate::options::Ownership;
use crate::pool::Handle;
use crate::sys::{HostStat, errno};
use crate::tree::Tree;
use openpath_abi::{Errno, mode};
use openpath_vfs::Attr;
use rustix::fd::AsFd;
use rustix::fs::XattrFlags;

/// Prefix of the attributes that are the tree's own.
pub(crate) const OWN_PREFIX: &[u8] = b"user.openpath.";
/// Prefix under which a guest's attributes with that prefix are stored.
pub(crate) const ESCAPED_PREFIX: &[u8] = b"user.openpath.openpath.";
/// The attribute with mode, owner, group and device number.
pub(crate) const ATTRIBUTE: &str = "user.openpath.attr";
/// The longest value of it.
const VALUE_MAX: usize = 64;

/// The attributes that the guest sees where the host's do not tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StoredAttr {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u64,
}

impl StoredAttr {
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

    /// The stored attributes of `file`, if it has some.
    ///
    /// # Errors
    /// Those of the host, except for having none.
    pub(crate) fn read(file: impl AsFd) -> Result<Option<Self>, Errno> {
        let mut value = [0; VALUE_MAX];
        match rustix::fs::fgetxattr(file, ATTRIBUTE, &mut value) {
            Ok(len) => Ok(value.get(..len).and_then(Self::parse)),
            Err(rustix::io::Errno::NODATA | rustix::io::Errno::RANGE) => Ok(None),
            Err(error) => Err(errno(error)),
        }
    }

    /// Stores them with `file`.
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
    /// The attributes of a file as the guest sees them. With [`Ownership::Xattr`] `file` is a
    /// readable handle on it, if there is one.
    ///
    /// # Errors
    /// Those of the host.
    pub(crate) fn apply_ownership(
        &self,
        stat: HostStat,
        file: Option<&Handle>,
    ) -> Result<HostStat, Errno> {
        let kept = match file {
            Some(file) => StoredAttr::read(file)?,
            None => None,
        };
        Ok(self.apply_stored(stat, kept))
    }

    /// As [`Tree::apply_ownership`], for an open file.
    pub(crate) fn apply_stored_of(
        &self,
        stat: HostStat,
        file: impl AsFd,
    ) -> Result<HostStat, Errno> {
        Ok(self.apply_stored(stat, StoredAttr::read(file)?))
    }

    /// Whether owner and mode of such a file are stored in an attribute.
    pub(crate) fn stores_attr(&self, stat: &HostStat) -> bool {
        let kept = matches!(self.options.ownership, Ownership::Xattr { .. });
        kept && matches!(stat.kind(), mode::S_IFREG | mode::S_IFDIR)
    }

    /// As [`Tree::apply_ownership`], with the stored attributes.
    pub(crate) fn apply_stored(&self, mut stat: HostStat, kept: Option<StoredAttr>) -> HostStat {
        match self.options.ownership {
            Ownership::PassThrough => {}
            Ownership::Squash { uid, gid } => {
                stat.attr.uid = uid;
                stat.attr.gid = gid;
            }
            Ownership::Xattr { uid, gid } => {
                stat.attr.uid = uid;
                stat.attr.gid = gid;
                if let Some(stored) = kept.filter(|stored| fits(stored.mode, stat.kind())) {
                    stat.attr.mode = stored.mode;
                    stat.attr.uid = stored.uid;
                    stat.attr.gid = stored.gid;
                    stat.rdev = stored.rdev;
                }
            }
        }
        stat
    }
}

/// Whether a host file of type `kind` can stand for a file with this mode.
fn fits(mode_bits: u32, kind: u32) -> bool {
    match mode::file_type(mode_bits) {
        mode::S_IFDIR => kind == mode::S_IFDIR,
        mode::S_IFLNK => false,
        _ => kind == mode::S_IFREG,
    }
}

impl Node {
    /// Whether owner and mode are stored in an attribute.
    pub(crate) fn stores_attr(&self) -> bool {
        let kept = matches!(self.tree.options.ownership, Ownership::Xattr { .. });
        kept && (self.is_file() || self.is_dir())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_attribute_value_counts_as_none() {
        let parse = |text: &str| StoredAttr::parse(text.as_bytes());
        let stored = parse("33188 1000 100 0").expect("four numbers");
        assert_eq!(
            (stored.mode, stored.uid, stored.gid),
            (0o100_644, 1000, 100)
        );
        for text in ["", "1 2 3", "1 2 x 4", "-1 2 3 4", "1 4294967296 3 4"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(fits(mode::S_IFIFO, mode::S_IFREG) && !fits(mode::S_IFREG, mode::S_IFDIR));
    }
}
