// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads rows, and writes rows that depend on them.

use crate::schema::{ACCOUNTS, BLOBS};
use crate::{Chance, Done, Run, Stop};
use openpath_testkit_sqlite::Database;
use rusqlite::{Connection, Result};

/// Writes as `number` until the end.
pub(crate) fn run(run: &Run, database: &Database, number: usize, mut chance: Chance) -> Done {
    let own = number.cast_signed() as i64 + 1;
    run.again_and_again(database, |done| {
        if chance.one_in(50) {
            // A reader is always active, so without this wait the log would never restart. Without
            // a log it does nothing.
            database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        }
        let begin = match chance.below(8) {
            // A transaction that begins this way may be refused when it first writes.
            0 | 1 => "BEGIN DEFERRED",
            2 => "BEGIN EXCLUSIVE",
            _ => "BEGIN IMMEDIATE",
        };
        database.execute_batch(begin)?;
        change(database, own, &mut chance)?;
        if chance.one_in(6) {
            // Half of a change: no other connection may see it.
            database.execute("UPDATE account SET amount = amount + 1", [])?;
            database.execute_batch("ROLLBACK")?;
            done.rollbacks += 1;
        } else {
            commit(database)?;
            done.commits += 1;
        }
        Ok(())
    })
}

/// Ends a transaction, for which readers have to finish.
fn commit(database: &Connection) -> Result<(), Stop> {
    match database.execute_batch("COMMIT") {
        // The transaction is still open: a refusal comes before any change.
        Err(error) if !database.is_autocommit() => Err(error.into()),
        Err(error) => Err(Stop::Wrong(format!("half a commit: {error}"))),
        Ok(()) => Ok(()),
    }
}

fn change(database: &Connection, own: i64, chance: &mut Chance) -> Result<()> {
    for id in [0, own] {
        let select = "SELECT n FROM count WHERE id = ?";
        let n: i64 = database.query_row(select, [id], |row| row.get(0))?;
        database.execute("UPDATE count SET n = ? WHERE id = ?", (n + 1, id))?;
    }
    for _ in 0..=chance.below(6) {
        let amount = chance.below(100).cast_signed();
        for by in [amount, -amount] {
            let id = chance.below(ACCOUNTS).cast_signed();
            let select = "SELECT amount FROM account WHERE id = ?";
            let is: i64 = database.query_row(select, [id], |row| row.get(0))?;
            let set = "UPDATE account SET amount = ? WHERE id = ?";
            database.execute(set, (is + by, id))?;
        }
    }
    let id = chance.below(BLOBS).cast_signed();
    match chance.below(6) {
        0 => {
            database.execute("DELETE FROM blob WHERE id = ?", [id])?;
        }
        1 => {
            let len = 1 + chance.below(20_000);
            let byte = u8::try_from(chance.below(256)).unwrap_or(0);
            let body = vec![byte; usize::try_from(len).unwrap_or(1)];
            let row = "INSERT OR REPLACE INTO blob VALUES(?, ?)";
            database.execute(row, (id, body))?;
        }
        _ => {}
    }
    Ok(())
}
