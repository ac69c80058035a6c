// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads, compares and makes the extended attribute `lower`, in which our overlay keeps the inode
//! number and the birth time of the directory that was copied up.

use crate::attributes::file_stat::{FileStat, Time};

/// The bits of an inode number that a view keeps; it adds the device in the others.
const NUMBER_BITS: u64 = (1 << 48) - 1;

/// Whether a mark `lower` is of this directory; `None`: it cannot be read. Where times of birth do
/// not stay, the number decides.
pub(crate) fn is_of(mark: &[u8], stat: &FileStat) -> Option<bool> {
    let (number, born) = std::str::from_utf8(mark).ok()?.split_once(' ')?;
    let number = u64::from_str_radix(number, 16).ok()?;
    let born = parse_time(born.as_bytes())?;
    let same = (number ^ stat.ino) & NUMBER_BITS == 0;
    let now = stat.id().born.filter(|_| born != (0, 0));
    Some(same && now.is_none_or(|now| now == born))
}

/// The value of the mark `lower` for a directory of the real tree.
pub(crate) fn mark_of(stat: &FileStat) -> String {
    let (sec, nsec) = stat.btime.unwrap_or_default();
    format!("{:x} {sec}.{nsec:09}", stat.ino)
}

/// The time in the mark `taken`, or in the second word of the mark `lower`.
pub(crate) fn parse_time(mark: &[u8]) -> Option<Time> {
    let (sec, nsec) = std::str::from_utf8(mark).ok()?.split_once('.')?;
    Some((sec.parse().ok()?, nsec.parse().ok()?))
}
