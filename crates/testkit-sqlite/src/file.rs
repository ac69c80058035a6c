// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements an open file of SQLite: its data, and the locks of a database with a rollback
//! journal.
//!
//! # States
//! none -> shared -> reserved -> pending -> exclusive, and back to shared or none.
//!
//! | state | locked bytes | what others may do |
//! |---|---|---|
//! | shared | `SHARED` for reading, by way of `PENDING` (R1) | read, reserve |
//! | reserved | also `RESERVED` for writing | read, start to read |
//! | pending | also `PENDING` for writing | finish reading |
//! | exclusive | `SHARED` for writing instead | nothing |
//!
//! # Rules
//! * R1. A reader locks `PENDING` first, so that a waiting writer waits only for current readers.
//! * R2. A connection that is refused the exclusive lock stays pending.
//! * R3. On the way down, a write lock becomes a read lock without a moment in which the byte is
//!   unlocked.
//!
//! The SQLite pages "File Locking And Concurrency In SQLite Version 3" and "Database File Format"
//! (the lock-byte page) describe the same protocol at length.

use crate::lock_bytes::{PENDING, RESERVED, SHARED, SHARED_LEN};
use crate::shm::Shm;
use crate::task_vfs::{Code, TaskVfs};
use crate::wal_index::{REGION, REGIONS_MAX};
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK};
use openpath_vfs::Fd;
use rusqlite::ffi;
use std::ffi::c_int;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

const READERS: (i64, i64) = (SHARED, SHARED_LEN);
/// The range from the first byte to the end of the file, wherever that is.
const ALL: (i64, i64) = (0, 0);

/// An open file.
pub(crate) struct Handle {
    task_vfs: Rc<TaskVfs>,
    fd: Fd,
    path: Vec<u8>,
    /// `SQLITE_LOCK_NONE` to `SQLITE_LOCK_EXCLUSIVE`.
    level: c_int,
    shm: Option<Shm>,
}

impl Handle {
    /// Opens a file; a file without a name is temporary.
    ///
    /// # Errors
    /// `SQLITE_CANTOPEN`.
    pub(crate) fn open(
        task_vfs: &Rc<TaskVfs>,
        name: Option<&[u8]>,
        flags: c_int,
    ) -> Result<Self, Code> {
        let (fd, path) = task_vfs.open(name, flags)?;
        Ok(Self {
            task_vfs: Rc::clone(task_vfs),
            fd,
            path,
            level: ffi::SQLITE_LOCK_NONE,
            shm: None,
        })
    }

    /// Closes the file, which releases its locks.
    pub(crate) fn close(mut self) -> Result<(), Code> {
        let unmapped = self.unmap(false);
        let closed = self.task_vfs.task().close(self.fd);
        unmapped.and(closed.map_err(self.task_vfs.refused(ffi::SQLITE_IOERR_CLOSE)))
    }

    /// Fills `out` from offset `at`; the part beyond the end of the file is left unchanged.
    pub(crate) fn read(&self, out: &mut [u8], at: i64) -> Result<(), Code> {
        let mut done = 0;
        while done < out.len() {
            let place = at + done.cast_signed() as i64;
            let read = self.task_vfs.task().pread(self.fd, &mut out[done..], place);
            match read.map_err(self.task_vfs.refused(ffi::SQLITE_IOERR_READ))? {
                0 => return Err(ffi::SQLITE_IOERR_SHORT_READ),
                more => done += more,
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, data: &[u8], at: i64) -> Result<(), Code> {
        let mut done = 0;
        while done < data.len() {
            let place = at + done.cast_signed() as i64;
            let written = self.task_vfs.task().pwrite(self.fd, &data[done..], place);
            match written.map_err(self.task_vfs.refused(ffi::SQLITE_IOERR_WRITE))? {
                0 => return Err(ffi::SQLITE_FULL),
                more => done += more,
            }
        }
        Ok(())
    }

    pub(crate) fn truncate(&self, size: i64) -> Result<(), Code> {
        let cut = self.task_vfs.task().ftruncate(self.fd, size);
        cut.map_err(self.task_vfs.refused(ffi::SQLITE_IOERR_TRUNCATE))
    }

    pub(crate) fn sync(&self) -> Result<(), Code> {
        let synced = self.task_vfs.task().fsync(self.fd);
        synced.map_err(self.task_vfs.refused(ffi::SQLITE_IOERR_FSYNC))
    }

    pub(crate) fn size(&self) -> Result<i64, Code> {
        let stat = self.task_vfs.task().fstat(self.fd);
        stat.map(|stat| stat.size)
            .map_err(self.task_vfs.refused(ffi::SQLITE_IOERR_FSTAT))
    }

    /// Raises the lock to `want`, or as far as possible.
    ///
    /// # Errors
    /// `SQLITE_BUSY`, `SQLITE_IOERR_LOCK`.
    pub(crate) fn lock(&mut self, want: c_int) -> Result<(), Code> {
        if self.level >= want {
            return Ok(());
        }
        match want {
            ffi::SQLITE_LOCK_SHARED => self.lock_shared()?,
            ffi::SQLITE_LOCK_RESERVED => self.set(F_WRLCK, (RESERVED, 1))?,
            ffi::SQLITE_LOCK_EXCLUSIVE => {
                if self.level < ffi::SQLITE_LOCK_PENDING {
                    self.set(F_WRLCK, (PENDING, 1))?;
                    // R2.
                    self.level = ffi::SQLITE_LOCK_PENDING;
                }
                self.set(F_WRLCK, READERS)?;
            }
            _ => return Err(ffi::SQLITE_MISUSE),
        }
        self.level = want;
        Ok(())
    }

    /// R1.
    fn lock_shared(&self) -> Result<(), Code> {
        self.set(F_RDLCK, (PENDING, 1))?;
        let shared = self.set(F_RDLCK, READERS);
        self.set(F_UNLCK, (PENDING, 1))?;
        shared
    }

    fn set(&self, kind: i16, range: (i64, i64)) -> Result<(), Code> {
        self.task_vfs
            .lock(self.fd, kind, range, ffi::SQLITE_IOERR_LOCK)
    }

    /// Lowers the lock to shared or none.
    ///
    /// # Errors
    /// `SQLITE_IOERR_RDLOCK`, `SQLITE_IOERR_UNLOCK`: neither can conflict with another lock.
    pub(crate) fn unlock(&mut self, want: c_int) -> Result<(), Code> {
        if self.level <= want {
            return Ok(());
        }
        let ended = |_| ffi::SQLITE_IOERR_UNLOCK;
        if want == ffi::SQLITE_LOCK_SHARED {
            // R3.
            self.set(F_RDLCK, READERS)
                .map_err(|_| ffi::SQLITE_IOERR_RDLOCK)?;
            self.set(F_UNLCK, (PENDING, 2)).map_err(ended)?;
        } else {
            self.set(F_UNLCK, ALL).map_err(ended)?;
        }
        self.level = want;
        Ok(())
    }

    /// Whether any connection has the reserved lock, this one included.
    pub(crate) fn is_reserved(&self) -> Result<bool, Code> {
        if self.level > ffi::SQLITE_LOCK_SHARED {
            return Ok(true);
        }
        let code = ffi::SQLITE_IOERR_CHECKRESERVEDLOCK;
        self.task_vfs
            .is_locked(self.fd, F_WRLCK, (RESERVED, 1), code)
    }

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
        let region = self.shm.as_ref().map(|shm| shm.region(number, make));
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
        shm.lock_slots(&self.task_vfs, first, many, flags)
    }

    /// A full barrier: stores to an index before it are visible to a thread that sees stores after
    /// it.
    pub(crate) fn barrier() {
        fence(Ordering::SeqCst);
    }

    /// Releases the index, and unlinks its file if `delete` is set.
    ///
    /// # Errors
    /// `SQLITE_IOERR_CLOSE`.
    pub(crate) fn unmap(&mut self, delete: bool) -> Result<(), Code> {
        match self.shm.take() {
            Some(shm) => shm.close(&self.task_vfs, delete),
            None => Ok(()),
        }
    }
}
