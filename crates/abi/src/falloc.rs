// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the modes of fallocate(2), the flags of preadv2(2) and pwritev2(2), and the advice of
//! posix_fadvise(2).

/// The length stays as it is.
pub const FALLOC_FL_KEEP_SIZE: u32 = 0x01;
/// Takes data away; needs `FALLOC_FL_KEEP_SIZE`.
pub const FALLOC_FL_PUNCH_HOLE: u32 = 0x02;
/// Reserved; never granted.
pub const FALLOC_FL_NO_HIDE_STALE: u32 = 0x04;
/// Removes a range; later data moves down.
pub const FALLOC_FL_COLLAPSE_RANGE: u32 = 0x08;
/// Makes a range read as zeroes.
pub const FALLOC_FL_ZERO_RANGE: u32 = 0x10;
/// Inserts a hole; later data moves up.
pub const FALLOC_FL_INSERT_RANGE: u32 = 0x20;
/// Makes shared extents private.
pub const FALLOC_FL_UNSHARE_RANGE: u32 = 0x40;
/// Makes a range read as zeroes, written out.
pub const FALLOC_FL_WRITE_ZEROES: u32 = 0x80;

/// Poll for completion.
pub const RWF_HIPRI: u32 = 0x01;
/// As if opened with `O_DSYNC`.
pub const RWF_DSYNC: u32 = 0x02;
/// As if opened with `O_SYNC`.
pub const RWF_SYNC: u32 = 0x04;
/// Answer from memory or fail with `EAGAIN`.
pub const RWF_NOWAIT: u32 = 0x08;
/// Write at the end.
pub const RWF_APPEND: u32 = 0x10;
/// Write at the offset in spite of `O_APPEND`.
pub const RWF_NOAPPEND: u32 = 0x20;
/// Write all of it or nothing, even across a crash.
pub const RWF_ATOMIC: u32 = 0x40;
/// Do not keep the data in memory.
pub const RWF_DONTCACHE: u32 = 0x80;
/// Send no signal where the other end is gone.
pub const RWF_NOSIGNAL: u32 = 0x100;

/// No advice.
pub const POSIX_FADV_NORMAL: u32 = 0;
/// Random access.
pub const POSIX_FADV_RANDOM: u32 = 1;
/// Sequential access.
pub const POSIX_FADV_SEQUENTIAL: u32 = 2;
/// Will be needed soon.
pub const POSIX_FADV_WILLNEED: u32 = 3;
/// Will not be needed.
pub const POSIX_FADV_DONTNEED: u32 = 4;
/// Will be needed once.
pub const POSIX_FADV_NOREUSE: u32 = 5;
