// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests SQLite databases in a tree in memory, with a planted fault if requested, and
//! connections to them, each of a task with its own process number.

#![allow(dead_code, reason = "each test uses a part")]

use openpath_mem::{MemFs, MemOptions};
use openpath_testkit_sqlite::{Database, Databases, Fault};
use openpath_vfs::{Cred, Vfs};
use std::time::Duration;

/// The database of a test.
pub(crate) const PATH: &str = "/db";

/// Databases in an empty tree.
pub(crate) fn databases(fault: Fault) -> Databases {
    let tree = MemFs::new(MemOptions::default());
    let vfs = Vfs::builder().build(tree).expect("an instance");
    Databases::with(vfs, fault)
}

/// A connection of process `pid`, which does not wait for locks.
pub(crate) fn open(databases: &Databases, pid: i32) -> Database {
    let task = databases.vfs().task(Cred::root()).expect("a task");
    task.set_pid(pid);
    let database = databases.open(task, PATH).expect("a connection");
    database.busy_timeout(Duration::ZERO).expect("a time");
    database
}
