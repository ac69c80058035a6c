// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the locks and waiters of one file with the columns of `/proc/locks` (proc_locks(5)).

use super::context::LockContext;
use crate::lock_call::{LockKind, LockOwner};
use openpath_abi::stat::{major, minor};
use std::fmt;

/// A lock that is held, or waited for. Prints as a line of `/proc/locks`, but for its
/// number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LockInfo {
    /// Whether it is waited for.
    pub waits: bool,
    /// Its owner.
    pub owner: LockOwner,
    /// Whether it excludes others.
    pub kind: LockKind,
    /// The process that set it, or asks for it; -1 for range locks of open files.
    pub pid: i32,
    /// Device of the file.
    pub dev: u64,
    /// Inode number of the file.
    pub ino: u64,
    /// The first byte.
    pub start: i64,
    /// The last byte; `None`: the end, wherever that is.
    pub end: Option<i64>,
}

impl LockInfo {
    /// Whether this, which is held, keeps `other` from being had, which waits for it or for
    /// something beside it.
    #[must_use]
    pub fn keeps(&self, other: &Self) -> bool {
        let is_whole = |lock: &Self| matches!(lock.owner, LockOwner::Flock(_));
        let meets = self.end.is_none_or(|end| end >= other.start)
            && other.end.is_none_or(|end| end >= self.start);
        let excludes = LockKind::Write;
        !self.waits
            && self.owner != other.owner
            && (self.dev, self.ino) == (other.dev, other.ino)
            && is_whole(self) == is_whole(other)
            && (self.kind == excludes || other.kind == excludes)
            && meets
    }
}

impl fmt::Display for LockInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.waits {
            f.write_str("-> ")?;
        }
        f.write_str(match self.owner {
            LockOwner::Table(_) | LockOwner::Face(..) => "POSIX  ADVISORY  ",
            LockOwner::File(_) => "OFDLCK ADVISORY  ",
            LockOwner::Flock(_) => "FLOCK  ADVISORY  ",
        })?;
        f.write_str(match self.kind {
            LockKind::Read => "READ ",
            LockKind::Write => "WRITE",
        })?;
        let (major, minor) = (major(self.dev), minor(self.dev));
        let (pid, ino, start) = (self.pid, self.ino, self.start);
        write!(f, " {pid} {major:02x}:{minor:02x}:{ino} {start} ")?;
        match self.end {
            Some(end) => write!(f, "{end}"),
            None => f.write_str("EOF"),
        }
    }
}

impl LockContext {
    /// Adds what there is to a list of no more than `max`; how many more there are.
    pub(crate) fn report(&self, into: &mut Vec<LockInfo>, max: usize) -> usize {
        let (state, mut more) = (self.state.lock(), 0);
        for list in state.lists() {
            let waiting = list.queue.iter().map(|ask| (true, ask.held()));
            let held = list.ranges.iter().map(|held| (false, held));
            for (waits, lock) in held.chain(waiting) {
                if into.len() >= max {
                    more += 1;
                    continue;
                }
                into.push(LockInfo {
                    waits,
                    owner: lock.owner,
                    kind: lock.kind,
                    pid: lock.pid,
                    dev: self.place.0,
                    ino: self.place.1,
                    start: lock.range.start,
                    end: (lock.range.end != i64::MAX).then_some(lock.range.end),
                });
            }
        }
        more
    }
}
