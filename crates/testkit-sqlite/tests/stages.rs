// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that SQLite over openpath's locks holds, at each step of a transaction, the byte locks
//! that its protocol names, and that closes and dropped connections release them.

mod common;

use common::{PATH, databases, open};
use openpath_abi::fcntl::O_RDWR;
use openpath_testkit_sqlite::{Database, Databases, Fault};
use rusqlite::ErrorCode;

/// The locks: owner, `r` or `w`, first and last byte relative to the first byte that SQLite locks.
fn locks(databases: &Databases) -> Vec<String> {
    const FIRST: i64 = 0x4000_0000;
    let line = |lock: openpath_vfs::LockInfo| {
        let kind = match lock.kind {
            openpath_vfs::LockKind::Read => 'r',
            openpath_vfs::LockKind::Write => 'w',
        };
        let end = lock.end.expect("the lock has no end") - FIRST;
        format!("{} {kind} {}-{end}", lock.pid, lock.start - FIRST)
    };
    let mut all: Vec<_> = databases.vfs().locks().into_iter().map(line).collect();
    all.sort();
    all
}

fn run(database: &Database, sql: &str) {
    database.execute_batch(sql).expect(sql);
}

fn is_busy(database: &Database, sql: &str) -> bool {
    match database.execute_batch(sql) {
        Ok(()) => false,
        Err(error) => {
            let code = error.sqlite_error_code();
            assert_eq!(code, Some(ErrorCode::DatabaseBusy), "{sql}: {error}");
            true
        }
    }
}

/// Two connections to a table with one row.
fn two(journal: &str) -> (Databases, Database, Database) {
    let databases = databases(Fault::None);
    let (a, b) = (open(&databases, 1), open(&databases, 2));
    let mode: String = a
        .query_row(&format!("PRAGMA journal_mode={journal}"), [], |row| {
            row.get(0)
        })
        .expect("a mode");
    assert_eq!(mode, journal);
    run(&a, "CREATE TABLE t(x); INSERT INTO t VALUES(1)");
    (databases, a, b)
}

#[test]
fn each_step_locks_what_the_protocol_says() {
    let (databases, a, b) = two("delete");
    assert_eq!(locks(&databases), [""; 0]);
    run(&a, "BEGIN; SELECT x FROM t");
    assert_eq!(locks(&databases), ["1 r 2-511"]);
    run(&b, "BEGIN IMMEDIATE");
    let both = ["1 r 2-511", "2 r 2-511", "2 w 1-1"];
    assert_eq!(locks(&databases), both, "a writer keeps its read lock");
    assert!(
        is_busy(&a, "UPDATE t SET x = 2"),
        "two connections have the reserved lock"
    );
    run(&b, "UPDATE t SET x = 3");
    assert!(is_busy(&b, "COMMIT"), "committed beside a reader");
    let waits = ["1 r 2-511", "2 r 2-511", "2 w 0-1"];
    assert_eq!(
        locks(&databases),
        waits,
        "a pending writer holds the pending byte"
    );
    let c = open(&databases, 3);
    assert!(
        is_busy(&c, "SELECT x FROM t"),
        "a reader passed a waiting writer"
    );
    run(&a, "COMMIT");
    run(&b, "COMMIT");
    assert_eq!(locks(&databases), [""; 0]);
    run(&a, "BEGIN EXCLUSIVE");
    assert_eq!(locks(&databases), ["1 w 0-511"]);
    assert!(is_busy(&c, "SELECT x FROM t"));
    run(&a, "ROLLBACK");
    assert_eq!(locks(&databases), [""; 0]);
}

#[test]
fn any_close_of_the_file_releases_its_locks() {
    let (databases, a, b) = two("delete");
    run(&a, "BEGIN IMMEDIATE");
    assert!(is_busy(&b, "BEGIN IMMEDIATE"));
    let again = a.task().open(PATH.as_bytes(), O_RDWR, 0).expect("a file");
    assert_eq!(locks(&databases).len(), 2);
    a.task().close(again).expect("closed");
    assert_eq!(
        locks(&databases),
        [""; 0],
        "the other descriptor kept the locks"
    );
    run(&b, "BEGIN IMMEDIATE; ROLLBACK");
}

#[test]
fn a_connection_dropped_in_a_transaction_leaves_no_lock_and_no_change() {
    for journal in ["delete", "truncate", "persist", "wal"] {
        let (databases, a, b) = two(journal);
        run(
            &a,
            "PRAGMA cache_size = 2; BEGIN IMMEDIATE; UPDATE t SET x = 2",
        );
        drop(a);
        let x: i64 = b
            .query_row("SELECT x FROM t", [], |row| row.get(0))
            .expect("a row");
        assert_eq!(x, 1, "{journal}");
        drop(b);
        assert!(databases.vfs().locks().is_empty(), "{journal}");
    }
}

#[test]
fn the_log_is_shared_and_removed_with_the_last_connection() {
    let (databases, a, b) = two("wal");
    let task = databases
        .vfs()
        .task(openpath_vfs::Cred::root())
        .expect("a task");
    run(&a, "BEGIN; SELECT x FROM t");
    run(&b, "BEGIN IMMEDIATE; UPDATE t SET x = 2");
    assert!(is_busy(&open(&databases, 3), "BEGIN IMMEDIATE"));
    run(&b, "COMMIT");
    let x = |database: &Database| -> i64 {
        let row = database.query_row("SELECT x FROM t", [], |row| row.get(0));
        row.expect("a row")
    };
    assert_eq!((x(&a), x(&b)), (1, 2), "a reader keeps its snapshot");
    assert!(task.stat(b"/db-wal").is_ok() && task.stat(b"/db-shm").is_ok());
    drop((a, b));
    let left = [task.stat(b"/db-wal"), task.stat(b"/db-shm")];
    assert!(left.iter().all(Result::is_err), "{left:?}");
    assert!(databases.vfs().locks().is_empty());
}
