// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls that a guest's calls are made of.
//!
//! # Rules
//! R1. Every path of a guest is walked by [`Beneath`] from the directory that it is relative to:
//!     what would lead out of it is `EPERM`, as wasmtime-wasi has it.
//! R2. What changes nothing is tried in place. The rest is a worker's, as one piece: what it opens
//!     on the way is in no table of the guest's.
//! R3. Nothing is awaited between the moment that the guest's table has a descriptor and the moment
//!     that a handle holds it, and what is given up is out of the table before it is closed: a call
//!     that is dropped midway leaves none behind.

use super::files::Files;
use crate::out::{of_two, of_walk};
use openpath_abi::fcntl::{AT_SYMLINK_NOFOLLOW, O_CLOEXEC, O_CREAT, O_RDONLY};
use openpath_abi::{AtFlags, Errno, OFlags, Stat, TimeSet};
use openpath_vfs::{Beneath, DataWait, Fd, Task, TryError};

/// Permission bits of what a guest makes, before the umask.
const FILE_MODE: u32 = 0o666;

/// A path, and the directory that it is relative to.
pub(super) type At = (Fd, String);

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
    fn fstatat(dir: Fd, path: &[u8], at_flags: AtFlags) -> Stat;
    fn fsync(fd: Fd) -> ();
    fn fdatasync(fd: Fd) -> ();
    fn ftruncate(fd: Fd, len: i64) -> ();
}

/// A path as a call takes it.
///
/// # Errors
/// `EINVAL` (a zero byte, which ends a path elsewhere).
fn bytes(path: &str) -> Result<&[u8], Errno> {
    if path.contains('\0') {
        return Err(Errno::EINVAL);
    }
    Ok(path.as_bytes())
}

/// The flag of the `*at` calls for a link in the last place.
fn at_flags(follow: bool) -> AtFlags {
    AT_SYMLINK_NOFOLLOW.only_if(!follow)
}

impl Files {
    /// Tries a call about a path in place (R1); nothing if it would wait.
    ///
    /// # Errors
    /// `EINVAL` (a zero byte), `EPERM` (it leads out), those of the call.
    fn attempt<T>(
        &self,
        at: &At,
        call: impl FnOnce(Beneath<'_>, Fd, &[u8]) -> Result<T, TryError>,
    ) -> Result<Option<T>, Errno> {
        match call(self.task.task().beneath(), at.0, bytes(&at.1)?) {
            Ok(value) => Ok(Some(value)),
            Err(TryError::WouldBlock) => Ok(None),
            Err(TryError::Errno(errno)) => Err(of_walk(errno)),
        }
    }

    /// Makes calls as the guest's task, in place where that is wished, and else by a worker (R2).
    pub(super) async fn make<T: Send + 'static>(
        &mut self,
        files: [Option<Fd>; 2],
        calls: impl FnOnce(&Task, [Fd; 2]) -> Result<T, Errno> + Send + 'static,
    ) -> Result<T, Errno> {
        if self.in_place {
            return calls(self.task.task(), files.map(|fd| fd.unwrap_or(-1)));
        }
        self.task.work(files, calls).await
    }

    /// Makes a call about a path (R1).
    ///
    /// # Errors
    /// `EINVAL` (a zero byte), `EPERM` (it leads out), those of the call.
    pub(super) async fn walk<T: Send + 'static>(
        &mut self,
        (dir, path): At,
        call: impl FnOnce(Beneath<'_>, Fd, &[u8]) -> Result<T, Errno> + Send + 'static,
    ) -> Result<T, Errno> {
        bytes(&path)?;
        let calls = move |task: &Task, [dir, _]: [Fd; 2]| {
            call(task.beneath(), dir, path.as_bytes()).map_err(of_walk)
        };
        self.make([Some(dir), None], calls).await
    }

    /// As [`Files::walk`], with two paths.
    ///
    /// # Errors
    /// `EINVAL` (a zero byte), `EPERM` (one leads out), those of the call.
    pub(super) async fn walk_two(
        &mut self,
        (dir, old): At,
        (new_dir, new): At,
        call: impl FnOnce(Beneath<'_>, [(Fd, &[u8]); 2]) -> Result<(), Errno> + Send + 'static,
    ) -> Result<(), Errno> {
        bytes(&old)?;
        bytes(&new)?;
        let calls = move |task: &Task, [dir, new_dir]: [Fd; 2]| {
            let paths = [(dir, old.as_bytes()), (new_dir, new.as_bytes())];
            let beneath = task.beneath();
            call(beneath, paths).map_err(|errno| of_two(beneath, errno, paths, AT_SYMLINK_NOFOLLOW))
        };
        self.make([Some(dir), Some(new_dir)], calls).await
    }

    /// Opens a path.
    ///
    /// # Errors
    /// Those of [`Files::walk`] and of openat2(2).
    pub(super) async fn open_beneath(&mut self, at: At, flags: OFlags) -> Result<Fd, Errno> {
        let (flags, mode) = (
            flags | O_CLOEXEC,
            if flags.contains(O_CREAT) {
                FILE_MODE
            } else {
                0
            },
        );
        let opened = self.attempt(&at, |beneath, dir, path| {
            beneath.try_openat(dir, path, flags, mode)
        });
        self.task.task().count_open(opened == Ok(None));
        if let Some(fd) = opened? {
            return Ok(fd);
        }
        let (dir, path) = at;
        let calls = move |task: &Task, [dir, _]: [Fd; 2]| {
            let opened = task.beneath().openat(dir, path.as_bytes(), flags, mode);
            task.take_file(opened.map_err(of_walk)?)
        };
        let file = self.make([Some(dir), None], calls).await?;
        // R3
        self.task.task().install(&file, O_CLOEXEC)
    }

    /// Closes what no handle holds any more. As in close(2) of a thread that ends, nobody hears
    /// what it has to say.
    pub(super) async fn give_up(&mut self, fd: Fd) {
        let task = self.task.task();
        if self.in_place || task.data_wait(fd) != Some(DataWait::Always) {
            let _closed = task.close(fd);
            return;
        }
        // R3
        if let Ok(file) = task.take_file(fd) {
            let calls = move |task: &Task, _: [Fd; 2]| task.close(task.install(&file, O_RDONLY)?);
            let _closed = self.make([None; 2], calls).await;
        }
    }

    /// What a path is, or the file that it leads to.
    ///
    /// # Errors
    /// Those of [`Files::walk`] and of newfstatat(2).
    pub(super) async fn stat_beneath(&mut self, at: At, follow: bool) -> Result<Stat, Errno> {
        let flags = at_flags(follow);
        let stat = self.attempt(&at, |beneath, dir, path| {
            beneath.try_fstatat(dir, path, flags)
        });
        if let Some(stat) = stat? {
            return Ok(stat);
        }
        self.walk(at, move |beneath, dir, path| {
            beneath.fstatat(dir, path, flags)
        })
        .await
    }

    /// Sets the times of a path, or of the file that it leads to.
    ///
    /// # Errors
    /// Those of [`Files::walk`] and of utimensat(2), of a path that leads nowhere even where
    /// nothing is to be set.
    pub(super) async fn set_times_beneath(
        &mut self,
        at: At,
        follow: bool,
        times: [TimeSet; 2],
    ) -> Result<(), Errno> {
        if times == [TimeSet::Omit; 2] {
            return self.stat_beneath(at, follow).await.map(drop);
        }
        let flags = at_flags(follow);
        self.walk(at, move |beneath, dir, path| {
            beneath.utimensat(dir, path, times, flags)
        })
        .await
    }

    /// Sets the times of an open file.
    ///
    /// # Errors
    /// Those of futimens(3).
    pub(super) async fn set_times(&mut self, fd: Fd, times: [TimeSet; 2]) -> Result<(), Errno> {
        let calls = move |task: &Task, [fd, _]: [Fd; 2]| task.futimens(fd, times);
        self.make([Some(fd), None], calls).await
    }

    /// What a link says.
    ///
    /// # Errors
    /// Those of [`Files::walk`] and of readlinkat(2).
    pub(super) async fn read_link_beneath(&mut self, at: At) -> Result<Vec<u8>, Errno> {
        let body = self.attempt(&at, |beneath, dir, path| beneath.try_readlinkat(dir, path));
        if let Some(body) = body? {
            return Ok(body);
        }
        self.walk(at, |beneath, dir, path| beneath.readlinkat(dir, path))
            .await
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
