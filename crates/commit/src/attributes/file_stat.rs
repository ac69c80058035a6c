// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the attributes of a file and the identity of its inode, as statx(2) reports them, and
//! the metadata that a commit gives to a file, and compares them.

use crate::attributes::acl;
use crate::attributes::xattrs::Xattrs;
use openpath_abi::mode::{self, S_ISGID, S_ISUID};
use openpath_abi::stat::makedev;
use openpath_abi::xattr::CAPABILITY_NAME;
use rustix::fs::{Statx, StatxAttributes, StatxFlags, StatxTimestamp};
use serde::{Deserialize, Serialize};

/// Seconds since 1970, and nanoseconds.
pub(crate) type Time = (i64, u32);

/// The identity of an inode.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub(crate) struct InodeId {
    pub(crate) device: Option<(u32, u32)>,
    /// 0: it is not made yet.
    pub(crate) number: u64,
    pub(crate) born: Option<Time>,
}

impl InodeId {
    /// Whether both are one inode (R2 of `held_file`).
    pub(crate) fn matches(&self, other: &InodeId) -> bool {
        self.number == other.number
            && self.born == other.born
            && (self.device.is_none() || other.device.is_none() || self.device == other.device)
    }
}

/// Whether both are known, and one inode.
pub(crate) fn are_one(a: Option<InodeId>, b: Option<InodeId>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a.matches(&b))
}

/// The attributes of a file, as statx(2) reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileStat {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u64,
    pub(crate) ino: u64,
    pub(crate) device: (u32, u32),
    pub(crate) mount: u64,
    pub(crate) nlink: u32,
    pub(crate) size: u64,
    pub(crate) bytes: u64,
    pub(crate) atime: Time,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
    pub(crate) btime: Option<Time>,
    /// The flag by which it cannot be replaced or removed.
    pub(crate) fixed: Option<Fixed>,
    /// Its time of birth never changes.
    pub(crate) births_stay: bool,
}

/// A flag of a file, as chattr(1) sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fixed {
    Immutable,
    AppendOnly,
}

impl Fixed {
    fn attribute(self) -> StatxAttributes {
        match self {
            Self::Immutable => StatxAttributes::IMMUTABLE,
            Self::AppendOnly => StatxAttributes::APPEND,
        }
    }
}

impl FileStat {
    pub(crate) fn new(stat: &Statx, births_stay: bool) -> FileStat {
        let time = |time: StatxTimestamp| (time.tv_sec, time.tv_nsec);
        let mask = StatxFlags::from_bits_retain(stat.stx_mask);
        let flags = [Fixed::Immutable, Fixed::AppendOnly];
        FileStat {
            mode: u32::from(stat.stx_mode),
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            rdev: makedev(stat.stx_rdev_major, stat.stx_rdev_minor),
            ino: stat.stx_ino,
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            mount: stat.stx_mnt_id,
            nlink: stat.stx_nlink,
            size: stat.stx_size,
            bytes: stat.stx_blocks * 512,
            atime: time(stat.stx_atime),
            mtime: time(stat.stx_mtime),
            ctime: time(stat.stx_ctime),
            btime: mask
                .contains(StatxFlags::BTIME)
                .then(|| time(stat.stx_btime)),
            fixed: flags
                .into_iter()
                .find(|flag| stat.stx_attributes.contains(flag.attribute())),
            births_stay,
        }
    }

    /// Which inode it is.
    pub(crate) fn id(&self) -> InodeId {
        InodeId {
            device: Some(self.device),
            number: self.ino,
            born: self.btime.filter(|_| self.births_stay),
        }
    }

    pub(crate) fn is_dir(&self) -> bool {
        mode::is_dir(self.mode)
    }

    pub(crate) fn is_file(&self) -> bool {
        mode::is_reg(self.mode)
    }

    pub(crate) fn is_null_device(&self) -> bool {
        mode::is_chr(self.mode) && self.rdev == 0
    }
}

/// The metadata to give to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attributes {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) rdev: u64,
    pub(crate) atime: Time,
    pub(crate) mtime: Time,
    pub(crate) xattrs: Xattrs,
}

impl Attributes {
    /// The metadata of a file.
    pub(crate) fn of(stat: &FileStat, xattrs: Xattrs) -> Attributes {
        Attributes {
            mode: stat.mode,
            uid: stat.uid,
            gid: stat.gid,
            rdev: stat.rdev,
            atime: stat.atime,
            mtime: stat.mtime,
            xattrs,
        }
    }

    /// Whether mode, owner and those extended attributes that this process can change are equal.
    pub(crate) fn same(&self, other: &Attributes) -> bool {
        let (mine, theirs) = (self.xattrs.iter(), other.xattrs.iter());
        let is_ours = |pair: &(&[u8], &[u8])| is_ours(pair.0);
        (self.mode, self.uid, self.gid) == (other.mode, other.uid, other.gid)
            && mine.filter(is_ours).eq(theirs.filter(is_ours))
    }
}

impl Attributes {
    /// Whether a change from these attributes to others gives the content of a regular file another
    /// owner, or rights to a process that executes it.
    pub(crate) fn gains_rights(&self, after: &Attributes) -> bool {
        let capabilities = |side: &Attributes| side.xattrs.get(CAPABILITY_NAME).map(<[u8]>::to_vec);
        mode::is_reg(after.mode)
            && (self.uid != after.uid
                || (self.mode | after.mode) & (S_ISUID | S_ISGID) != 0
                || capabilities(self) != capabilities(after))
    }

    /// These without another owner than that of `now`, and without rights for a process that
    /// executes the file.
    pub(crate) fn without_rights(&self, now: &FileStat) -> Attributes {
        let mut safe = self.clone();
        (safe.uid, safe.gid) = (now.uid, now.gid);
        safe.mode &= !(S_ISUID | S_ISGID);
        safe.xattrs.remove(CAPABILITY_NAME);
        safe
    }
}

/// Whether this process may change an attribute of its own files.
pub(crate) fn is_ours(name: &[u8]) -> bool {
    name.starts_with(b"user.") || acl::is_acl(name) || rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use crate::host::tree::Tree;

    #[test]
    fn attributes_take_as_much_memory_as_they_are_long() {
        let dir = std::env::temp_dir().join(format!("openpath-facts-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("file"), "").unwrap();
        let set = |name: &str, value: &[u8]| {
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(dir.join("file"), name, value, flags).unwrap();
        };
        set("user.one", b"1");
        set("user.two", &[7; 100]);
        let tree = Tree::open(&dir).unwrap();
        let held = tree.hold(b"/file").unwrap().unwrap();
        let all = held.attributes().unwrap().xattrs;
        std::fs::remove_dir_all(&dir).unwrap();
        let all: Vec<_> = all.iter().collect();
        assert_eq!(
            all,
            [(&b"user.one"[..], &b"1"[..]), (b"user.two", &[7; 100])]
        );
    }
}
