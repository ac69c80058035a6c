// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the measured operations, ours and the host's.
//!
//! A burst returns how many results were not the expected ones, so that neither side can be
//! measured failing.

use std::ffi::CStr;
use std::hint::black_box;

use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_RDONLY, O_RDWR};
use openpath_abi::statx::STATX_BASIC_STATS;
use openpath_abi::{AtFlags, Errno, OFlags};
use openpath_vfs::Task;

use crate::paths::Ring;
use crate::{ours, sys};

/// The operation on each path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Open of a name that does not exist.
    FailedOpen,
    /// Open for reading, and close.
    OpenClose,
    /// Open with O_CREAT, for reading and writing, of a file that exists, and close.
    CreatExisting,
    /// The same for reading only: no writer is counted.
    CreatReadOnly,
    /// stat by path.
    Stat,
    /// lstat by path.
    Lstat,
    /// statx by path, basic fields.
    Statx,
    /// Open of a file that the caller may not read; never measured as root.
    Denied,
    /// Duplicate of a descriptor, and its close.
    DupClose,
}

impl Op {
    /// The name used in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Op::FailedOpen => "failed-open",
            Op::OpenClose => "open-close",
            Op::CreatExisting => "creat-existing",
            Op::CreatReadOnly => "creat-read-only",
            Op::Stat => "stat",
            Op::Lstat => "lstat",
            Op::Statx => "statx",
            Op::Denied => "denied-open",
            Op::DupClose => "dup-close",
        }
    }

    /// Whether it walks to the absent names.
    pub(crate) fn wants_missing(self) -> bool {
        self == Op::FailedOpen
    }

    /// Runs `ops` of the host's operations; returns the number of wrong results.
    pub(crate) fn host(self, ops: u64, paths: &mut Ring<'_>) -> u64 {
        let closed = |fd: i32| fd >= 0 && sys::close(fd) == 0;
        match self {
            Op::FailedOpen => wrong(ops, paths, |p| {
                sys::open(p, O_RDONLY.bits(), 0) == -libc::ENOENT
            }),
            Op::OpenClose => wrong(ops, paths, |p| closed(sys::open(p, O_RDONLY.bits(), 0))),
            Op::CreatExisting => wrong(ops, paths, |p| {
                closed(sys::open(p, (O_RDWR | O_CREAT).bits(), 0o644))
            }),
            Op::CreatReadOnly => wrong(ops, paths, |p| closed(sys::open(p, O_CREAT.bits(), 0o644))),
            Op::Stat => wrong(ops, paths, |p| sys::stat_ino(p).is_some()),
            Op::Lstat => wrong(ops, paths, |p| sys::lstat_ino(p).is_some()),
            Op::Statx => wrong(ops, paths, |p| sys::statx_ino(p).is_some()),
            Op::Denied => wrong(ops, paths, |p| {
                sys::open(p, O_RDONLY.bits(), 0) == -libc::EACCES
            }),
            Op::DupClose => {
                let fd = sys::open(paths.next(), O_RDONLY.bits(), 0);
                let wrong = wrong(ops, paths, |_| closed(sys::dup(fd)));
                wrong + u64::from(!closed(fd))
            }
        }
    }

    /// Runs `ops` of our operations; returns the number of wrong results.
    pub(crate) fn ours(self, task: &Task, ops: u64, paths: &mut Ring<'_>) -> u64 {
        match self {
            Op::FailedOpen => wrong(ops, paths, |p| refused(task, p, Errno::ENOENT)),
            Op::Denied => wrong(ops, paths, |p| refused(task, p, Errno::EACCES)),
            Op::OpenClose => wrong(ops, paths, |p| {
                ours::open_close(
                    task,
                    p.to_bytes(),
                    OFlags::from_bits_retain(O_RDONLY.bits()),
                )
            }),
            Op::CreatExisting => wrong(ops, paths, |p| {
                ours::open_close(
                    task,
                    p.to_bytes(),
                    OFlags::from_bits_retain((O_RDWR | O_CREAT).bits()),
                )
            }),
            Op::CreatReadOnly => wrong(ops, paths, |p| {
                ours::open_close(task, p.to_bytes(), OFlags::from_bits_retain(O_CREAT.bits()))
            }),
            Op::Stat => wrong(ops, paths, |p| black_box(task.stat(p.to_bytes())).is_ok()),
            Op::Lstat => wrong(ops, paths, |p| black_box(task.lstat(p.to_bytes())).is_ok()),
            Op::Statx => wrong(ops, paths, |p| {
                black_box(task.statx(AT_FDCWD, p.to_bytes(), AtFlags::empty(), STATX_BASIC_STATS))
                    .is_ok()
            }),
            Op::DupClose => {
                let closed = |fd| task.close(fd).is_ok();
                let Ok(fd) = task.open(paths.next().to_bytes(), O_RDONLY, 0) else {
                    return ops;
                };
                let wrong = wrong(ops, paths, |_| task.dup(fd).is_ok_and(closed));
                wrong + u64::from(!closed(fd))
            }
        }
    }

    /// The same where every operation must fail with EACCES.
    pub(crate) fn barred(self, task: &Task, ops: u64, paths: &mut Ring<'_>) -> u64 {
        wrong(ops, paths, |p| {
            let path = p.to_bytes();
            let done = match self {
                Op::FailedOpen | Op::OpenClose | Op::Denied | Op::DupClose => {
                    task.open(path, O_RDONLY, 0).map(drop)
                }
                Op::CreatExisting => task.open(path, O_RDWR | O_CREAT, 0o644).map(drop),
                Op::CreatReadOnly => task.open(path, O_CREAT, 0o644).map(drop),
                Op::Stat => task.stat(path).map(drop),
                Op::Lstat => task.lstat(path).map(drop),
                Op::Statx => {
                    let mask = STATX_BASIC_STATS;
                    task.statx(AT_FDCWD, path, AtFlags::empty(), mask).map(drop)
                }
            };
            done == Err(Errno::EACCES)
        })
    }
}

#[inline(always)]
fn refused(task: &Task, path: &CStr, errno: Errno) -> bool {
    task.open(path.to_bytes(), O_RDONLY, 0).err() == Some(errno)
}

#[inline(always)]
fn wrong(ops: u64, paths: &mut Ring<'_>, right: impl Fn(&CStr) -> bool) -> u64 {
    let mut wrong = 0;
    for _ in 0..ops {
        wrong += u64::from(!right(paths.next()));
    }
    wrong
}
