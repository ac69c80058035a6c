// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests of file data in memory short forms of fallocate(2) and copy_file_range(2), a file's
//! size and blocks, and its data and holes as a letter for each page.

#![allow(dead_code, reason = "each test takes what it needs")]

use super::common::at;
use openpath_abi::Errno;
use openpath_abi::falloc::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE};
use openpath_vfs::{Extent, Inode};

pub(crate) const P: u64 = 4096;
pub(crate) const KEEP: u32 = FALLOC_FL_KEEP_SIZE;
pub(crate) const PUNCH: u32 = FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE;

pub(crate) fn fallocate(file: &Inode, mode: u32, offset: u64, len: u64) -> Result<(), Errno> {
    fallocate_at(file, mode, offset, len, 50)
}

pub(crate) fn fallocate_at(
    file: &Inode,
    mode: u32,
    offset: u64,
    len: u64,
    now: i64,
) -> Result<(), Errno> {
    file.ops().fallocate(file, mode, offset, len, at(now))
}

pub(crate) fn copy(from: (&Inode, u64), to: (&Inode, u64), len: u64) -> Result<usize, Errno> {
    let (inode, offset) = from;
    inode
        .ops()
        .copy_range(inode, offset, to.0, to.1, len, at(60))
}

/// Size in bytes and blocks of 4096 bytes.
pub(crate) fn extent(file: &Inode) -> (u64, u64) {
    let attr = file.attr();
    (attr.size, attr.blocks / 8)
}

/// The file as lseek(2) shows it: a letter for each page, `D` for data and `H` for a hole.
pub(crate) fn layout(file: &Inode) -> String {
    let size = file.size();
    let mut all = String::new();
    let mut offset = 0;
    while offset < size {
        let seek = |extent| file.ops().seek_extent(file, offset, extent);
        let is_data = seek(Extent::Data) == Ok(offset);
        let other = if is_data { Extent::Hole } else { Extent::Data };
        let end = seek(other).unwrap_or(size);
        let letter = if is_data { "D" } else { "H" };
        all += &letter.repeat((end - offset).div_ceil(P) as usize);
        offset = end;
    }
    all
}

/// Pages of the same byte each.
pub(crate) fn pages(byte: u8, count: u64) -> Vec<u8> {
    vec![byte; (count * P) as usize]
}
