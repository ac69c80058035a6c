// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes attributes, entries of names and the figures of statfs(2) into replies, and says how long
//! the kernel may cache attributes and names.

use super::ReplyBuilder;
use openpath_abi::statx::{STATX_BASIC_STATS, STATX_BTIME};
use openpath_abi::{StatFs, Statx, Timespec, stat};
use std::time::Duration;

/// The length of an entry (`fuse_entry_out`).
pub(crate) const ENTRY_SIZE: usize = 128;
/// The length of attributes (`fuse_attr`).
const ATTR_SIZE: usize = 88;

/// How long the kernel may cache a name, and attributes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Validity {
    pub(crate) entry: Duration,
    pub(crate) attr: Duration,
}

/// A node as the kernel sees it.
pub(crate) struct NodeAttr<'a> {
    /// The node's number.
    pub(crate) number: u64,
    pub(crate) attr: &'a Statx,
}

/// The 32 bits of a device number (`makedev`).
fn rdev(attr: &Statx) -> u32 {
    stat::makedev(attr.rdev_major, attr.rdev_minor) as u32
}

fn attr(reply: &mut ReplyBuilder<'_>, ino: u64, attr: &Statx) {
    for n in [ino, attr.size, attr.blocks] {
        reply.u64(n);
    }
    let times = [attr.atime, attr.mtime, attr.ctime];
    for at in times {
        reply.u64(at.sec.cast_unsigned());
    }
    for at in times {
        reply.u32(at.nsec);
    }
    let mode = u32::from(attr.mode);
    for n in [mode, attr.nlink, attr.uid, attr.gid, rdev(attr)] {
        reply.u32(n);
    }
    // No flags: neither an automount nor DAX.
    reply.u32(attr.blksize);
    reply.u32(0);
}

/// Tells a file from others that had its number before: its time of birth, in 32 bits.
fn generation(attr: &Statx) -> u64 {
    let birth = attr.btime;
    let folded = birth.sec.cast_unsigned().wrapping_mul(0x9e37_79b9) ^ u64::from(birth.nsec);
    folded & 0xffff_ffff
}

/// An entry (`fuse_entry_out`). A number is not reused for another file while the kernel has it.
pub(crate) fn entry(reply: &mut ReplyBuilder<'_>, node: &NodeAttr<'_>, validity: Validity) {
    reply.u64(node.number);
    reply.u64(generation(node.attr));
    reply.u64(validity.entry.as_secs());
    reply.u64(validity.attr.as_secs());
    reply.u32(validity.entry.subsec_nanos());
    reply.u32(validity.attr.subsec_nanos());
    attr(reply, node.attr.ino, node.attr);
}

/// The entry of a name that does not exist, valid for so long.
pub(crate) fn negative_entry(reply: &mut ReplyBuilder<'_>, valid: Duration) {
    reply.zeros(16);
    reply.u64(valid.as_secs());
    reply.u64(0);
    reply.u32(valid.subsec_nanos());
    reply.u32(0);
    reply.zeros(ATTR_SIZE);
}

fn valid_for(reply: &mut ReplyBuilder<'_>, valid: Duration) {
    reply.u64(valid.as_secs());
    reply.u32(valid.subsec_nanos());
    reply.u32(0);
}

/// Attributes that are valid for so long (`fuse_attr_out`).
pub(crate) fn attributes(reply: &mut ReplyBuilder<'_>, node: &NodeAttr<'_>, valid: Duration) {
    valid_for(reply, valid);
    attr(reply, node.attr.ino, node.attr);
}

fn time(reply: &mut ReplyBuilder<'_>, at: Timespec) {
    reply.u64(at.sec.cast_unsigned());
    reply.u32(at.nsec);
    reply.u32(0);
}

/// The same with the time of birth (`fuse_statx_out`).
pub(crate) fn statx(reply: &mut ReplyBuilder<'_>, node: &NodeAttr<'_>, valid: Duration) {
    valid_for(reply, valid);
    reply.zeros(16);
    let attr = node.attr;
    reply.u32((attr.mask & (STATX_BASIC_STATS | STATX_BTIME)).bits());
    reply.u32(attr.blksize);
    reply.u64(attr.attributes);
    for n in [attr.nlink, attr.uid, attr.gid] {
        reply.u32(n);
    }
    reply.u16(attr.mode);
    reply.u16(0);
    for n in [node.attr.ino, attr.size, attr.blocks, attr.attributes_mask] {
        reply.u64(n);
    }
    for at in [attr.atime, attr.btime, attr.ctime, attr.mtime] {
        time(reply, at);
    }
    reply.u32(attr.rdev_major);
    reply.u32(attr.rdev_minor);
    // The kernel fills in the device.
    reply.zeros(8 + 14 * 8);
}

/// The figures of a file system (`fuse_statfs_out`).
pub(crate) fn statfs(reply: &mut ReplyBuilder<'_>, f: &StatFs) {
    for n in [f.blocks, f.bfree, f.bavail, f.files, f.ffree] {
        reply.u64(n);
    }
    reply.u32(u32::try_from(f.bsize).unwrap_or(4096));
    reply.u32(u32::try_from(f.namelen).unwrap_or(255));
    reply.u32(u32::try_from(f.frsize).unwrap_or(4096));
    reply.zeros(28);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_the_lengths_of_the_protocol() {
        let value = Statx::default();
        let node = NodeAttr {
            number: 5,
            attr: &value,
        };
        let validity = Validity {
            entry: Duration::from_secs(1),
            attr: Duration::from_secs(2),
        };
        let len = |put: &dyn Fn(&mut ReplyBuilder<'_>)| {
            let mut room = [0; 512];
            let mut reply = ReplyBuilder::new(&mut room, 1);
            put(&mut reply);
            reply.len()
        };
        assert_eq!(len(&|a| entry(a, &node, validity)), ENTRY_SIZE);
        assert_eq!(len(&|a| negative_entry(a, validity.entry)), ENTRY_SIZE);
        assert_eq!(len(&|a| attributes(a, &node, validity.entry)), 104);
        assert_eq!(len(&|a| statx(a, &node, validity.entry)), 288);
        assert_eq!(len(&|a| statfs(a, &StatFs::default())), 80);
    }

    #[test]
    fn times_before_the_epoch_are_sent_unchanged() {
        let value = Statx {
            atime: Timespec::new(-2, 3),
            ..Statx::default()
        };
        let mut room = [0; 512];
        attr(&mut ReplyBuilder::new(&mut room, 1), 1, &value);
        assert_eq!(room[24..][..8], (-2i64).to_ne_bytes());
        assert_eq!(room[48..][..4], 3u32.to_ne_bytes());
    }
}
