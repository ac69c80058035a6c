// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the numbers of the FUSE protocol that are used here (`linux/fuse.h`): versions, opcodes
//! and flags.

/// The version of the protocol.
pub(crate) const MAJOR: u32 = 7;
/// The newest minor version that is known.
pub(crate) const MINOR: u32 = 45;
/// The oldest minor version that works: Linux 5.4.
pub(crate) const MINOR_LEAST: u32 = 31;

/// Operations (`fuse_opcode`).
pub(crate) mod op {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const SETXATTR: u32 = 21;
    pub(crate) const GETXATTR: u32 = 22;
    pub(crate) const LISTXATTR: u32 = 23;
    pub(crate) const REMOVEXATTR: u32 = 24;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const GETLK: u32 = 31;
    pub(crate) const SETLK: u32 = 32;
    pub(crate) const SETLKW: u32 = 33;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const IOCTL: u32 = 39;
    pub(crate) const NOTIFY_REPLY: u32 = 41;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const READDIRPLUS: u32 = 44;
    pub(crate) const RENAME2: u32 = 45;
    pub(crate) const LSEEK: u32 = 46;
    pub(crate) const COPY_FILE_RANGE: u32 = 47;
    pub(crate) const TMPFILE: u32 = 51;
    pub(crate) const STATX: u32 = 52;
    pub(crate) const COPY_FILE_RANGE_64: u32 = 53;
}

/// Flags of both sides (`FUSE_INIT`).
pub(crate) mod can {
    pub(crate) const ASYNC_READ: u64 = 1;
    pub(crate) const POSIX_LOCKS: u64 = 1 << 1;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const DONT_MASK: u64 = 1 << 6;
    pub(crate) const FLOCK_LOCKS: u64 = 1 << 10;
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(crate) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(crate) const ASYNC_DIO: u64 = 1 << 15;
    pub(crate) const WRITEBACK_CACHE: u64 = 1 << 16;
    pub(crate) const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    /// The kernel checks access control lists, and the server keeps them and the mode consistent.
    pub(crate) const POSIX_ACL: u64 = 1 << 20;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(crate) const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub(crate) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(crate) const SETXATTR_EXT: u64 = 1 << 29;
    /// There is a second word of flags.
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    /// Linux 6.14, where `fuse.enable_uring` says so.
    pub(crate) const OVER_IO_URING: u64 = 1 << 41;
}

/// The attributes in a `SETATTR` (`FATTR_*`).
pub(crate) mod fattr {
    pub(crate) const MODE: u32 = 1;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const FH: u32 = 1 << 6;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const KILL_SUIDGID: u32 = 1 << 11;
}

/// An open leaves cached pages alone (`FOPEN_KEEP_CACHE`).
pub(crate) const FOPEN_KEEP_CACHE: u32 = 1 << 1;
/// Setting an access control list strips the set-group-ID bit (`FUSE_SETXATTR_ACL_KILL_SGID`).
pub(crate) const ACL_KILL_SGID: u32 = 1;
/// A write from the page cache (`FUSE_WRITE_CACHE`).
pub(crate) const WRITE_CACHE: u32 = 1;
/// A write that strips set-id bits (`FUSE_WRITE_KILL_SUIDGID`).
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// A lock of flock(2) (`FUSE_LK_FLOCK`).
pub(crate) const LK_FLOCK: u32 = 1;
/// Only the data is to be synced (`FUSE_FSYNC_FDATASYNC`).
pub(crate) const FSYNC_FDATASYNC: u32 = 1;

/// Notifications to the kernel (`fuse_notify_code`).
pub(crate) mod notice {
    pub(crate) const INVAL_INODE: u32 = 2;
    pub(crate) const INVAL_ENTRY: u32 = 3;
    pub(crate) const STORE: u32 = 4;
    pub(crate) const PRUNE: u32 = 9;
    /// A name is to be looked up again, not dropped.
    pub(crate) const EXPIRE_ONLY: u32 = 1;
}
