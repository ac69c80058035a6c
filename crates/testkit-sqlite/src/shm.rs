// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the index of a write-ahead log: memory that connections share, and locks on the file
//! that it would be mapped from.
//!
//! The tree maps no file for writing, so the memory belongs to this process and is found by the
//! file; the file has the locks. So connections here act as processes do elsewhere.
//!
//! # Fields
//! | bytes of the file `-shm` | meaning of a lock on them |
//! |---|---|
//! | `FIRST_SLOT` + 0 to 7 | SQLite's locks: write, checkpoint, recover, read of a part |
//! | `ALIVE` | for reading: this connection uses the index; for writing: no other one does |
//!
//! # Rules
//! * R1. A connection that finds none alive begins with a zeroed index. Memory is looked up with
//!   `ALIVE` held, and dropped before that is released: so existing memory belongs to live
//!   connections.
//! * R2. Only a connection that has the database alone unlinks the file, while it still has the
//!   memory: an inode number is not reused before the memory is gone.

use crate::file::Handle;
use crate::session::{Code, Session};
use openpath_abi::fcntl::{O_CREAT, O_RDWR};
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK};
use openpath_vfs::Fd;
use rusqlite::ffi;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The first byte that is locked: behind the two headers of the index and what follows them.
pub(crate) const FIRST_SLOT: i64 = 120;
/// The byte of live connections.
const ALIVE: (i64, i64) = (FIRST_SLOT + SLOTS, 1);
const SLOTS: i64 = ffi::SQLITE_SHM_NLOCK as i64;

/// The size of SQLite's requests.
const REGION: usize = 32 << 10;
/// The most regions: 4 million pages in the log.
const REGIONS_MAX: usize = 1024;

type Region = Box<[AtomicU64]>;

/// The memory of one index.
#[derive(Default)]
pub(crate) struct Index(Mutex<Vec<Region>>);

impl Index {
    /// The address of region `number`; `None`: not made yet, and not to be made.
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

/// A connection's part in an index.
pub(crate) struct Shm {
    fd: Fd,
    path: Vec<u8>,
    index: Arc<Index>,
}

impl Shm {
    fn open(session: &Session, database: &[u8]) -> Result<Self, Code> {
        let path = [database, b"-shm"].concat();
        let fd = session
            .task()
            .open(&path, O_RDWR | O_CREAT, 0o644)
            .map_err(session.refused(ffi::SQLITE_CANTOPEN))?;
        let found = Self::arrive(session, fd).and_then(|()| {
            let stat = session.task().fstat(fd);
            stat.map_err(session.refused(ffi::SQLITE_IOERR_FSTAT))
        });
        match found {
            // R1.
            Ok(stat) => Ok(Self {
                fd,
                path,
                index: session.indices().get((stat.dev, stat.ino)),
            }),
            Err(code) => {
                let _ = session.task().close(fd);
                Err(code)
            }
        }
    }

    /// Joins the index; its old contents are dropped if no connection used it.
    fn arrive(session: &Session, fd: Fd) -> Result<(), Code> {
        let lock = |kind| session.lock(fd, kind, ALIVE, ffi::SQLITE_IOERR_SHMLOCK);
        match lock(F_WRLCK) {
            Ok(()) => {
                let cut = session.task().ftruncate(fd, 0);
                cut.map_err(session.refused(ffi::SQLITE_IOERR_SHMOPEN))?;
            }
            Err(ffi::SQLITE_BUSY) => {}
            Err(code) => return Err(code),
        }
        lock(F_RDLCK)
    }
}

impl Handle {
    /// The address of region `number` of the index, which is made on request; null: there is none.
    ///
    /// # Errors
    /// `SQLITE_BUSY` (another connection begins it), `SQLITE_CANTOPEN`, `SQLITE_IOERR_SHMMAP` and
    /// the like.
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
            self.shm = Some(Shm::open(&self.session, &self.path)?);
        }
        let region = self.shm.as_ref().map(|shm| shm.index.region(number, make));
        Ok(region.flatten().unwrap_or(std::ptr::null()))
    }

    /// Locks slots of the index, or releases them.
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
        self.session
            .lock(shm.fd, kind, range, ffi::SQLITE_IOERR_SHMLOCK)
    }

    /// A thread that sees a later store to an index also sees the earlier ones.
    pub(crate) fn barrier() {
        fence(Ordering::SeqCst);
    }

    /// Leaves the index; deletes the file on request.
    ///
    /// # Errors
    /// `SQLITE_IOERR_CLOSE`.
    pub(crate) fn unmap(&mut self, delete: bool) -> Result<(), Code> {
        let Some(Shm { fd, path, index }) = self.shm.take() else {
            return Ok(());
        };
        // R2.
        if delete {
            let _ = self.session.task().unlink(&path);
        }
        // R1.
        drop(index);
        let closed = self.session.task().close(fd);
        closed.map_err(self.session.refused(ffi::SQLITE_IOERR_CLOSE))
    }
}
