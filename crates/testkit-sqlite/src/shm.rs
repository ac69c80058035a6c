// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a connection's use of the index of a write-ahead log: the `-shm` file with the locks
//! on it, and the shared memory.
//!
//! Only the locks are on the file; `wal_index` has the memory. So connections here can act like
//! processes elsewhere.
//!
//! # Locked bytes
//! | bytes of the file `-shm` | meaning of a lock |
//! |---|---|
//! | `FIRST_SLOT` + 0 to 7 | writer, checkpointer, recovery, readers of a part (chosen by SQLite) |
//! | `ALIVE` | for reading: this connection uses the index; for writing: no other connection does |
//!
//! # Rules
//! * R1. A connection that finds no other one using the index zeroes it. Memory is looked up while
//!   `ALIVE` is held and released before `ALIVE` is, so existing memory belongs to live
//!   connections.
//! * R2. Only a connection that has the database to itself unlinks the file, while it still holds
//!   the memory: the inode number is not reused before the memory is gone.

use crate::lock_bytes::{ALIVE, FIRST_SLOT};
use crate::task_vfs::{Code, TaskVfs};
use crate::wal_index::Index;
use openpath_abi::fcntl::{O_CREAT, O_RDWR};
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK};
use openpath_vfs::Fd;
use rusqlite::ffi;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A connection's use of an index.
pub(crate) struct Shm {
    fd: Fd,
    path: Vec<u8>,
    index: Arc<Index>,
}

impl Shm {
    pub(crate) fn open(task_vfs: &TaskVfs, database: &[u8]) -> Result<Self, Code> {
        let path = [database, b"-shm"].concat();
        let fd = task_vfs
            .task()
            .open(&path, O_RDWR | O_CREAT, 0o644)
            .map_err(task_vfs.refused(ffi::SQLITE_CANTOPEN))?;
        let found = Self::join(task_vfs, fd).and_then(|()| {
            let stat = task_vfs.task().fstat(fd);
            stat.map_err(task_vfs.refused(ffi::SQLITE_IOERR_FSTAT))
        });
        match found {
            // R1.
            Ok(stat) => Ok(Self {
                fd,
                path,
                index: task_vfs.indices().get((stat.dev, stat.ino)),
            }),
            Err(code) => {
                let _ = task_vfs.task().close(fd);
                Err(code)
            }
        }
    }

    /// Joins the users of the index; the first one truncates the file.
    fn join(task_vfs: &TaskVfs, fd: Fd) -> Result<(), Code> {
        let lock = |kind| task_vfs.lock(fd, kind, ALIVE, ffi::SQLITE_IOERR_SHMLOCK);
        match lock(F_WRLCK) {
            Ok(()) => {
                let cut = task_vfs.task().ftruncate(fd, 0);
                cut.map_err(task_vfs.refused(ffi::SQLITE_IOERR_SHMOPEN))?;
            }
            Err(ffi::SQLITE_BUSY) => {}
            Err(code) => return Err(code),
        }
        lock(F_RDLCK)
    }

    /// The address of region `number` of the index, which is created on request; `None` if there
    /// is none.
    pub(crate) fn region(&self, number: usize, make: bool) -> Option<*const AtomicU64> {
        self.index.region(number, make)
    }

    /// Locks slots of the index, or releases their locks.
    ///
    /// # Errors
    /// `SQLITE_BUSY`, `SQLITE_IOERR_SHMLOCK`.
    pub(crate) fn lock_slots(
        &self,
        task_vfs: &TaskVfs,
        first: c_int,
        many: c_int,
        flags: c_int,
    ) -> Result<(), Code> {
        let kind = match (
            flags & ffi::SQLITE_SHM_UNLOCK != 0,
            flags & ffi::SQLITE_SHM_EXCLUSIVE != 0,
        ) {
            (true, _) => F_UNLCK,
            (_, true) => F_WRLCK,
            _ => F_RDLCK,
        };
        let range = (FIRST_SLOT + i64::from(first), i64::from(many));
        task_vfs.lock(self.fd, kind, range, ffi::SQLITE_IOERR_SHMLOCK)
    }

    /// Releases the index, and unlinks the file if `delete` is set.
    ///
    /// # Errors
    /// `SQLITE_IOERR_CLOSE`.
    pub(crate) fn close(self, task_vfs: &TaskVfs, delete: bool) -> Result<(), Code> {
        let Self { fd, path, index } = self;
        // R2.
        if delete {
            let _ = task_vfs.task().unlink(&path);
        }
        // R1.
        drop(index);
        let closed = task_vfs.task().close(fd);
        closed.map_err(task_vfs.refused(ffi::SQLITE_IOERR_CLOSE))
    }
}
