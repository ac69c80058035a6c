// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the file locks in a mount or a view, with their waiters, for `openpath locks`, and prints
//! each as a line of `/proc/locks`.

use openpath_fuse::Handle;
use openpath_vfs::{LockInfo, LockOwner, Vfs};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most locks that are listed.
const LOCKS_MAX: usize = 10_000;

/// The locks of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Locks {
    /// Whether the server handles locks; otherwise the kernel does, and `/proc/locks` lists them.
    pub answered: bool,
    /// File by file: each held lock, followed by those that wait for it first.
    pub locks: Vec<Lock>,
    /// How many more there are.
    pub left_out: usize,
}

/// How a lock is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LockSort {
    /// fcntl(2), for a descriptor table.
    Posix,
    /// fcntl(2), for an open file.
    Ofd,
    /// flock(2).
    Flock,
}

/// What a lock excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum LockKind {
    /// Only write locks.
    Read,
    /// All other locks.
    Write,
}

/// A lock that is held or waited for. Prints as a line of `/proc/locks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Lock {
    /// Its number in the list; a waiting lock has that of the lock it waits for.
    pub number: usize,
    /// Whether it waits.
    pub waits: bool,
    /// How it is set.
    pub sort: LockSort,
    /// What it excludes.
    pub kind: LockKind,
    /// The process that set or requests it; -1: an open file description.
    pub pid: i32,
    /// Device of the file.
    pub dev: u64,
    /// Inode number of the file.
    pub ino: u64,
    /// The first byte.
    pub start: i64,
    /// The last byte; none: the end of the file, wherever that is.
    pub end: Option<i64>,
    /// The line without its number.
    #[serde(rename = "text")]
    line: String,
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.number, self.line)
    }
}

impl Lock {
    fn new(number: usize, lock: &LockInfo) -> Self {
        Self {
            number,
            waits: lock.waits,
            sort: match lock.owner {
                LockOwner::Table(_) | LockOwner::Face(..) => LockSort::Posix,
                LockOwner::File(_) => LockSort::Ofd,
                LockOwner::Flock(_) => LockSort::Flock,
            },
            kind: match lock.kind {
                openpath_vfs::LockKind::Read => LockKind::Read,
                openpath_vfs::LockKind::Write => LockKind::Write,
            },
            pid: lock.pid,
            dev: lock.dev,
            ino: lock.ino,
            start: lock.start,
            end: lock.end,
            line: lock.to_string(),
        }
    }
}

impl Locks {
    /// Reads the current locks.
    pub(super) fn read(handle: &Handle, vfs: &Vfs) -> Self {
        let answered = handle.answers_locks();
        let (all, mut left_out) = vfs.locks_up_to(LOCKS_MAX);
        let (waiting, held): (Vec<_>, Vec<_>) = all.into_iter().partition(|lock| lock.waits);
        let mut behind: Vec<Vec<LockInfo>> = held.iter().map(|_| Vec::new()).collect();
        for lock in waiting {
            match held.iter().position(|other| other.keeps(&lock)) {
                Some(first) => behind[first].push(lock),
                None => left_out += 1,
            }
        }
        let numbered = (1..).zip(held.iter().zip(&behind));
        let locks = numbered.flat_map(|(number, (lock, behind))| {
            let both = std::iter::once(lock).chain(behind);
            both.map(move |lock| Lock::new(number, lock))
        });
        Self {
            answered,
            locks: locks.collect(),
            left_out,
        }
    }
}
