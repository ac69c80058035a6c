// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs SQLite over openpath, because SQLite uses file locks harder than any other test here.
//!
//! [`Databases`] is a tree in which SQLite keeps its files. [`Databases::open`] opens a connection
//! that is to the tree what a process is to a kernel. It has a [`Task`] with a descriptor table of
//! its own, so its locks are its own and end when it closes any descriptor of the file. That task
//! makes all system calls of SQLite.
//!
//! The locks are those of SQLite's own VFS for Unix: see `file` for databases with a rollback
//! journal, and `shm` for those with a write-ahead log.
//!
//! # Rules
//! * R1. A connection stays on the thread that opened it, like its task.
//! * R2. Only `sys` handles C pointers; everything behind it is safe.
//! * R3. A [`Fault`] breaks one rule of locking on purpose: a test that passes with it proves
//!   nothing.
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
//! assert_eq!(vfs.locks().len(), 2, "it reads and has the reserved lock");
//! database.execute_batch("COMMIT")?;
//! assert_eq!(vfs.locks(), []);
//! # Ok::<(), rusqlite::Error>(())
//! ```

#![deny(unsafe_code)]

mod fault;
mod file;
mod lock_bytes;
mod shm;
#[expect(
    unsafe_code,
    reason = "the interface of C: the only file with `unsafe`"
)]
mod sys;
mod task_vfs;
mod wal_index;

pub use fault::Fault;

use openpath_abi::Errno;
use openpath_vfs::{Task, Vfs};
use rusqlite::{Connection, OpenFlags};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use task_vfs::TaskVfs;
use wal_index::Indices;

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

    /// Like [`Databases::new`], with a fault in every connection.
    #[must_use]
    pub fn with(vfs: Vfs, fault: Fault) -> Self {
        Self {
            vfs,
            indices: Arc::default(),
            fault,
        }
    }

    /// The instance that holds the tree.
    #[must_use]
    pub const fn vfs(&self) -> &Vfs {
        &self.vfs
    }

    /// Opens a connection to the database at `path`, and creates the database if it is missing.
    /// `task` makes all system calls of SQLite, with its own rights.
    ///
    /// # Errors
    /// Errors of SQLite; `SQLITE_CANTOPEN` if the task cannot open the file.
    pub fn open(&self, task: Task, path: &str) -> rusqlite::Result<Database> {
        let task_vfs = Rc::new(TaskVfs::new(task, Arc::clone(&self.indices), self.fault));
        let registered = sys::Registered::new(Rc::clone(&task_vfs))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags_and_vfs(path, flags, registered.name())?;
        Ok(Database {
            connection,
            task_vfs,
            _registered: registered,
        })
    }
}

/// A connection and its task.
///
/// The connection is only borrowed, so it cannot outlive this value.
pub struct Database {
    // Dropped before what it uses.
    connection: Connection,
    task_vfs: Rc<TaskVfs>,
    _registered: sys::Registered,
}

impl Database {
    /// The task that makes SQLite's system calls.
    #[must_use]
    pub fn task(&self) -> &Task {
        self.task_vfs.task()
    }

    /// The last errno of the tree, except for lock conflicts and missing names.
    #[must_use]
    pub fn last_errno(&self) -> Option<Errno> {
        self.task_vfs.last_errno()
    }
}

impl Deref for Database {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}
