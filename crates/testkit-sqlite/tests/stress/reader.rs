// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a reader of the stress test, which reads the tables in one transaction after another and
//! fails on values that are not consistent.

use crate::schema::{integrity, sum};
use crate::{Done, Random, Run, Stop};
use openpath_testkit_sqlite::Database;
use rusqlite::Connection;

/// Reads until the end.
pub(crate) fn run(run: &Run, database: &Database, mut random: Random) -> Done {
    let mut seen = 0;
    run.repeat(database, |done| {
        if random.one_in(50) {
            if let Some(said) = integrity(database)? {
                return Err(Stop::Wrong(format!("integrity: {said}")));
            }
            done.checks += 1;
        }
        database.execute_batch("BEGIN")?;
        let n = counts(database)?;
        if n < seen {
            return Err(Stop::Wrong(format!("the count fell from {seen} to {n}")));
        }
        seen = n;
        amounts(database)?;
        blobs(database)?;
        let later = counts(database)?;
        if later != n {
            return Err(Stop::Wrong(format!(
                "the count changed from {n} to {later} in one transaction"
            )));
        }
        database.execute_batch("COMMIT")?;
        done.reads += 1;
        Ok(())
    })
}

/// The total count, which must be the sum of the writers' counts.
fn counts(database: &Connection) -> Result<i64, Stop> {
    let select = "SELECT (SELECT n FROM count WHERE id = 0), sum(n) FROM count WHERE id > 0";
    let (all, each): (i64, i64) =
        database.query_row(select, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if all == each {
        Ok(all)
    } else {
        Err(Stop::Wrong(format!("{all} in all, {each} by each")))
    }
}

fn amounts(database: &Connection) -> Result<(), Stop> {
    let is: i64 = database.query_row("SELECT sum(amount) FROM account", [], |row| row.get(0))?;
    if is == sum() {
        Ok(())
    } else {
        Err(Stop::Wrong(format!("the sum is {is}, not {}", sum())))
    }
}

fn blobs(database: &Connection) -> Result<(), Stop> {
    let mut select = database.prepare("SELECT body FROM blob")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let body: Vec<u8> = row.get(0)?;
        if body.iter().any(|byte| *byte != body[0]) {
            return Err(Stop::Wrong("a value mixes two bytes".to_owned()));
        }
    }
    Ok(())
}
