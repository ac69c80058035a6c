// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the attributes of an inode: [`Attr`] as plain data, and [`AttrWords`], the same in
//! shared words with a sequence count, so that a reader takes no lock.

use openpath_abi::Timespec;
use openpath_sync::{Life, Word, Word32};

/// Attributes of an inode at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// File type and permission bits.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Space used, in units of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub atime: Timespec,
    /// Last change of data.
    pub mtime: Timespec,
    /// Last change of the inode.
    pub ctime: Timespec,
}

/// [`Attr`] in shared words under a sequence.
#[derive(Default)]
pub(super) struct AttrWords {
    pub(super) seq: Life,
    pub(super) mode_nlink: Word,
    pub(super) ids: Word,
    pub(super) size: Word,
    blocks: Word,
    atime: Word,
    mtime: Word,
    ctime: Word,
    /// Nanoseconds of access (low half) and data change (high half).
    ns: Word,
    ctime_ns: Word32,
}

pub(super) const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

pub(super) const fn low(word: u64) -> u32 {
    (word & 0xffff_ffff) as u32
}

pub(super) const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

impl AttrWords {
    pub(super) fn read_words(&self) -> Attr {
        let (mode_nlink, ids, ns) = (self.mode_nlink.get(), self.ids.get(), self.ns.get());
        let time = |word: &Word, nsec| Timespec {
            sec: word.get().cast_signed(),
            nsec,
        };
        Attr {
            mode: low(mode_nlink),
            nlink: high(mode_nlink),
            uid: low(ids),
            gid: high(ids),
            size: self.size.get(),
            blocks: self.blocks.get(),
            atime: time(&self.atime, low(ns)),
            mtime: time(&self.mtime, high(ns)),
            ctime: time(&self.ctime, self.ctime_ns.get()),
        }
    }

    pub(super) fn write_words(&self, a: &Attr) {
        self.mode_nlink.set(pair(a.mode, a.nlink));
        self.ids.set(pair(a.uid, a.gid));
        self.size.set(a.size);
        self.blocks.set(a.blocks);
        self.atime.set(a.atime.sec.cast_unsigned());
        self.mtime.set(a.mtime.sec.cast_unsigned());
        self.ctime.set(a.ctime.sec.cast_unsigned());
        self.ns.set(pair(a.atime.nsec, a.mtime.nsec));
        self.ctime_ns.set(a.ctime.nsec);
    }
}
