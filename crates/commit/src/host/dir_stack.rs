// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the directories between the top of a tree and the position of a walk, as open descriptors.
//!
//! # Rules
//! R1. The walk goes from one directory to the next by descriptor, one component at a time, and
//!     follows no symbolic link, so no path is too long and none can be swapped under the walk.
//! R2. Few descriptors are open at once. A directory that was closed on the way down is opened
//!     again as the `..` of its child on the way up, and must be the same inode.

use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, Result};

/// How many directories are open at once.
const OPEN_MAX: usize = 32;

/// An inode of the running kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Inode {
    device: (u32, u32),
    number: u64,
}

struct StackedDir {
    /// `None`: closed on the way down.
    dir: Option<OwnedFd>,
    inode: Inode,
}

/// The directories that a walk has entered.
pub(crate) struct DirStack {
    dirs: Vec<StackedDir>,
}

impl DirStack {
    /// A walk that begins in this directory.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn new(top: OwnedFd) -> Result<DirStack> {
        let mut stack = DirStack { dirs: Vec::new() };
        stack.enter(top)?;
        Ok(stack)
    }

    /// The directory that the walk is in.
    ///
    /// # Errors
    /// `ESTALE`: the walk has left its top.
    pub(crate) fn dir(&self) -> Result<BorrowedFd<'_>> {
        let dir = self.dirs.last().and_then(|entry| entry.dir.as_ref());
        dir.map(|dir| dir.as_fd()).ok_or(Errno::STALE)
    }

    /// Goes down into a directory of the one that the walk is in.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn enter(&mut self, dir: OwnedFd) -> Result<()> {
        let inode = inode_of(dir.as_fd())?;
        let dir = Some(dir);
        self.dirs.push(StackedDir { dir, inode });
        if let Some(far) = self.dirs.len().checked_sub(OPEN_MAX + 1) {
            self.dirs[far].dir = None;
        }
        Ok(())
    }

    /// Goes up, and gives the directory that the walk was in.
    ///
    /// # Errors
    /// `ESTALE`: the directory was moved meanwhile (R2).
    pub(crate) fn leave(&mut self) -> Result<Option<OwnedFd>> {
        let below = self.dirs.pop().and_then(|entry| entry.dir);
        let Some(above) = self.dirs.last_mut() else {
            return Ok(below);
        };
        if above.dir.is_some() {
            return Ok(below);
        }
        let below = below.ok_or(Errno::STALE)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(&below, "..", flags, Mode::empty())?;
        if inode_of(dir.as_fd())? != above.inode {
            return Err(Errno::STALE);
        }
        above.dir = Some(dir);
        Ok(Some(below))
    }
}

fn inode_of(dir: BorrowedFd<'_>) -> Result<Inode> {
    let stat = rustix::fs::statx(dir, "", AtFlags::EMPTY_PATH, StatxFlags::INO)?;
    Ok(Inode {
        device: (stat.stx_dev_major, stat.stx_dev_minor),
        number: stat.stx_ino,
    })
}
