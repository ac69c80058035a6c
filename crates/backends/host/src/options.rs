// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a tree is made with.

use crate::held::HeldFlags;
use rustix::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// Who else changes the directory, and so what may be kept of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Policy {
    /// Nobody but this tree does: names, misses and attributes are kept until a call of ours
    /// changes them. What others change all the same is not seen.
    Exclusive,
    /// Others may. What they change is told by inotify(7) and forgotten then: after the change by
    /// as long as the host needs to tell it and a thread to hear it.
    Notify,
    /// Others may. Each use of a name asks the host.
    #[default]
    Revalidate,
    /// As `Revalidate`, and no file is held open beyond its openings.
    None,
}

/// Whose the files are, here and on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ownership {
    /// Owner, group and mode are the host's. To give files to others than the process's own user
    /// takes the host's root.
    #[default]
    PassThrough,
    /// Every file is shown as this user's and group's, and is on the host whoever's the process
    /// is. chown(2) to anyone else is `EPERM`.
    Squash {
        /// Owner as shown.
        uid: u32,
        /// Group as shown.
        gid: u32,
    },
    /// Owner, group, mode and device number of regular files and directories are kept in the
    /// attribute `user.openpath.attr`; devices, FIFOs and sockets are empty regular files with it.
    /// What has none is shown as this user's and group's, symbolic links always.
    Xattr {
        /// Owner of what has no attribute.
        uid: u32,
        /// Group of what has no attribute.
        gid: u32,
    },
}

/// What happens where something else is mounted below the directory on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Crossing {
    /// It is part of the tree; numbers of its inodes are told apart by their high bits.
    #[default]
    Cross,
    /// It cannot be entered: `EXDEV`.
    Stay,
    /// It is part of the tree, unless the kernel makes it up (proc, sysfs and their like): that
    /// cannot be entered, and no such tree can be made: `EXDEV`. Of this process such files say
    /// what a guest of it is not to know, and writing them changes it.
    Stored,
}

/// How the host is asked for names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reach {
    /// By openat2(2) if the host has it and allows it, else by steps.
    #[default]
    Best,
    /// By openat(2) with `O_NOFOLLOW`, one component at a time.
    Steps,
}

/// How to make a tree.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Who else changes the directory.
    pub policy: Policy,
    /// Whose the files are.
    pub ownership: Ownership,
    /// Whether mounts of the host are crossed.
    pub crossing: Crossing,
    /// How names are reached.
    pub reach: Reach,
    /// The most descriptors of the host that are held, at least 16; a quarter of the process's
    /// limit at most.
    pub handles_max: usize,
    /// The most directories that are watched ([`Policy::Notify`]).
    pub watches_max: usize,
    /// The most reads, writes and syncs of rings that the kernel's own ring has at a time, 4096 at
    /// most; 0: it is not used. It is made when it is first needed, with a thread. Without the
    /// feature `io-uring`, or where the kernel gives none, workers do all.
    pub kernel_ring: u32,
    /// Where the directory is found again after it was removed; [`crate::HostFs::open`] says it.
    pub path: Option<PathBuf>,
    /// `/proc/self/fd`, where this process's namespace has none; else it is opened. By it a file
    /// that has lost its name is opened once more.
    pub descriptors: Option<Arc<OwnedFd>>,
    /// Name of the file system type, as `/proc/mounts` shows it.
    pub kind: &'static str,
    /// Mount flags of the host that are enforced where the tree is shown: a mount with another
    /// flag is not entered (`EXDEV`). `None`: flags of mounts do not matter.
    pub held: Option<Arc<HeldFlags>>,
    /// Nothing may be changed.
    pub read_only: bool,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            ownership: Ownership::default(),
            crossing: Crossing::default(),
            reach: Reach::default(),
            handles_max: 1024,
            watches_max: 8192,
            kernel_ring: 128,
            path: None,
            descriptors: None,
            kind: "openpath-host",
            held: None,
            read_only: false,
        }
    }
}
