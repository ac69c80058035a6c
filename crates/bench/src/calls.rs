// SPDX-License-Identifier: MIT OR Apache-2.0
//! Declares the calls that both sides make, so that a benchmark is written once: a task of ours
//! ([`Task`]), and the calling thread of the host kernel ([`Kernel`], in `sys`).

use std::hint::black_box;

use openpath_abi::AtFlags;
use openpath_abi::fcntl::F_DUPFD;
use openpath_abi::statx::STATX_BASIC_STATS;

use crate::common::*;

/// The calls of one side. A descriptor is a number, an error is an errno.
pub(crate) trait Calls {
    fn open(&self, path: &CStr, flags: OFlags, mode: u32) -> Result<Fd, Errno>;
    /// close(2); whether it succeeded.
    fn close(&self, fd: Fd) -> bool;
    fn dup(&self, fd: Fd) -> Result<Fd, Errno>;
    /// fcntl(2) `F_DUPFD`.
    fn dup_from(&self, fd: Fd, start: u32) -> Result<Fd, Errno>;
    fn stat(&self, path: &CStr) -> Result<(), Errno>;
    fn lstat(&self, path: &CStr) -> Result<(), Errno>;
    /// statx(2) for the basic fields.
    fn statx(&self, path: &CStr) -> Result<(), Errno>;
    /// unlink(2); whether it succeeded.
    fn unlink(&self, path: &CStr) -> bool;
    /// Creates a directory unless it exists.
    fn make_dir(&self, path: &[u8]) -> Result<(), Error>;
    fn make_link(&self, target: &[u8], path: &[u8]) -> Result<(), Error>;
    fn make_file(&self, path: &[u8], content: &[u8]) -> Result<(), Error>;

    /// Opens with mode 644 and closes; returns whether both succeeded.
    #[inline(always)]
    fn open_close(&self, path: &CStr, flags: OFlags) -> bool {
        self.open(path, flags, 0o644).is_ok_and(|fd| self.close(fd))
    }

    /// Duplicates and closes the duplicate; returns whether both succeeded.
    #[inline(always)]
    fn dup_close(&self, fd: Fd) -> bool {
        self.dup(fd).is_ok_and(|fd| self.close(fd))
    }

    /// Creates the directories and files of `chains`.
    fn grow(&self, chains: &[Chain]) -> Result<(), Error> {
        for chain in chains {
            chain.dirs().try_for_each(|dir| self.make_dir(dir))?;
            self.make_file(chain.file.to_bytes(), b"")?;
        }
        Ok(())
    }
}

/// Runs operations on the paths of a ring in turn; returns how many were wrong. Each operation's
/// loop is a function of its own, so that no other one changes its count of instructions.
#[inline(never)]
pub(crate) fn wrong(ops: u64, ring: &mut Ring<'_>, right: impl Fn(&CStr) -> bool) -> u64 {
    let mut wrong = 0;
    for _ in 0..ops {
        wrong += u64::from(!right(ring.next()));
    }
    wrong
}

/// Runs one operation repeatedly; returns how often it was wrong.
#[inline(always)]
pub(crate) fn wrong_of(ops: u64, right: impl Fn() -> bool) -> u64 {
    (0..ops).map(|_| u64::from(!right())).sum()
}

impl Calls for Task {
    #[inline(always)]
    fn open(&self, path: &CStr, flags: OFlags, mode: u32) -> Result<Fd, Errno> {
        Task::open(self, path.to_bytes(), flags, mode)
    }

    #[inline(always)]
    fn close(&self, fd: Fd) -> bool {
        Task::close(self, fd).is_ok()
    }

    #[inline(always)]
    fn dup(&self, fd: Fd) -> Result<Fd, Errno> {
        Task::dup(self, fd)
    }

    #[inline(always)]
    fn dup_from(&self, fd: Fd, start: u32) -> Result<Fd, Errno> {
        let new = self.fcntl(fd, F_DUPFD, u64::from(start));
        new.map(|fd| fd as Fd)
    }

    #[inline(always)]
    fn stat(&self, path: &CStr) -> Result<(), Errno> {
        black_box(Task::stat(self, path.to_bytes())).map(drop)
    }

    #[inline(always)]
    fn lstat(&self, path: &CStr) -> Result<(), Errno> {
        black_box(Task::lstat(self, path.to_bytes())).map(drop)
    }

    #[inline(always)]
    fn statx(&self, path: &CStr) -> Result<(), Errno> {
        let (path, flags, mask) = (path.to_bytes(), AtFlags::empty(), STATX_BASIC_STATS);
        black_box(Task::statx(self, AT_FDCWD, path, flags, mask)).map(drop)
    }

    #[inline(always)]
    fn unlink(&self, path: &CStr) -> bool {
        let (path, flags) = (path.to_bytes(), AtFlags::empty());
        self.unlinkat(AT_FDCWD, path, flags).is_ok()
    }

    fn make_dir(&self, path: &[u8]) -> Result<(), Error> {
        match self.mkdirat(AT_FDCWD, path, 0o755) {
            Err(Errno::EEXIST) => Ok(()),
            made => made.setup("create a directory"),
        }
    }

    fn make_link(&self, target: &[u8], path: &[u8]) -> Result<(), Error> {
        let made = self.symlinkat(target, AT_FDCWD, path);
        made.setup("create a link")
    }

    fn make_file(&self, path: &[u8], content: &[u8]) -> Result<(), Error> {
        let made = || {
            let fd = self.openat(AT_FDCWD, path, O_WRONLY | O_CREAT, 0o644)?;
            let mut left = content;
            while !left.is_empty() {
                left = &left[self.write(fd, left)?..];
            }
            Task::close(self, fd)
        };
        made().setup("create a file")
    }
}

/// The host kernel, for the calling thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel;
