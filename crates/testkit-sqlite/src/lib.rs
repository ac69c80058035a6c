// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs SQLite over openpath, because it depends on file locks more than any test of ours.
//!
//! [`Databases`] is a tree in which SQLite keeps its files. [`Databases::open`] makes a connection
//! with a [`Task`] of its own, which is to the tree what a process is to a kernel. So the
//! connection has its own descriptor table and its own locks, and loses its locks on a file when it
//! closes any descriptor of it. Every system call that SQLite requests is made by that task.
//!
//! The locks are those of SQLite's own VFS for Unix: see `file` for databases with a rollback
//! journal, `shm` for those with a write-ahead log.
//!
//! # Rules
//! * R1. A connection stays on the thread that opened it, as its task does.
//! * R2. Only `sys` handles pointers of C; the code behind it is safe.
//! * R3. A [`Fault`] breaks one locking rule on purpose: a test that passes with it proves nothing.
//!
//! ```
//! use openpath_mem::{MemFs, MemOptions};
//! use openpath_testkit_sqlite::Databases;
//! use openpath_vfs::{Cred, Vfs};
//!
//! let vfs = Vfs::builder().build(MemFs::new(MemOptions::default())).expect("an instance");
//! let databases = Databases::new(vfs.clone());
//! let database = databases.open(vfs.task(Cred::root()).expect("a task"), "/db")?;
//! database.execute_batch("CREATE TABLE t(x); BEGIN IMMEDIATE; INSERT INTO t VALUES(1)")?;
//! assert_eq!(vfs.locks().len(), 2, "it reads, and is about to write");
//! database.execute_batch("COMMIT")?;
//! assert_eq!(vfs.locks(), []);
//! # Ok::<(), rusqlite::Error>(())
//! ```

#![deny(unsafe_code)]

mod fault;
mod file;
mod session;
mod shm;
#[expect(
    unsafe_code,
    reason = "the interface of C: the only file with `unsafe`"
)]
mod sys;

pub use fault::Fault;

use openpath_abi::Errno;
use openpath_vfs::{Task, Vfs};
use rusqlite::{Connection, OpenFlags};
use session::Session;
use shm::Indices;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

/// A tree in which SQLite keeps databases.
pub struct Databases {
    vfs: Vfs,
    indices: Arc<Indices>,
    fault: Fault,
}

impl Databases {
    /// Databases in the tree of `vfs`, with correct locks.
    #[must_use]
    pub fn new(vfs: Vfs) -> Self {
        Self::with(vfs, Fault::None)
    }

    /// As [`Databases::new`], with a fault in every connection.
    #[must_use]
    pub fn with(vfs: Vfs, fault: Fault) -> Self {
        Self {
            vfs,
            indices: Arc::default(),
            fault,
        }
    }

    /// The tree.
    #[must_use]
    pub const fn vfs(&self) -> &Vfs {
        &self.vfs
    }

    /// A connection to the database at `path`, which is made if it does not exist. `task` makes all
    /// calls that SQLite requests, with its rights.
    ///
    /// # Errors
    /// SQLite's error; `SQLITE_CANTOPEN` if the task cannot open the file.
    pub fn open(&self, task: Task, path: &str) -> rusqlite::Result<Database> {
        let session = Rc::new(Session::new(task, Arc::clone(&self.indices), self.fault));
        let registered = sys::Registered::new(Rc::clone(&session))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags_and_vfs(path, flags, registered.name())?;
        Ok(Database {
            connection,
            session,
            _registered: registered,
        })
    }
}

/// A connection, and its task.
///
/// A reference to the connection cannot outlive it: no caller can take the connection out and keep
/// it.
pub struct Database {
    // Closed before the fields below are dropped.
    connection: Connection,
    session: Rc<Session>,
    _registered: sys::Registered,
}

impl Database {
    /// The task that makes the calls that SQLite requests.
    #[must_use]
    pub fn task(&self) -> &Task {
        self.session.task()
    }

    /// The tree's last error, except refused locks and missing names.
    #[must_use]
    pub fn last_errno(&self) -> Option<Errno> {
        self.session.last_errno()
    }
}

impl Deref for Database {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}
