// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the types of directory entries in getdents64(2) (`DT_*`), and computes how many bytes an
//! entry with a name takes there.

/// Not known.
pub const DT_UNKNOWN: u8 = 0;
/// FIFO.
pub const DT_FIFO: u8 = 1;
/// Character device.
pub const DT_CHR: u8 = 2;
/// Directory.
pub const DT_DIR: u8 = 4;
/// Block device.
pub const DT_BLK: u8 = 6;
/// Regular file.
pub const DT_REG: u8 = 8;
/// Symbolic link.
pub const DT_LNK: u8 = 10;
/// Socket.
pub const DT_SOCK: u8 = 12;
/// Whiteout.
pub const DT_WHT: u8 = 14;

/// Bytes that `struct linux_dirent64` needs for a name of `name_len` bytes.
///
/// Nineteen bytes of head, the name, its NUL, rounded up to eight.
#[inline]
#[must_use]
pub const fn record_len(name_len: usize) -> usize {
    (19 + name_len + 1).next_multiple_of(8)
}
