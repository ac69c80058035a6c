// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the tables of the stress test's database, and checks their invariants at the end.

use openpath_testkit_sqlite::Database;
use rusqlite::Result;
use std::time::Duration;

/// Rows between which amounts move, on several pages.
pub(crate) const ACCOUNTS: u64 = 64;
/// The initial amount of each row.
pub(crate) const AMOUNT: i64 = 1000;
/// The most long values.
pub(crate) const BLOBS: u64 = 16;

/// Creates the tables.
pub(crate) fn make(database: &Database, journal: &str, writers: usize) -> Result<()> {
    // With `FULL`, the file shrinks whenever rows are deleted.
    database.execute_batch("PRAGMA auto_vacuum = FULL")?;
    let set = format!("PRAGMA journal_mode = {journal}");
    let is: String = database.query_row(&set, [], |row| row.get(0))?;
    assert_eq!(is, journal);
    database.execute_batch(
        "BEGIN;
         CREATE TABLE account(id INTEGER PRIMARY KEY, amount INTEGER NOT NULL, pad BLOB);
         CREATE TABLE count(id INTEGER PRIMARY KEY, n INTEGER NOT NULL);
         CREATE TABLE blob(id INTEGER PRIMARY KEY, body BLOB NOT NULL);",
    )?;
    for id in 0..ACCOUNTS {
        let row = "INSERT INTO account VALUES(?, ?, zeroblob(500))";
        database.execute(row, (id.cast_signed(), AMOUNT))?;
    }
    for id in 0..=writers {
        database.execute("INSERT INTO count VALUES(?, 0)", [id.cast_signed() as i64])?;
    }
    database.execute_batch("COMMIT")
}

/// Configures a connection, with a page cache so small that it reads and writes the file.
///
/// # Errors
/// A lock refuses it: it reads the schema.
pub(crate) fn set_up(database: &Database, patience: Duration) -> Result<()> {
    database.busy_timeout(patience)?;
    database.execute_batch("PRAGMA cache_size = 10; PRAGMA wal_autocheckpoint = 50")
}

/// The sum of all amounts, which never changes.
pub(crate) const fn sum() -> i64 {
    ACCOUNTS.cast_signed() * AMOUNT
}

/// The first problem that SQLite's integrity check reports.
pub(crate) fn integrity(database: &Database) -> Result<Option<String>> {
    let said: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
    Ok((said != "ok").then_some(said))
}

/// Checks the invariants when all connections are done.
pub(crate) fn ended(database: &Database, commits: u64) -> Result<(), String> {
    let text = |error: rusqlite::Error| error.to_string();
    if let Some(said) = integrity(database).map_err(text)? {
        return Err(format!("integrity: {said}"));
    }
    let counted: i64 = database
        .query_row("SELECT n FROM count WHERE id = 0", [], |row| row.get(0))
        .map_err(text)?;
    if counted != commits.cast_signed() {
        return Err(format!("{commits} commits, but the count is {counted}"));
    }
    Ok(())
}
