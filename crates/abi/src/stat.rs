// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the structs that stat(2) and statfs(2) fill in, and packs and splits device numbers.

use crate::time::Timespec;

/// What stat(2) reports (`struct stat`, without its padding).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stat {
    /// Device of the file system, encoded as [`makedev`] does.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// Number of links.
    pub nlink: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device that a device node stands for, encoded as [`makedev`] does.
    pub rdev: u64,
    /// Bytes.
    pub size: i64,
    /// Preferred size of input and output.
    pub blksize: i64,
    /// Blocks of 512 bytes.
    pub blocks: i64,
    /// Last access.
    pub atime: Timespec,
    /// Last change of the data.
    pub mtime: Timespec,
    /// Last change of the inode.
    pub ctime: Timespec,
}

/// What statfs(2) reports (`struct statfs`, without its padding).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StatFs {
    /// Magic number of the file system's type.
    pub kind: i64,
    /// Preferred size of a block.
    pub bsize: i64,
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub bfree: u64,
    /// Free blocks for those without privilege.
    pub bavail: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub ffree: u64,
    /// Id of the file system.
    pub fsid: [i32; 2],
    /// Longest component.
    pub namelen: i64,
    /// Size of a fragment.
    pub frsize: i64,
    /// `ST_*` of [`crate::mount`].
    pub flags: u64,
}

/// A device number from its parts, as the kernel hands it to user space: 12 and 20 bits.
#[inline]
#[must_use]
pub const fn makedev(major: u32, minor: u32) -> u64 {
    ((minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xf_ff00) << 12)) as u64
}

/// The major part of a device number.
#[inline]
#[must_use]
pub const fn major(dev: u64) -> u32 {
    ((dev >> 8) & 0xfff) as u32
}

/// The minor part of a device number.
#[inline]
#[must_use]
pub const fn minor(dev: u64) -> u32 {
    ((dev & 0xff) | ((dev >> 12) & 0xf_ff00)) as u32
}
