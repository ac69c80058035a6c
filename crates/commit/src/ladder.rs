// SPDX-License-Identifier: MIT OR Apache-2.0
//! The directories between the top of a tree and where a walk is, as open descriptors.
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

struct Rung {
    /// `None`: closed on the way down.
    dir: Option<OwnedFd>,
    inode: Inode,
}

/// The directories that a walk has entered.
pub(crate) struct Ladder {
    rungs: Vec<Rung>,
}

impl Ladder {
    /// A walk that begins in this directory.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn new(top: OwnedFd) -> Result<Ladder> {
        let mut ladder = Ladder { rungs: Vec::new() };
        ladder.enter(top)?;
        Ok(ladder)
    }

    /// The directory that the walk is in.
    ///
    /// # Errors
    /// `ESTALE`: the walk has left its top.
    pub(crate) fn dir(&self) -> Result<BorrowedFd<'_>> {
        let dir = self.rungs.last().and_then(|rung| rung.dir.as_ref());
        dir.map(|dir| dir.as_fd()).ok_or(Errno::STALE)
    }

    /// Goes down into a directory of the one that the walk is in.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn enter(&mut self, dir: OwnedFd) -> Result<()> {
        let inode = inode_of(dir.as_fd())?;
        let dir = Some(dir);
        self.rungs.push(Rung { dir, inode });
        if let Some(far) = self.rungs.len().checked_sub(OPEN_MAX + 1) {
            self.rungs[far].dir = None;
        }
        Ok(())
    }

    /// Goes up, and gives the directory that the walk was in.
    ///
    /// # Errors
    /// `ESTALE`: the directory was moved meanwhile (R2).
    pub(crate) fn leave(&mut self) -> Result<Option<OwnedFd>> {
        let below = self.rungs.pop().and_then(|rung| rung.dir);
        let Some(above) = self.rungs.last_mut() else {
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
