// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the flags of open(2), openat2(2), the `*at` calls and close_range(2), the commands and
//! seals of fcntl(2), and the origins of lseek(2).

use crate::flags::flags;

flags! {
    /// `O_*`: flags of open(2), and of an open file.
    OFlags(u32):
        O_ACCMODE O_WRONLY O_RDWR O_TMPFILE O_SYNC O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND
        O_NONBLOCK O_DSYNC O_ASYNC O_DIRECT O_LARGEFILE O_DIRECTORY O_NOFOLLOW O_NOATIME O_CLOEXEC
        O_SYNC_ONLY O_PATH O_TMPFILE_ONLY O_EMPTYPATH
}

// The width of `open_how`.
impl From<OFlags> for u64 {
    #[inline(always)]
    fn from(flags: OFlags) -> u64 {
        u64::from(flags.bits())
    }
}

/// Access mode: read.
pub const O_RDONLY: OFlags = OFlags::from_bits_retain(0o0);
/// Access mode: write.
pub const O_WRONLY: OFlags = OFlags::from_bits_retain(0o1);
/// Access mode: read and write.
pub const O_RDWR: OFlags = OFlags::from_bits_retain(0o2);
/// The bits of the access mode. As an open's mode it requires both permissions and grants neither.
pub const O_ACCMODE: OFlags = OFlags::from_bits_retain(0o3);
/// Create the file if it is absent.
pub const O_CREAT: OFlags = OFlags::from_bits_retain(0o100);
/// With `O_CREAT`: it must be absent. With `O_TMPFILE`: it may never be linked.
pub const O_EXCL: OFlags = OFlags::from_bits_retain(0o200);
/// Do not become the controlling terminal.
pub const O_NOCTTY: OFlags = OFlags::from_bits_retain(0o400);
/// Cut a regular file to length 0.
pub const O_TRUNC: OFlags = OFlags::from_bits_retain(0o1000);
/// Each write goes to the end.
pub const O_APPEND: OFlags = OFlags::from_bits_retain(0o2000);
/// Do not wait.
pub const O_NONBLOCK: OFlags = OFlags::from_bits_retain(0o4000);
/// Each write reaches the medium, with the metadata needed to read it back.
pub const O_DSYNC: OFlags = OFlags::from_bits_retain(0o10000);
/// Signal when input or output becomes possible.
pub const O_ASYNC: OFlags = OFlags::from_bits_retain(0o20000);
/// Bypass the page cache.
pub const O_DIRECT: OFlags = OFlags::from_bits_retain(0o40000);
/// The kernel's value: 64-bit kernels set it in every open file (C libraries say 0).
pub const O_LARGEFILE: OFlags = OFlags::from_bits_retain(0o100000);
/// It must be a directory.
pub const O_DIRECTORY: OFlags = OFlags::from_bits_retain(0o200000);
/// Do not follow a symbolic link in the last component.
pub const O_NOFOLLOW: OFlags = OFlags::from_bits_retain(0o400000);
/// Reading does not change the access time.
pub const O_NOATIME: OFlags = OFlags::from_bits_retain(0o1000000);
/// The descriptor is closed by execve(2).
pub const O_CLOEXEC: OFlags = OFlags::from_bits_retain(0o2000000);
/// The bit that `O_SYNC` adds to `O_DSYNC` (the kernel's `__O_SYNC`).
pub const O_SYNC_ONLY: OFlags = OFlags::from_bits_retain(0o4000000);
/// Each write reaches the medium, with all metadata.
pub const O_SYNC: OFlags = O_SYNC_ONLY.union(O_DSYNC);
/// A descriptor of the path only, without access to the object.
pub const O_PATH: OFlags = OFlags::from_bits_retain(0o10000000);
/// The bit that `O_TMPFILE` adds to `O_DIRECTORY` (the kernel's `__O_TMPFILE`).
pub const O_TMPFILE_ONLY: OFlags = OFlags::from_bits_retain(0o20000000);
/// A nameless file in the directory.
pub const O_TMPFILE: OFlags = O_TMPFILE_ONLY.union(O_DIRECTORY);
/// Linux 7.2: the empty path means the object of the directory descriptor.
pub const O_EMPTYPATH: OFlags = OFlags::from_bits_retain(0o400000000);

/// Linux 7.2, openat2(2) only: it must be a regular file, else `EFTYPE`.
pub const OPENAT2_REGULAR: u64 = 1 << 32;

flags! {
    /// `AT_*`: flags of the calls on a path relative to a descriptor.
    AtFlags(u32):
        AT_SYMLINK_NOFOLLOW AT_EACCESS AT_REMOVEDIR AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT AT_EMPTY_PATH
        AT_STATX_SYNC_AS_STAT AT_STATX_FORCE_SYNC AT_STATX_DONT_SYNC AT_STATX_SYNC_TYPE
        AT_RECURSIVE
}

/// The directory descriptor that means the current directory.
pub const AT_FDCWD: i32 = -100;
/// Do not follow a symbolic link in the last component.
pub const AT_SYMLINK_NOFOLLOW: AtFlags = AtFlags::from_bits_retain(0x100);
/// faccessat2(2): use the effective ids.
pub const AT_EACCESS: AtFlags = AtFlags::from_bits_retain(0x200);
/// unlinkat(2): remove a directory.
pub const AT_REMOVEDIR: AtFlags = AtFlags::from_bits_retain(0x200);
/// linkat(2): follow a symbolic link in the last component.
pub const AT_SYMLINK_FOLLOW: AtFlags = AtFlags::from_bits_retain(0x400);
/// Do not trigger an automount in the last component.
pub const AT_NO_AUTOMOUNT: AtFlags = AtFlags::from_bits_retain(0x800);
/// The empty path means the object of the directory descriptor.
pub const AT_EMPTY_PATH: AtFlags = AtFlags::from_bits_retain(0x1000);
/// statx(2): as stat(2) does.
pub const AT_STATX_SYNC_AS_STAT: AtFlags = AtFlags::from_bits_retain(0x0);
/// statx(2): ask the server.
pub const AT_STATX_FORCE_SYNC: AtFlags = AtFlags::from_bits_retain(0x2000);
/// statx(2): what is cached will do.
pub const AT_STATX_DONT_SYNC: AtFlags = AtFlags::from_bits_retain(0x4000);
/// statx(2): the bits of the three above.
pub const AT_STATX_SYNC_TYPE: AtFlags = AtFlags::from_bits_retain(0x6000);
/// The whole mount tree below.
pub const AT_RECURSIVE: AtFlags = AtFlags::from_bits_retain(0x8000);

/// Descriptor flag: closed by execve(2).
pub const FD_CLOEXEC: u32 = 1;
/// Duplicate to the lowest free number from the argument up.
pub const F_DUPFD: u32 = 0;
/// Read the descriptor flags.
pub const F_GETFD: u32 = 1;
/// Set the descriptor flags.
pub const F_SETFD: u32 = 2;
/// Read the flags of the open file.
pub const F_GETFL: u32 = 3;
/// Set the flags of the open file that can be set.
pub const F_SETFL: u32 = 4;
/// As `F_DUPFD`, with `FD_CLOEXEC`.
pub const F_DUPFD_CLOEXEC: u32 = 1030;
/// Whether another descriptor has the same open file.
pub const F_DUPFD_QUERY: u32 = 1027;
/// Whether the open that made this file created it.
pub const F_CREATED_QUERY: u32 = 1028;
/// Sets the process that gets the signals (8 and 9: set and get).
pub const F_SETOWN: u32 = 8;
/// Gets the process that gets the signals.
pub const F_GETOWN: u32 = 9;
/// Sets which signal is sent for input and output.
pub const F_SETSIG: u32 = 10;
/// Gets which signal is sent for input and output.
pub const F_GETSIG: u32 = 11;
/// As `F_SETOWN`, for a thread, a process or a group.
pub const F_SETOWN_EX: u32 = 15;
/// As `F_GETOWN`, with the kind of the owner.
pub const F_GETOWN_EX: u32 = 16;
/// The owner is a thread.
pub const F_OWNER_TID: u32 = 0;
/// The owner is a process.
pub const F_OWNER_PID: u32 = 1;
/// The owner is a process group.
pub const F_OWNER_PGRP: u32 = 2;
/// Sets how many bytes a pipe holds.
pub const F_SETPIPE_SZ: u32 = 1031;
/// How many bytes a pipe holds.
pub const F_GETPIPE_SZ: u32 = 1032;
/// Adds seals to a memory file.
pub const F_ADD_SEALS: u32 = 1033;
/// The seals of a memory file.
pub const F_GET_SEALS: u32 = 1034;
/// No more seals.
pub const F_SEAL_SEAL: u32 = 0x1;
/// Must not shrink.
pub const F_SEAL_SHRINK: u32 = 0x2;
/// Must not grow.
pub const F_SEAL_GROW: u32 = 0x4;
/// Must not be written.
pub const F_SEAL_WRITE: u32 = 0x8;
/// Must not be written through new openings.
pub const F_SEAL_FUTURE_WRITE: u32 = 0x10;
/// Its x bits stay.
pub const F_SEAL_EXEC: u32 = 0x20;
/// close_range(2): unshare the descriptor table first.
pub const CLOSE_RANGE_UNSHARE: u32 = 2;
/// close_range(2): set close-on-exec instead of closing.
pub const CLOSE_RANGE_CLOEXEC: u32 = 4;

/// From the start.
pub const SEEK_SET: u32 = 0;
/// From the current offset.
pub const SEEK_CUR: u32 = 1;
/// From the end.
pub const SEEK_END: u32 = 2;
/// The next data at or after the offset.
pub const SEEK_DATA: u32 = 3;
/// The next hole at or after the offset; the end of the file is one.
pub const SEEK_HOLE: u32 = 4;
