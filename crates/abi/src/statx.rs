// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the fields that statx(2) can be asked for (`StatxMask`), the file attributes that it
//! reports, and the struct of its result.

use crate::flags::flags;

use crate::time::Timespec;

flags! {
    /// Fields of statx(2).
    StatxMask(u32):
        STATX_TYPE STATX_MODE STATX_NLINK STATX_UID STATX_GID STATX_ATIME STATX_MTIME STATX_CTIME
        STATX_INO STATX_SIZE STATX_BLOCKS STATX_BASIC_STATS STATX_BTIME STATX_MNT_ID STATX_DIOALIGN
        STATX_MNT_ID_UNIQUE STATX_SUBVOL STATX_RESERVED
}

/// The type in `mode`.
pub const STATX_TYPE: StatxMask = StatxMask::from_bits_retain(0x1);
/// The permission bits in `mode`.
pub const STATX_MODE: StatxMask = StatxMask::from_bits_retain(0x2);
/// `nlink`.
pub const STATX_NLINK: StatxMask = StatxMask::from_bits_retain(0x4);
/// `uid`.
pub const STATX_UID: StatxMask = StatxMask::from_bits_retain(0x8);
/// `gid`.
pub const STATX_GID: StatxMask = StatxMask::from_bits_retain(0x10);
/// `atime`.
pub const STATX_ATIME: StatxMask = StatxMask::from_bits_retain(0x20);
/// `mtime`.
pub const STATX_MTIME: StatxMask = StatxMask::from_bits_retain(0x40);
/// `ctime`.
pub const STATX_CTIME: StatxMask = StatxMask::from_bits_retain(0x80);
/// `ino`.
pub const STATX_INO: StatxMask = StatxMask::from_bits_retain(0x100);
/// `size`.
pub const STATX_SIZE: StatxMask = StatxMask::from_bits_retain(0x200);
/// `blocks`.
pub const STATX_BLOCKS: StatxMask = StatxMask::from_bits_retain(0x400);
/// All of the above: what stat(2) has.
pub const STATX_BASIC_STATS: StatxMask = StatxMask::from_bits_retain(0x7ff);
/// `btime`.
pub const STATX_BTIME: StatxMask = StatxMask::from_bits_retain(0x800);
/// `mnt_id`.
pub const STATX_MNT_ID: StatxMask = StatxMask::from_bits_retain(0x1000);
/// `dio_mem_align` and `dio_offset_align`.
pub const STATX_DIOALIGN: StatxMask = StatxMask::from_bits_retain(0x2000);
/// `mnt_id`, in the form that is never used again.
pub const STATX_MNT_ID_UNIQUE: StatxMask = StatxMask::from_bits_retain(0x4000);
/// `subvol`.
pub const STATX_SUBVOL: StatxMask = StatxMask::from_bits_retain(0x8000);
/// Must be 0, else `EINVAL` (`STATX__RESERVED`).
pub const STATX_RESERVED: StatxMask = StatxMask::from_bits_retain(0x80000000);

/// Compressed.
pub const STATX_ATTR_COMPRESSED: u64 = 0x4;
/// Cannot be changed.
pub const STATX_ATTR_IMMUTABLE: u64 = 0x10;
/// Can only be appended to.
pub const STATX_ATTR_APPEND: u64 = 0x20;
/// Not to be dumped.
pub const STATX_ATTR_NODUMP: u64 = 0x40;
/// Encrypted.
pub const STATX_ATTR_ENCRYPTED: u64 = 0x800;
/// Triggers an automount.
pub const STATX_ATTR_AUTOMOUNT: u64 = 0x1000;
/// Root of a mount.
pub const STATX_ATTR_MOUNT_ROOT: u64 = 0x2000;
/// Protected by fs-verity.
pub const STATX_ATTR_VERITY: u64 = 0x100000;
/// Mapped without the page cache.
pub const STATX_ATTR_DAX: u64 = 0x200000;

/// What statx(2) reports (`struct statx`, without its padding and its newest fields).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Statx {
    /// `STATX_*` that are filled in.
    pub mask: StatxMask,
    /// Preferred size of input and output.
    pub blksize: u32,
    /// `STATX_ATTR_*` that are set.
    pub attributes: u64,
    /// Number of links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Type and permission bits.
    pub mode: u16,
    /// Inode number.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// `STATX_ATTR_*` that the file system knows.
    pub attributes_mask: u64,
    /// Last access.
    pub atime: Timespec,
    /// Birth.
    pub btime: Timespec,
    /// Last change of the inode.
    pub ctime: Timespec,
    /// Last change of the data.
    pub mtime: Timespec,
    /// Device that a device node stands for: major part.
    pub rdev_major: u32,
    /// Device that a device node stands for: minor part.
    pub rdev_minor: u32,
    /// Device of the file system: major part.
    pub dev_major: u32,
    /// Device of the file system: minor part.
    pub dev_minor: u32,
    /// Id of the mount.
    pub mnt_id: u64,
    /// Alignment of memory for direct input and output.
    pub dio_mem_align: u32,
    /// Alignment of offsets for direct input and output.
    pub dio_offset_align: u32,
    /// Id of the subvolume.
    pub subvol: u64,
}
