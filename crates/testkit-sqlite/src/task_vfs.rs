// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the system calls of one SQLite connection by its openpath task (open, delete, access and
//! lock), and gives it a clock, sleep and random bytes.

use crate::fault::Fault;
use crate::wal_index::Indices;
use openpath_abi::fcntl::{O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_RDWR};
use openpath_abi::lock::F_UNLCK;
use openpath_abi::{Errno, Flock};
use openpath_vfs::{Fd, Task};
use rusqlite::ffi;
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An error code for SQLite.
pub(crate) type Code = c_int;

/// access(2): read and write.
const READ_AND_WRITE: u32 = 4 | 2;

/// A sleep is this many times shorter than SQLite asks for.
const SLEEP_DIVISOR: u64 = 20;

/// SQLite's day 0, noon of -4713-11-24, in milliseconds before 1970.
const JULIAN_OF_1970_MS: i64 = 210_866_760_000_000;

/// The system calls of one connection.
pub(crate) struct TaskVfs {
    task: Task,
    indices: Arc<Indices>,
    fault: Fault,
    last: Cell<Option<Errno>>,
    /// The number of temporary files so far, for their names.
    temporary: Cell<u64>,
}

impl TaskVfs {
    pub(crate) fn new(task: Task, indices: Arc<Indices>, fault: Fault) -> Self {
        Self {
            task,
            indices,
            fault,
            last: Cell::new(None),
            temporary: Cell::new(0),
        }
    }

    pub(crate) const fn task(&self) -> &Task {
        &self.task
    }

    pub(crate) fn indices(&self) -> &Indices {
        &self.indices
    }

    pub(crate) fn last_errno(&self) -> Option<Errno> {
        self.last.get()
    }

    /// Returns `code`, and keeps the errno of the tree.
    pub(crate) fn refused(&self, code: Code) -> impl FnOnce(Errno) -> Code {
        move |errno| {
            self.last.set(Some(errno));
            code
        }
    }

    /// Sets a lock or releases locks, without waiting.
    ///
    /// # Errors
    /// `SQLITE_BUSY` on a conflict, `code` otherwise.
    pub(crate) fn lock(
        &self,
        fd: Fd,
        kind: i16,
        (start, len): (i64, i64),
        code: Code,
    ) -> Result<(), Code> {
        let ask = Flock::new(kind, start, len);
        if self.fault.skips(&ask) {
            return Ok(());
        }
        self.task.fcntl_setlk(fd, &ask).map_err(|errno| {
            if errno == Errno::EAGAIN {
                ffi::SQLITE_BUSY
            } else {
                self.refused(code)(errno)
            }
        })
    }

    /// Whether a lock of another connection conflicts with this one.
    pub(crate) fn is_locked(
        &self,
        fd: Fd,
        kind: i16,
        (start, len): (i64, i64),
        code: Code,
    ) -> Result<bool, Code> {
        let found = self.task.fcntl_getlk(fd, &Flock::new(kind, start, len));
        found
            .map(|lock| lock.kind != F_UNLCK)
            .map_err(self.refused(code))
    }

    /// Opens a file, and returns its descriptor and path; a file without a name is temporary.
    ///
    /// # Errors
    /// `SQLITE_CANTOPEN`.
    pub(crate) fn open(&self, name: Option<&[u8]>, flags: c_int) -> Result<(Fd, Vec<u8>), Code> {
        let is = |flag| flags & flag != 0;
        let mut how = if is(ffi::SQLITE_OPEN_READWRITE) {
            O_RDWR
        } else {
            O_RDONLY
        };
        if is(ffi::SQLITE_OPEN_CREATE) {
            how |= O_CREAT;
        }
        if is(ffi::SQLITE_OPEN_EXCLUSIVE) {
            how |= O_EXCL;
        }
        let path = name.map_or_else(|| self.temporary_name(), <[u8]>::to_vec);
        let fd = self
            .task
            .open(&path, how, 0o644)
            .map_err(self.refused(ffi::SQLITE_CANTOPEN))?;
        if name.is_none() || is(ffi::SQLITE_OPEN_DELETEONCLOSE) {
            // A temporary file is unlinked now, and removed at its last close.
            if let Err(errno) = self.task.unlink(&path) {
                let _ = self.task.close(fd);
                return Err(self.refused(ffi::SQLITE_CANTOPEN)(errno));
            }
        }
        Ok((fd, path))
    }

    /// A name that no other connection uses, since each has a process number of its own.
    fn temporary_name(&self) -> Vec<u8> {
        let number = self.temporary.get();
        self.temporary.set(number + 1);
        format!("/.sqlite-{}-{number}", self.task.pid()).into_bytes()
    }

    /// Removes a name; `for_good` syncs the directory.
    ///
    /// # Errors
    /// `SQLITE_IOERR_DELETE_NOENT`, `SQLITE_IOERR_DELETE`, `SQLITE_IOERR_DIR_FSYNC`.
    pub(crate) fn delete(&self, name: &[u8], for_good: bool) -> Result<(), Code> {
        match self.task.unlink(name) {
            Err(Errno::ENOENT) => Err(ffi::SQLITE_IOERR_DELETE_NOENT),
            Err(errno) => Err(self.refused(ffi::SQLITE_IOERR_DELETE)(errno)),
            Ok(()) if for_good => self
                .sync_folder(name)
                .map_err(self.refused(ffi::SQLITE_IOERR_DIR_FSYNC)),
            Ok(()) => Ok(()),
        }
    }

    fn sync_folder(&self, name: &[u8]) -> Result<(), Errno> {
        let slash = name.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        let folder = &name[..slash.max(1)];
        let fd = self.task.open(folder, O_RDONLY | O_DIRECTORY, 0)?;
        let synced = self.task.fsync(fd);
        self.task.close(fd)?;
        synced
    }

    /// Whether a file exists and is not empty, or may be read and written.
    pub(crate) fn access(&self, name: &[u8], what: c_int) -> bool {
        if what == ffi::SQLITE_ACCESS_READWRITE {
            return self.task.access(name, READ_AND_WRITE).is_ok();
        }
        // An empty journal counts as missing.
        self.task.stat(name).is_ok_and(|stat| stat.size > 0)
    }

    /// The absolute form of a name.
    pub(crate) fn full_name(name: &[u8]) -> Vec<u8> {
        let root: &[u8] = if name.starts_with(b"/") { b"" } else { b"/" };
        [root, name].concat()
    }

    /// Fills `out` with random bytes; returns how many.
    pub(crate) fn random(out: &mut [u8]) -> usize {
        openpath_sync::random_bytes(out).map_or(0, |()| out.len())
    }

    /// Sleeps for a fraction of the time that SQLite asks for, so that waiting connections retry
    /// more often and collide more.
    pub(crate) fn sleep(micros: c_int) {
        let micros = u64::try_from(micros).unwrap_or(0);
        std::thread::sleep(Duration::from_micros(micros / SLEEP_DIVISOR));
    }

    /// Milliseconds since SQLite's day 0.
    pub(crate) fn now_ms() -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = since.unwrap_or_default().as_millis();
        i64::try_from(millis).unwrap_or(0) + JULIAN_OF_1970_MS
    }
}
