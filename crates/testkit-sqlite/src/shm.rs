// SPDX-License-Identifier: MIT OR Apache-2.0
//! The index of a write-ahead log: memory that connections share, and locks on the `-shm` file.
//!
//! The tree maps no file for writing, so the memory belongs to this process and is found by the
//! file's identity; only the locks are on the file. So connections here can act like processes
//! elsewhere.
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

use crate::file::Handle;
use crate::task_vfs::{Code, TaskVfs};
use openpath_abi::fcntl::{O_CREAT, O_RDWR};
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK};
use openpath_vfs::Fd;
use rusqlite::ffi;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The first locked byte, after the two headers of the index and the checkpoint data.
pub(crate) const FIRST_SLOT: i64 = 120;
/// The byte that live connections lock; SQLite calls it the dead-man switch.
const ALIVE: (i64, i64) = (FIRST_SLOT + SLOTS, 1);
const SLOTS: i64 = ffi::SQLITE_SHM_NLOCK as i64;

/// The size of a region, as SQLite asks for it.
const REGION: usize = 32 << 10;
/// The most regions: 4 million pages in the log.
const REGIONS_MAX: usize = 1024;

type Region = Box<[AtomicU64]>;

/// The memory of one index.
#[derive(Default)]
pub(crate) struct Index(Mutex<Vec<Region>>);

impl Index {
    /// The address of region `number`; `None` if it does not exist and `make` is false.
    fn region(&self, number: usize, make: bool) -> Option<*const AtomicU64> {
        let mut regions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while make && regions.len() <= number {
            let zeros = (0..REGION / size_of::<AtomicU64>()).map(|_| AtomicU64::new(0));
            regions.push(zeros.collect());
        }
        regions.get(number).map(|region| region.as_ptr())
    }
}

/// The indices in use, by device and inode.
#[derive(Default)]
pub(crate) struct Indices(Mutex<HashMap<(u64, u64), Weak<Index>>>);

impl Indices {
    fn get(&self, file: (u64, u64)) -> Arc<Index> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, index| index.strong_count() > 0);
        if let Some(index) = all.get(&file).and_then(Weak::upgrade) {
            return index;
        }
        let index = Arc::default();
        all.insert(file, Arc::downgrade(&index));
        index
    }
}

/// A connection's use of an index.
pub(crate) struct Shm {
    fd: Fd,
    path: Vec<u8>,
    index: Arc<Index>,
}

impl Shm {
    fn open(task_vfs: &TaskVfs, database: &[u8]) -> Result<Self, Code> {
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
}

impl Handle {
    /// The address of region `number` of the index, which is created on request; null if there is
    /// none.
    ///
    /// # Errors
    /// `SQLITE_BUSY` (another connection creates the index), `SQLITE_CANTOPEN`,
    /// `SQLITE_IOERR_SHM*`.
    pub(crate) fn map(
        &mut self,
        number: c_int,
        size: c_int,
        make: bool,
    ) -> Result<*const AtomicU64, Code> {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        if usize::try_from(size) != Ok(REGION) || number >= REGIONS_MAX {
            return Err(ffi::SQLITE_IOERR_SHMMAP);
        }
        if self.shm.is_none() {
            self.shm = Some(Shm::open(&self.task_vfs, &self.path)?);
        }
        let region = self.shm.as_ref().map(|shm| shm.index.region(number, make));
        Ok(region.flatten().unwrap_or(std::ptr::null()))
    }

    /// Locks slots of the index, or releases their locks.
    ///
    /// # Errors
    /// `SQLITE_BUSY`, `SQLITE_IOERR_SHMLOCK`.
    pub(crate) fn lock_slots(&self, first: c_int, many: c_int, flags: c_int) -> Result<(), Code> {
        let Some(shm) = &self.shm else {
            return Err(ffi::SQLITE_IOERR_SHMLOCK);
        };
        let kind = match (
            flags & ffi::SQLITE_SHM_UNLOCK != 0,
            flags & ffi::SQLITE_SHM_EXCLUSIVE != 0,
        ) {
            (true, _) => F_UNLCK,
            (_, true) => F_WRLCK,
            _ => F_RDLCK,
        };
        let range = (FIRST_SLOT + i64::from(first), i64::from(many));
        self.task_vfs
            .lock(shm.fd, kind, range, ffi::SQLITE_IOERR_SHMLOCK)
    }

    /// A full barrier: stores to an index before it are visible to a thread that sees stores after
    /// it.
    pub(crate) fn barrier() {
        fence(Ordering::SeqCst);
    }

    /// Releases the index, and unlinks the file if `delete` is set.
    ///
    /// # Errors
    /// `SQLITE_IOERR_CLOSE`.
    pub(crate) fn unmap(&mut self, delete: bool) -> Result<(), Code> {
        let Some(Shm { fd, path, index }) = self.shm.take() else {
            return Ok(());
        };
        // R2.
        if delete {
            let _ = self.task_vfs.task().unlink(&path);
        }
        // R1.
        drop(index);
        let closed = self.task_vfs.task().close(fd);
        closed.map_err(self.task_vfs.refused(ffi::SQLITE_IOERR_CLOSE))
    }
}
