// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes in answers (`fuse_attr`, `fuse_statx`), and how long they hold.

use super::Answer;
use openpath_abi::statx::{STATX_BASIC_STATS, STATX_BTIME};
use openpath_abi::{StatFs, Statx, Timespec, stat};
use std::time::Duration;

/// The length of an entry (`fuse_entry_out`).
pub(crate) const ENTRY_SIZE: usize = 128;
/// The length of attributes (`fuse_attr`).
const ATTR_SIZE: usize = 88;

/// How long the kernel believes a name, and attributes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Holds {
    pub(crate) name: Duration,
    pub(crate) attributes: Duration,
}

/// A node as the kernel is to see it.
pub(crate) struct Shown<'a> {
    /// The node's number.
    pub(crate) node: u64,
    pub(crate) attr: &'a Statx,
}

/// The 32 bits that the kernel has for a device (`makedev`).
fn rdev(attr: &Statx) -> u32 {
    stat::makedev(attr.rdev_major, attr.rdev_minor) as u32
}

fn attr(answer: &mut Answer<'_>, ino: u64, attr: &Statx) {
    for n in [ino, attr.size, attr.blocks] {
        answer.u64(n);
    }
    let times = [attr.atime, attr.mtime, attr.ctime];
    for at in times {
        answer.u64(at.sec.cast_unsigned());
    }
    for at in times {
        answer.u32(at.nsec);
    }
    let mode = u32::from(attr.mode);
    for n in [mode, attr.nlink, attr.uid, attr.gid, rdev(attr)] {
        answer.u32(n);
    }
    // No flags: nothing that is mounted here by itself, and no memory of its own.
    answer.u32(attr.blksize);
    answer.u32(0);
}

/// What tells a file from others that had its number before: its time of birth, in 32 bits.
fn generation(attr: &Statx) -> u64 {
    let birth = attr.btime;
    let folded = birth.sec.cast_unsigned().wrapping_mul(0x9e37_79b9) ^ u64::from(birth.nsec);
    folded & 0xffff_ffff
}

/// An entry (`fuse_entry_out`). A number is not used for another file while the kernel has it.
pub(crate) fn entry(answer: &mut Answer<'_>, shown: &Shown<'_>, holds: Holds) {
    answer.u64(shown.node);
    answer.u64(generation(shown.attr));
    answer.u64(holds.name.as_secs());
    answer.u64(holds.attributes.as_secs());
    answer.u32(holds.name.subsec_nanos());
    answer.u32(holds.attributes.subsec_nanos());
    attr(answer, shown.attr.ino, shown.attr);
}

/// The entry of a name that does not exist, for so long.
pub(crate) fn no_entry(answer: &mut Answer<'_>, holds: Duration) {
    answer.zeros(16);
    answer.u64(holds.as_secs());
    answer.u64(0);
    answer.u32(holds.subsec_nanos());
    answer.u32(0);
    answer.zeros(ATTR_SIZE);
}

fn hold(answer: &mut Answer<'_>, holds: Duration) {
    answer.u64(holds.as_secs());
    answer.u32(holds.subsec_nanos());
    answer.u32(0);
}

/// Attributes that hold for so long (`fuse_attr_out`).
pub(crate) fn attributes(answer: &mut Answer<'_>, shown: &Shown<'_>, holds: Duration) {
    hold(answer, holds);
    attr(answer, shown.attr.ino, shown.attr);
}

fn time(answer: &mut Answer<'_>, at: Timespec) {
    answer.u64(at.sec.cast_unsigned());
    answer.u32(at.nsec);
    answer.u32(0);
}

/// The same with the time of birth (`fuse_statx_out`).
pub(crate) fn statx(answer: &mut Answer<'_>, shown: &Shown<'_>, holds: Duration) {
    hold(answer, holds);
    answer.zeros(16);
    let attr = shown.attr;
    answer.u32(attr.mask & (STATX_BASIC_STATS | STATX_BTIME));
    answer.u32(attr.blksize);
    answer.u64(attr.attributes);
    for n in [attr.nlink, attr.uid, attr.gid] {
        answer.u32(n);
    }
    answer.u16(attr.mode);
    answer.u16(0);
    for n in [shown.attr.ino, attr.size, attr.blocks, attr.attributes_mask] {
        answer.u64(n);
    }
    for at in [attr.atime, attr.btime, attr.ctime, attr.mtime] {
        time(answer, at);
    }
    answer.u32(attr.rdev_major);
    answer.u32(attr.rdev_minor);
    // The device is the kernel's to say.
    answer.zeros(8 + 14 * 8);
}

/// What a file system has (`fuse_statfs_out`).
pub(crate) fn statfs(answer: &mut Answer<'_>, f: &StatFs) {
    for n in [f.blocks, f.bfree, f.bavail, f.files, f.ffree] {
        answer.u64(n);
    }
    answer.u32(u32::try_from(f.bsize).unwrap_or(4096));
    answer.u32(u32::try_from(f.namelen).unwrap_or(255));
    answer.u32(u32::try_from(f.frsize).unwrap_or(4096));
    answer.zeros(28);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_as_long_as_the_kernel_wants_them() {
        let value = Statx::default();
        let shown = Shown {
            node: 5,
            attr: &value,
        };
        let holds = Holds {
            name: Duration::from_secs(1),
            attributes: Duration::from_secs(2),
        };
        let len = |put: &dyn Fn(&mut Answer<'_>)| {
            let mut room = [0; 512];
            let mut answer = Answer::new(&mut room, 1);
            put(&mut answer);
            answer.len()
        };
        assert_eq!(len(&|a| entry(a, &shown, holds)), ENTRY_SIZE);
        assert_eq!(len(&|a| no_entry(a, holds.name)), ENTRY_SIZE);
        assert_eq!(len(&|a| attributes(a, &shown, holds.name)), 104);
        assert_eq!(len(&|a| statx(a, &shown, holds.name)), 288);
        assert_eq!(len(&|a| statfs(a, &StatFs::default())), 80);
    }

    #[test]
    fn times_before_the_epoch_go_as_they_are() {
        let value = Statx {
            atime: Timespec::new(-2, 3),
            ..Statx::default()
        };
        let mut room = [0; 512];
        attr(&mut Answer::new(&mut room, 1), 1, &value);
        assert_eq!(room[24..][..8], (-2i64).to_ne_bytes());
        assert_eq!(room[48..][..4], 3u32.to_ne_bytes());
    }
}
