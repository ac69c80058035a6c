// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the system calls of a task as futures: methods of [`AsyncTask`], one at a time, and
//! of [`Local`], many at once.

use super::ops::{Change, Close, List, Open, PathRef, Read, StatAt, StatxAt, Write};
use super::{AsyncTask, Call, Local};
use crate::op::OpenCall;
use openpath_abi::fcntl::{AT_FDCWD, AT_SYMLINK_NOFOLLOW};
use openpath_abi::{AtFlags, Errno, Mode, OFlags, OpenHow, RenameFlags, Stat, Statx, StatxMask};
use openpath_vfs::{DirEntry, Fd};

/// Makes the same methods for both.
macro_rules! calls {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) -> $out:ty = $op:expr;)*) => {
        impl AsyncTask {
            $(
                $(#[$doc])*
                #[inline]
                pub fn $name<'a>(
                    &'a mut self,
                    $($arg: $ty),*
                ) -> impl Future<Output = Result<$out, Errno>> + Send + 'a {
                    Call::new(self, $op)
                }
            )*
        }

        impl<'t> Local<'t> {
            $(
                $(#[$doc])*
                #[inline]
                pub fn $name<'a>(
                    self,
                    $($arg: $ty),*
                ) -> impl Future<Output = Result<$out, Errno>> + 'a
                where
                    't: 'a,
                {
                    Call::new(self.0, $op)
                }
            )*
        }
    };
}

calls! {
    /// open(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::open`]; `EAGAIN`, `ENOMEM`: there is no worker to be had.
    fn open(path: &'a [u8], flags: OFlags, mode: impl Into<Mode>) -> Fd
        = Open(PathRef(AT_FDCWD, path), OpenCall::Openat(flags, mode.into()));
    /// openat(2).
    ///
    /// # Errors
    /// As [`AsyncTask::open`].
    fn openat(dir: Fd, path: &'a [u8], flags: OFlags, mode: impl Into<Mode>) -> Fd
        = Open(PathRef(dir, path), OpenCall::Openat(flags, mode.into()));
    /// openat2(2). With `RESOLVE_CACHED` no worker is asked.
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::openat2`], [`AsyncTask::open`].
    fn openat2(dir: Fd, path: &'a [u8], how: OpenHow) -> Fd
        = Open(PathRef(dir, path), OpenCall::Openat2(how));
    /// close(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::close`].
    fn close(fd: Fd) -> () = Close(fd);
    /// stat(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::stat`].
    fn stat(path: &'a [u8]) -> Stat = StatAt(PathRef(AT_FDCWD, path), AtFlags::empty());
    /// lstat(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::lstat`].
    fn lstat(path: &'a [u8]) -> Stat = StatAt(PathRef(AT_FDCWD, path), AT_SYMLINK_NOFOLLOW);
    /// newfstatat(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::fstatat`].
    fn fstatat(dir: Fd, path: &'a [u8], at_flags: AtFlags) -> Stat
        = StatAt(PathRef(dir, path), at_flags);
    /// statx(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::statx`].
    fn statx(dir: Fd, path: &'a [u8], at_flags: AtFlags, mask: StatxMask) -> Statx
        = StatxAt(PathRef(dir, path), at_flags, mask);
    /// pread(2), or read(2) with offset -1.
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::pread`].
    fn read_at(fd: Fd, buf: &'a mut [u8], offset: i64) -> usize = Read(fd, buf, offset);
    /// read(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::read`].
    fn read(fd: Fd, buf: &'a mut [u8]) -> usize = Read(fd, buf, -1);
    /// pwrite(2), or write(2) with offset -1.
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::pwrite`].
    fn write_at(fd: Fd, data: &'a [u8], offset: i64) -> usize = Write(fd, data, offset);
    /// write(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::write`].
    fn write(fd: Fd, data: &'a [u8]) -> usize = Write(fd, data, -1);
    /// fsync(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::fsync`].
    fn fsync(fd: Fd) -> () = Change::Sync(fd, false);
    /// fdatasync(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::fdatasync`].
    fn fdatasync(fd: Fd) -> () = Change::Sync(fd, true);
    /// ftruncate(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::ftruncate`].
    fn ftruncate(fd: Fd, len: i64) -> () = Change::Truncate(fd, len);
    /// fallocate(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::fallocate`].
    fn fallocate(fd: Fd, how: u32, offset: i64, len: i64) -> ()
        = Change::Allocate(fd, how, offset, len);
    /// getdents64(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::getdents64`].
    fn getdents64(fd: Fd, max_bytes: usize) -> Vec<DirEntry> = List(fd, max_bytes);
    /// unlinkat(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::unlinkat`].
    fn unlinkat(dir: Fd, path: &'a [u8], flags: AtFlags) -> ()
        = Change::Unlink(PathRef(dir, path), flags);
    /// renameat2(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::renameat2`].
    fn renameat2(dir: Fd, old: &'a [u8], new_dir: Fd, new: &'a [u8], flags: RenameFlags) -> ()
        = Change::Rename(PathRef(dir, old), PathRef(new_dir, new), flags);
    /// mkdirat(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::mkdirat`].
    fn mkdirat(dir: Fd, path: &'a [u8], mode: impl Into<Mode>) -> ()
        = Change::Mkdir(PathRef(dir, path), mode.into());
    /// symlinkat(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::symlinkat`].
    fn symlinkat(target: &'a [u8], dir: Fd, path: &'a [u8]) -> ()
        = Change::Symlink(target, PathRef(dir, path));
    /// linkat(2).
    ///
    /// # Errors
    /// As [`openpath_vfs::Task::linkat`].
    fn linkat(dir: Fd, old: &'a [u8], new_dir: Fd, new: &'a [u8], flags: AtFlags) -> ()
        = Change::Link(PathRef(dir, old), PathRef(new_dir, new), flags);
}
