// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines limits of Linux's system calls, such as the lengths of paths and names, the symbolic
//! links in a path, and the groups of a task.

/// Bytes of a path with its NUL.
pub const PATH_MAX: usize = 4096;
/// Bytes of a component.
pub const NAME_MAX: usize = 255;
/// Symbolic links followed in one resolution; the next one is `ELOOP`.
pub const MAXSYMLINKS: usize = 40;
/// The page: openat2(2) refuses a larger `struct open_how`.
pub const PAGE_SIZE: usize = 4096;
/// Supplementary groups of a task.
pub const NGROUPS_MAX: usize = 65536;
/// Bytes that reach a pipe in one piece.
pub const PIPE_BUF: usize = 4096;

/// The largest file offset.
pub const MAX_LFS_FILESIZE: i64 = i64::MAX;
