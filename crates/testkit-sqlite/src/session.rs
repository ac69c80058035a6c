// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds what all files of a connection share: its task, and SQLite's requests for names, time and
//! random bytes.

use crate::fault::Fault;
use crate::file::Handle;
use crate::shm::Indices;
use openpath_abi::fcntl::{O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_RDWR};
use openpath_abi::lock::F_UNLCK;
use openpath_abi::{Errno, Flock};
use openpath_vfs::{Fd, Task};
use rusqlite::ffi;
use std::cell::Cell;
use std::ffi::c_int;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A result code of SQLite.
pub(crate) type Code = c_int;

/// access(2): reading and writing.
const READ_AND_WRITE: u32 = 4 | 2;

/// SQLite wakes this many times earlier than it requests.
const EARLIER: u64 = 20;

/// The start of the Julian day count, in milliseconds before 1970: noon of -4713-11-24.
const JULIAN_OF_1970_MS: i64 = 210_866_760_000_000;

/// The tree as a connection sees it.
pub(crate) struct Session {
    task: Task,
    indices: Arc<Indices>,
    fault: Fault,
    last: Cell<Option<Errno>>,
    /// How many temporary files were made, for their names.
    temporary: Cell<u64>,
}

impl Session {
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

    /// Records the tree's error and returns `code`.
    pub(crate) fn refused(&self, code: Code) -> impl FnOnce(Errno) -> Code {
        move |errno| {
            self.last.set(Some(errno));
            code
        }
    }

    /// Sets a lock, or releases some, without waiting.
    ///
    /// # Errors
    /// `SQLITE_BUSY` for a conflicting lock, else `code`.
    pub(crate) fn lock(
        &self,
        fd: Fd,
        kind: i16,
        (start, len): (i64, i64),
        code: Code,
    ) -> Result<(), Code> {
        let ask = Flock::new(kind, start, len);
        if self.fault.swallows(&ask) {
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

    /// Whether another owner has a conflicting lock.
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

    /// Opens a file; one without a name is temporary.
    ///
    /// # Errors
    /// `SQLITE_CANTOPEN`.
    pub(crate) fn open(self: &Rc<Self>, name: Option<&[u8]>, flags: c_int) -> Result<Handle, Code> {
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
            // A file without a name vanishes with its last descriptor.
            if let Err(errno) = self.task.unlink(&path) {
                let _ = self.task.close(fd);
                return Err(self.refused(ffi::SQLITE_CANTOPEN)(errno));
            }
        }
        Ok(Handle::new(Rc::clone(self), fd, path))
    }

    /// A name that no other connection has, because each has its own process number.
    fn temporary_name(&self) -> Vec<u8> {
        let number = self.temporary.get();
        self.temporary.set(number + 1);
        format!("/.sqlite-{}-{number}", self.task.pid()).into_bytes()
    }

    /// Removes a name, durably on request.
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
        // An empty journal counts as none.
        self.task.stat(name).is_ok_and(|stat| stat.size > 0)
    }

    /// An absolute name.
    pub(crate) fn full_name(name: &[u8]) -> Vec<u8> {
        let root: &[u8] = if name.starts_with(b"/") { b"" } else { b"/" };
        [root, name].concat()
    }

    /// Fills `out` with random bytes; returns how many.
    pub(crate) fn random(out: &mut [u8]) -> usize {
        openpath_sync::random_bytes(out).map_or(0, |()| out.len())
    }

    /// Sleeps a fraction of the requested time: waiters retry their locks more often, and more of
    /// them meet.
    pub(crate) fn sleep(micros: c_int) {
        let micros = u64::try_from(micros).unwrap_or(0);
        std::thread::sleep(Duration::from_micros(micros / EARLIER));
    }

    /// Milliseconds since the start of the Julian day count.
    pub(crate) fn now_ms() -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = since.unwrap_or_default().as_millis();
        i64::try_from(millis).unwrap_or(0) + JULIAN_OF_1970_MS
    }
}
