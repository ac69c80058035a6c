// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a writer of the stress test: each transaction reads the tables and writes what keeps their
//! invariants, then commits, or breaks an invariant and rolls back.

use crate::schema::{ACCOUNTS, BLOBS};
use crate::{Done, Random, Run, Stop};
use openpath_testkit_sqlite::Database;
use rusqlite::{Connection, Result};

/// Writes as `number` until the end.
pub(crate) fn run(run: &Run, database: &Database, number: usize, mut random: Random) -> Done {
    let own = number.cast_signed() as i64 + 1;
    run.repeat(database, |done| {
        if random.one_in(50) {
            // There is always a reader, so the log would never restart without a checkpoint that
            // waits for readers. Without a log, this does nothing.
            database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        }
        let begin = match random.below(8) {
            // A deferred transaction may be refused at its first write.
            0 | 1 => "BEGIN DEFERRED",
            2 => "BEGIN EXCLUSIVE",
            _ => "BEGIN IMMEDIATE",
        };
        database.execute_batch(begin)?;
        change(database, own, &mut random)?;
        if random.one_in(6) {
            // Half of a consistent change, which no reader may see.
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

/// Commits, which needs all readers to finish.
fn commit(database: &Connection) -> Result<(), Stop> {
    match database.execute_batch("COMMIT") {
        // The transaction is still open: the commit was refused before it began.
        Err(error) if !database.is_autocommit() => Err(error.into()),
        Err(error) => Err(Stop::Wrong(format!("half a commit: {error}"))),
        Ok(()) => Ok(()),
    }
}

fn change(database: &Connection, own: i64, random: &mut Random) -> Result<()> {
    for id in [0, own] {
        let select = "SELECT n FROM count WHERE id = ?";
        let n: i64 = database.query_row(select, [id], |row| row.get(0))?;
        database.execute("UPDATE count SET n = ? WHERE id = ?", (n + 1, id))?;
    }
    for _ in 0..=random.below(6) {
        let amount = random.below(100).cast_signed();
        for by in [amount, -amount] {
            let id = random.below(ACCOUNTS).cast_signed();
            let select = "SELECT amount FROM account WHERE id = ?";
            let is: i64 = database.query_row(select, [id], |row| row.get(0))?;
            let set = "UPDATE account SET amount = ? WHERE id = ?";
            database.execute(set, (is + by, id))?;
        }
    }
    let id = random.below(BLOBS).cast_signed();
    match random.below(6) {
        0 => {
            database.execute("DELETE FROM blob WHERE id = ?", [id])?;
        }
        1 => {
            let len = 1 + random.below(20_000);
            let byte = u8::try_from(random.below(256)).unwrap_or(0);
            let body = vec![byte; usize::try_from(len).unwrap_or(1)];
            let row = "INSERT OR REPLACE INTO blob VALUES(?, ?)";
            database.execute(row, (id, body))?;
        }
        _ => {}
    }
    Ok(())
}
