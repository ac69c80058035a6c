// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a file that SQLite has open: its data, and the locks of a database.
//!
//! # States
//! none -> shared -> reserved -> pending -> exclusive, and back to shared or none.
//!
//! | state | locked by then | others may |
//! |---|---|---|
//! | shared | `SHARED` for reading, by way of `PENDING` (R1) | read, and reserve |
//! | reserved | as well `RESERVED` for writing | read, and begin to |
//! | pending | as well `PENDING` for writing | go on reading |
//! | exclusive | `SHARED` for writing instead | do nothing |
//!
//! # Rules
//! * R1. A new reader first locks `PENDING`, so that a writer waits only for the present readers.
//! * R2. If the last step is refused, the state stays pending.
//! * R3. The way down never passes an unlocked state: the write lock becomes a read lock.
//!
//! SQLite's pages "File Locking And Concurrency In SQLite Version 3" and "Database File Format"
//! (the lock-byte page) say the same in more words.

use crate::session::{Code, Session};
use crate::shm::Shm;
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK};
use openpath_vfs::Fd;
use rusqlite::ffi;
use std::ffi::c_int;
use std::rc::Rc;

/// The byte of a writer that waits for readers to leave; the locks begin here, a gigabyte into the
/// file.
pub(crate) const PENDING: i64 = 0x4000_0000;
/// The byte of a reserved writer.
pub(crate) const RESERVED: i64 = PENDING + 1;
/// The first byte of the range that readers lock.
pub(crate) const SHARED: i64 = PENDING + 2;
/// The length of that range.
pub(crate) const SHARED_LEN: i64 = 510;

const READERS: (i64, i64) = (SHARED, SHARED_LEN);
/// From a byte to the end of the file, wherever that is.
const ALL: (i64, i64) = (0, 0);

/// An open file.
pub(crate) struct Handle {
    pub(crate) session: Rc<Session>,
    fd: Fd,
    pub(crate) path: Vec<u8>,
    /// `SQLITE_LOCK_NONE` to `SQLITE_LOCK_EXCLUSIVE`.
    level: c_int,
    pub(crate) shm: Option<Shm>,
}

impl Handle {
    pub(crate) const fn new(session: Rc<Session>, fd: Fd, path: Vec<u8>) -> Self {
        Self {
            session,
            fd,
            path,
            level: ffi::SQLITE_LOCK_NONE,
            shm: None,
        }
    }

    /// Closes the file, which ends its locks.
    pub(crate) fn close(mut self) -> Result<(), Code> {
        let unmapped = self.unmap(false);
        let closed = self.session.task().close(self.fd);
        unmapped.and(closed.map_err(self.session.refused(ffi::SQLITE_IOERR_CLOSE)))
    }

    /// Fills `out` from `at` on; the part behind the end of the file is left as it is.
    pub(crate) fn read(&self, out: &mut [u8], at: i64) -> Result<(), Code> {
        let mut done = 0;
        while done < out.len() {
            let place = at + done.cast_signed() as i64;
            let read = self.session.task().pread(self.fd, &mut out[done..], place);
            match read.map_err(self.session.refused(ffi::SQLITE_IOERR_READ))? {
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
            let written = self.session.task().pwrite(self.fd, &data[done..], place);
            match written.map_err(self.session.refused(ffi::SQLITE_IOERR_WRITE))? {
                0 => return Err(ffi::SQLITE_FULL),
                more => done += more,
            }
        }
        Ok(())
    }

    pub(crate) fn truncate(&self, size: i64) -> Result<(), Code> {
        let cut = self.session.task().ftruncate(self.fd, size);
        cut.map_err(self.session.refused(ffi::SQLITE_IOERR_TRUNCATE))
    }

    pub(crate) fn sync(&self) -> Result<(), Code> {
        let synced = self.session.task().fsync(self.fd);
        synced.map_err(self.session.refused(ffi::SQLITE_IOERR_FSYNC))
    }

    pub(crate) fn size(&self) -> Result<i64, Code> {
        let stat = self.session.task().fstat(self.fd);
        stat.map(|stat| stat.size)
            .map_err(self.session.refused(ffi::SQLITE_IOERR_FSTAT))
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
        self.session
            .lock(self.fd, kind, range, ffi::SQLITE_IOERR_LOCK)
    }

    /// Lowers the lock to shared or none.
    ///
    /// # Errors
    /// `SQLITE_IOERR_RDLOCK`, `SQLITE_IOERR_UNLOCK`: no lock conflicts with either.
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

    /// Whether any connection, this one included, is a reserved writer.
    pub(crate) fn is_reserved(&self) -> Result<bool, Code> {
        if self.level > ffi::SQLITE_LOCK_SHARED {
            return Ok(true);
        }
        let code = ffi::SQLITE_IOERR_CHECKRESERVEDLOCK;
        self.session
            .is_locked(self.fd, F_WRLCK, (RESERVED, 1), code)
    }
}
