// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the options of a tree: the mount options of tmpfs.

use openpath_abi::Timespec;

/// Default size of a tree: 1 PiB, in effect no limit.
const DEFAULT_SIZE: u64 = 1 << 50;

/// What [`MemOptions::size`] bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Charging {
    /// Blocks of data, as tmpfs does. Inodes, names and extended attributes count against
    /// [`MemOptions::inodes`] alone.
    #[default]
    Tmpfs,
    /// Everything that the tree holds: each inode, name, extended attribute and block takes bytes
    /// of `size`, and `ENOSPC` follows when they are used up. `size` is exact, and 0 admits
    /// nothing. statfs(2) shows what is left in blocks and in inodes.
    Memory {
        /// Inodes besides the root that do not count: those that the owner of the tree needs for
        /// itself, such as the directories of an overlay.
        spare_inodes: u32,
    },
}

/// How to make a tree.
///
/// Linux: the mount options of tmpfs(5).
///
/// # Divergence
/// The kernel takes half of the machine's memory for `size`; the default here is 1 PiB. `inodes`
/// is, as there, one for each block of that.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemOptions {
    /// Permission bits of the root directory (`mode=`).
    pub mode: u32,
    /// Owner of the root directory (`uid=`).
    pub uid: u32,
    /// Group of the root directory (`gid=`).
    pub gid: u32,
    /// Bytes that files and long symbolic links may take, rounded up to blocks of 4096; 0: no limit
    /// (`size=`).
    pub size: u64,
    /// Inodes and further names that may exist, the root included; 0: no limit (`nr_inodes=`).
    /// Extended attributes take from the same limit: one inode equals 1024 bytes of them.
    pub inodes: u64,
    /// What `size` bounds.
    pub charging: Charging,
    /// The whole tree is read-only from the start (`ro`).
    pub read_only: bool,
    /// Files start without seals and can be sealed, as those of memfd_create(2) with
    /// `MFD_ALLOW_SEALING`; else they are sealed against seals, as those of open(2).
    pub sealable: bool,
    /// When the root is made; `None`: the system's time.
    pub now: Option<Timespec>,
}

impl Default for MemOptions {
    fn default() -> Self {
        Self {
            mode: 0o1777,
            uid: 0,
            gid: 0,
            size: DEFAULT_SIZE,
            inodes: DEFAULT_SIZE / 4096,
            charging: Charging::Tmpfs,
            read_only: false,
            sealable: false,
            now: None,
        }
    }
}

openpath_vfs::setters! {
    MemOptions {
        mode: u32,
        uid: u32,
        gid: u32,
        size: u64,
        inodes: u64,
        charging: Charging,
        read_only: bool,
        sealable: bool,
        now: Option<Timespec>,
    }
}
