// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the system calls behind the functions of `wasi:filesystem`, on paths and on open files: in
//! the guest's thread, or by a worker.
//!
//! # Rules
//! R1. [`Beneath`] walks every path of a guest from the directory that it is relative to: a path
//!     that leads out is `EPERM`, as in wasmtime-wasi.
//! R2. Calls that change nothing are tried in place. A worker makes all others, each as one piece:
//!     what it opens on the way is in no table of the guest's.
//! R3. Nothing is awaited between the install of a descriptor and the handle that holds it, and a
//!     descriptor leaves the table before it is closed: a call that is dropped midway leaves none
//!     behind.

use super::files::Files;
use crate::out::{two_paths_errno, walk_errno};
use openpath_abi::fcntl::{AT_SYMLINK_NOFOLLOW, O_CLOEXEC, O_CREAT, O_RDONLY};
use openpath_abi::{AtFlags, Errno, OFlags, Stat, TimeSet};
use openpath_vfs::{Beneath, DataWait, Fd, Task, TryError};

/// Permission bits of new files, before the umask.
const FILE_MODE: u32 = 0o666;

/// A path, and the directory that it is relative to.
pub(super) type At = (Fd, String);

/// Defines calls that run in place if that is set, and are awaited otherwise.
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

/// The bytes of a path.
///
/// # Errors
/// `EINVAL` (a NUL, which would end the path elsewhere).
fn bytes(path: &str) -> Result<&[u8], Errno> {
    if path.contains('\0') {
        return Err(Errno::EINVAL);
    }
    Ok(path.as_bytes())
}

/// The flag of the `*at` calls for a link at the end of a path.
fn at_flags(follow: bool) -> AtFlags {
    AT_SYMLINK_NOFOLLOW.only_if(!follow)
}

impl Files {
    /// Tries a call about a path in place (R1); `None` if it would wait.
    ///
    /// # Errors
    /// `EINVAL` (a NUL), `EPERM` (it leads out), those of the call.
    fn try_in_place<T>(
        &self,
        at: &At,
        call: impl FnOnce(Beneath<'_>, Fd, &[u8]) -> Result<T, TryError>,
    ) -> Result<Option<T>, Errno> {
        match call(self.task.task().beneath(), at.0, bytes(&at.1)?) {
            Ok(value) => Ok(Some(value)),
            Err(TryError::WouldBlock) => Ok(None),
            Err(TryError::Errno(errno)) => Err(walk_errno(errno)),
        }
    }

    /// Makes calls as the guest's task: in place if that is set, and by a worker otherwise (R2).
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
    /// `EINVAL` (a NUL), `EPERM` (it leads out), those of the call.
    pub(super) async fn walk<T: Send + 'static>(
        &mut self,
        (dir, path): At,
        call: impl FnOnce(Beneath<'_>, Fd, &[u8]) -> Result<T, Errno> + Send + 'static,
    ) -> Result<T, Errno> {
        bytes(&path)?;
        let calls = move |task: &Task, [dir, _]: [Fd; 2]| {
            call(task.beneath(), dir, path.as_bytes()).map_err(walk_errno)
        };
        self.make([Some(dir), None], calls).await
    }

    /// Makes a call about two paths, like [`Files::walk`].
    ///
    /// # Errors
    /// `EINVAL` (a NUL), `EPERM` (one leads out), those of the call.
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
            call(beneath, paths)
                .map_err(|errno| two_paths_errno(beneath, errno, paths, AT_SYMLINK_NOFOLLOW))
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
        let opened = self.try_in_place(&at, |beneath, dir, path| {
            beneath.try_openat(dir, path, flags, mode)
        });
        self.task.task().count_open(opened == Ok(None));
        if let Some(fd) = opened? {
            return Ok(fd);
        }
        let (dir, path) = at;
        let calls = move |task: &Task, [dir, _]: [Fd; 2]| {
            let opened = task.beneath().openat(dir, path.as_bytes(), flags, mode);
            task.take_file(opened.map_err(walk_errno)?)
        };
        let file = self.make([Some(dir), None], calls).await?;
        // R3
        self.task.task().install(&file, O_CLOEXEC)
    }

    /// Closes a descriptor that no handle holds any more. Errors are dropped, as those of close(2)
    /// in a thread that exits.
    pub(super) async fn close_unheld(&mut self, fd: Fd) {
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

    /// The attributes of a path.
    ///
    /// # Errors
    /// Those of [`Files::walk`] and of newfstatat(2).
    pub(super) async fn stat_beneath(&mut self, at: At, follow: bool) -> Result<Stat, Errno> {
        let flags = at_flags(follow);
        let stat = self.try_in_place(&at, |beneath, dir, path| {
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

    /// Sets the times of a path.
    ///
    /// # Errors
    /// Those of [`Files::walk`] and of utimensat(2). A path that leads nowhere fails even if no
    /// time changes.
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

    /// Reads the target of a link.
    ///
    /// # Errors
    /// Those of [`Files::walk`] and of readlinkat(2).
    pub(super) async fn read_link_beneath(&mut self, at: At) -> Result<Vec<u8>, Errno> {
        let body = self.try_in_place(&at, |beneath, dir, path| beneath.try_readlinkat(dir, path));
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
