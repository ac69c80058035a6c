// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls that a guest's calls are made of.
//!
//! # Rules
//! R1. Every path of a guest is walked under `RESOLVE_BENEATH` from the directory that it is
//!     relative to: what would lead out of it is `EPERM`, as wasmtime-wasi has it.
//! R2. A descriptor that a call opens for itself is closed before the call answers.

use super::files::Files;
use super::path::{self, Slash};
use openpath_abi::fcntl::{
    AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_PATH,
};
use openpath_abi::resolve::{RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS};
use openpath_abi::{Errno, OpenHow, Stat, Statx, TimeSet, mode};
use openpath_vfs::{DirEntry, Fd, TryError};

/// Permission bits of what a guest makes, before the umask.
const FILE_MODE: u64 = 0o666;
/// How often a walk is begun again that a rename elsewhere has made uncertain (`EAGAIN`).
const WALKS: usize = 16;

/// Makes each a call in place where that is wished, and a future otherwise.
macro_rules! calls {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $out:ty;)*) => {
        impl Files {
            $(pub(super) async fn $name(&mut self, $($arg: $ty),*) -> Result<$out, Errno> {
                if self.in_place {
                    return self.task.task().$name($($arg),*);
                }
                self.task.$name($($arg),*).await
            })*
        }
    };
}

calls! {
    fn close(fd: Fd) -> ();
    fn fstatat(dir: Fd, path: &[u8], at_flags: u32) -> Stat;
    fn statx(dir: Fd, path: &[u8], at_flags: u32, mask: u32) -> Statx;
    fn fsync(fd: Fd) -> ();
    fn fdatasync(fd: Fd) -> ();
    fn ftruncate(fd: Fd, len: i64) -> ();
    fn getdents64(fd: Fd, max_bytes: usize) -> Vec<DirEntry>;
    fn unlinkat(dir: Fd, path: &[u8], flags: u32) -> ();
    fn renameat2(dir: Fd, old: &[u8], new_dir: Fd, new: &[u8], flags: u32) -> ();
    fn mkdirat(dir: Fd, path: &[u8], mode: u32) -> ();
    fn symlinkat(target: &[u8], dir: Fd, path: &[u8]) -> ();
    fn linkat(dir: Fd, old: &[u8], new_dir: Fd, new: &[u8], flags: u32) -> ();
}

/// The directory that a name is in, for the length of a call.
pub(super) struct Within<'p> {
    pub(super) dir: Fd,
    pub(super) name: &'p [u8],
    /// Whether it was walked to, and is to be closed.
    walked: bool,
}

impl Files {
    /// Opens `path` beneath `dir` (R1).
    ///
    /// # Errors
    /// `EPERM` (it leads out), those of openat2(2).
    pub(super) async fn open_beneath(
        &mut self,
        dir: Fd,
        path: &[u8],
        flags: u32,
    ) -> Result<Fd, Errno> {
        path::check(path)?;
        let how = OpenHow {
            flags: u64::from(flags | O_CLOEXEC),
            mode: if flags & O_CREAT == 0 { 0 } else { FILE_MODE },
            resolve: RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
        };
        for _ in 0..WALKS {
            let opened = if self.in_place {
                self.task.task().openat2(dir, path, &how)
            } else {
                self.task.openat2(dir, path, how).await
            };
            match opened {
                Err(Errno::EAGAIN) => {}
                Err(Errno::EXDEV) => return Err(Errno::EPERM),
                opened => return opened,
            }
        }
        Err(Errno::EAGAIN)
    }

    /// Walks to the directory that the last name of `path` is in.
    ///
    /// # Errors
    /// Those of [`Files::open_beneath`].
    pub(super) async fn enter<'p>(
        &mut self,
        base: Fd,
        path: &'p [u8],
        slash: Slash,
    ) -> Result<Within<'p>, Errno> {
        path::check(path)?;
        let split = path::split(path, slash);
        let walked = !split.dir.is_empty();
        let dir = if walked {
            self.open_beneath(base, split.dir, O_PATH | O_DIRECTORY)
                .await?
        } else {
            base
        };
        Ok(Within {
            dir,
            name: split.name,
            walked,
        })
    }

    /// Leaves it, with what came of the call there (R2).
    ///
    /// # Errors
    /// That of the call.
    pub(super) async fn leave<T>(
        &mut self,
        within: Within<'_>,
        came: Result<T, Errno>,
    ) -> Result<T, Errno> {
        if within.walked {
            // A place without data has nothing to say.
            let _closed = self.close(within.dir).await;
        }
        came
    }

    /// What `path` is, or the file that it leads to.
    ///
    /// # Errors
    /// Those of [`Files::open_beneath`] and of statx(2).
    pub(super) async fn stat_beneath(
        &mut self,
        base: Fd,
        path: &[u8],
        follow: bool,
    ) -> Result<Stat, Errno> {
        path::check(path)?;
        let split = path::split(path, Slash::Followed);
        if split.dir.is_empty() {
            let stat = self.fstatat(base, split.name, AT_SYMLINK_NOFOLLOW).await?;
            if !follow || stat.mode & mode::S_IFMT != mode::S_IFLNK {
                return Ok(stat);
            }
        }
        let flags = if follow { O_PATH } else { O_PATH | O_NOFOLLOW };
        let fd = self.open_beneath(base, path, flags).await?;
        let stat = self.fstatat(fd, b"", AT_EMPTY_PATH).await;
        let _closed = self.close(fd).await;
        stat
    }

    /// Sets the times of `path`, or of the file that it leads to.
    ///
    /// # Errors
    /// Those of [`Files::open_beneath`] and of utimensat(2).
    pub(super) async fn set_times_beneath(
        &mut self,
        base: Fd,
        path: &[u8],
        follow: bool,
        times: [TimeSet; 2],
    ) -> Result<(), Errno> {
        let flags = if follow { O_PATH } else { O_PATH | O_NOFOLLOW };
        let fd = self.open_beneath(base, path, flags).await?;
        let set = self
            .task
            .task()
            .utimensat(fd, Some(b""), times, AT_EMPTY_PATH);
        let _closed = self.close(fd).await;
        set
    }

    /// What the link `path` says.
    ///
    /// # Errors
    /// Those of [`Files::open_beneath`] and of readlinkat(2).
    pub(super) async fn read_link_beneath(
        &mut self,
        base: Fd,
        path: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        let within = self.enter(base, path, Slash::Followed).await?;
        let body = match self.task.task().try_readlinkat(within.dir, within.name) {
            Err(TryError::WouldBlock) => self.task.task().readlinkat(within.dir, within.name),
            Err(TryError::Errno(errno)) => Err(errno),
            Ok(body) => Ok(body),
        };
        self.leave(within, body).await
    }

    /// Reads into `buf` at `offset`.
    ///
    /// # Errors
    /// Those of pread(2).
    pub(super) async fn read_at(
        &mut self,
        fd: Fd,
        buf: &mut [u8],
        offset: i64,
    ) -> Result<usize, Errno> {
        if self.in_place {
            return self.task.task().pread(fd, buf, offset);
        }
        self.task.read_at(fd, buf, offset).await
    }

    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// Those of pwrite(2).
    pub(super) async fn write_at(
        &mut self,
        fd: Fd,
        data: &[u8],
        offset: i64,
    ) -> Result<usize, Errno> {
        if self.in_place {
            return self.task.task().pwrite(fd, data, offset);
        }
        self.task.write_at(fd, data, offset).await
    }
}
