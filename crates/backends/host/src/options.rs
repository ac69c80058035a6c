// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the options of a tree over a directory of the host: how it sees changes by others, whose
//! the files are, and which mounts it enters.

use crate::enforced::EnforcedFlags;
use crate::lease_waits::LeaseWaits;
use rustix::fd::OwnedFd;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Whether other programs change the directory, and so what may be cached of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Policy {
    /// No other program does: names, misses and attributes are cached until a call of ours changes
    /// them. Changes that others make all the same are not seen.
    Exclusive,
    /// Others may. inotify(7) reports their changes, which drop what is cached of them. The delay
    /// is the time that the host needs to queue the event and a thread to process it.
    Notify,
    /// Others may. Each use of a name asks the host.
    #[default]
    Revalidate,
    /// As `Revalidate`, and no file is held open beyond its openings.
    None,
}

/// How owners are shown here and stored on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Ownership {
    /// Owner, group and mode are the host's. Only the host's root can give files to others than the
    /// process's own user.
    #[default]
    PassThrough,
    /// Every file is shown with this user and group, and belongs to the process's user on the host.
    /// chown(2) to any other user is `EPERM`.
    Squash {
        /// The owner shown.
        uid: u32,
        /// The group shown.
        gid: u32,
    },
    /// The attribute `user.openpath.attr` stores owner, group, mode and device number of regular
    /// files and directories. Devices, FIFOs and sockets are empty regular files with it. A file
    /// without it is shown with this user and group, a symbolic link always.
    Xattr {
        /// Owner of a file without the attribute.
        uid: u32,
        /// Group of a file without the attribute.
        gid: u32,
    },
}

/// What happens where the host has mounted something else below the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Crossing {
    /// It is part of the tree; the high bits of inode numbers tell the mounts apart.
    #[default]
    Cross,
    /// It cannot be entered: `EXDEV`.
    Stay,
    /// It is part of the tree, unless it is a pseudo file system (proc, sysfs and the like): that
    /// cannot be entered, and no tree can be made of one (`EXDEV`). Their files tell what a guest
    /// must not know of this process, and a write to them changes the process.
    Stored,
}

/// How paths are opened on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Reach {
    /// With openat2(2) if the host has and allows it, else by steps.
    #[default]
    Best,
    /// With openat(2) and `O_NOFOLLOW`, one component at a time.
    Steps,
}

/// Answers whether the call that the asking thread serves was interrupted; by default it never is.
///
/// ```
/// use openpath_host::{HostOptions, Interruption};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let shutdown = Arc::new(AtomicBool::new(false));
/// let seen = Arc::clone(&shutdown);
/// let interrupted = Interruption::new(move || seen.load(Ordering::Acquire));
/// let options = HostOptions::default().interrupted(interrupted);
/// # drop(options);
/// ```
#[derive(Clone, Default)]
pub struct Interruption(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Interruption {
    /// One that asks `interrupted`, which must not block.
    pub fn new(interrupted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(interrupted)))
    }

    /// Whether the calling thread's call was interrupted.
    pub(crate) fn is_pending(&self) -> bool {
        self.0.as_ref().is_some_and(|interrupted| interrupted())
    }
}

impl fmt::Debug for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.0.is_some() { "asked" } else { "never" };
        write!(f, "Interruption({name})")
    }
}

/// How to make a tree.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostOptions {
    /// Whether others change the directory.
    pub policy: Policy,
    /// How owners are shown and stored.
    pub ownership: Ownership,
    /// Whether mounts of the host are crossed.
    pub crossing: Crossing,
    /// How paths are opened.
    pub reach: Reach,
    /// The most descriptors of the host that are held: at least 16, and at most a quarter of the
    /// process's limit.
    pub handles_max: usize,
    /// Whether a file that was open for writing stays open on the host, as one for reading does.
    /// Nobody can execute it meanwhile (`ETXTBSY`), so it must be in a tree that is no one else's.
    pub keeps_writers: bool,
    /// The most directories that are watched ([`Policy::Notify`]).
    pub watches_max: usize,
    /// The queue of the watches stays open until the process ends, also when the tree is dropped:
    /// to close it takes the kernel some milliseconds. For a process that ends soon after.
    pub leaves_watches: bool,
    /// The most reads, writes and syncs of rings that are in the kernel's own ring at a time, 4096
    /// at most; 0 turns it off. The ring is made when it is first needed, with a thread. Without
    /// the feature `io-uring`, or where the kernel refuses a ring, workers do the operations.
    pub kernel_ring: u32,
    /// Where to find the directory again after it was removed; set by [`crate::HostFs::open`].
    pub path: Option<PathBuf>,
    /// `/proc/self/fd`, for a process whose namespace has no `/proc`; else it is opened. Files that
    /// have lost their name are reopened through it.
    pub descriptors: Option<Arc<OwnedFd>>,
    /// Name of the file system type, as `/proc/mounts` shows it.
    pub kind: &'static str,
    /// Mount flags of the host that are enforced where the tree is shown: a mount with any other
    /// flag is not entered (`EXDEV`). `None`: mount flags do not matter.
    pub held: Option<Arc<EnforcedFlags>>,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Whether the call that the thread serves was interrupted. An open that waits until another
    /// process gives up its lease asks this, and ends with `EINTR`.
    pub interrupted: Interruption,
    /// How many opens may wait at a time until other processes give up their leases; one beyond
    /// them fails with `EAGAIN`.
    pub lease_waits: LeaseWaits,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            ownership: Ownership::default(),
            crossing: Crossing::default(),
            reach: Reach::default(),
            handles_max: 1024,
            keeps_writers: false,
            watches_max: 8192,
            leaves_watches: false,
            kernel_ring: 128,
            path: None,
            descriptors: None,
            kind: "openpath-host",
            held: None,
            read_only: false,
            interrupted: Interruption::default(),
            lease_waits: LeaseWaits::default(),
        }
    }
}

openpath_vfs::setters! {
    HostOptions {
        policy: Policy,
        ownership: Ownership,
        crossing: Crossing,
        reach: Reach,
        handles_max: usize,
        keeps_writers: bool,
        watches_max: usize,
        leaves_watches: bool,
        kernel_ring: u32,
        path: Option<PathBuf>,
        descriptors: Option<Arc<OwnedFd>>,
        kind: &'static str,
        held: Option<Arc<EnforcedFlags>>,
        read_only: bool,
        interrupted: Interruption,
        lease_waits: LeaseWaits,
    }
}
