// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that many connections that write and read one database at once, in each journal mode, lose
//! no update, see no half of a transaction, stop for no minute (`STALL`), and leave no lock. Each
//! fault that is planted in the locks must make the test fail.
//!
//! # Invariants of the database
//! * `account`: amounts that move between rows. Their sum stays the same.
//! * `count`: one row for all, and one row for each writer, which reads and then increments them.
//!   The first row is the sum of the others, never decreases, and ends as the number of commits.
//! * `blob`: long values of one repeated byte, which come and go. None mixes two bytes.
//!
//! A transaction that is rolled back breaks all three before that, so that a reader of one sees it.

#[path = "../common/mod.rs"]
mod common;
mod reader;
mod schema;
mod writer;

use common::{databases, open};
use openpath_testkit_sqlite::{Database, Fault};
use openpath_vfs::Vfs;
use rusqlite::{Error, ErrorCode};
use std::ops::AddAssign;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// How long a connection retries a lock before it starts its transaction again, in SQLite's count;
/// real sleeps are shorter.
const PATIENCE: Duration = Duration::from_secs(40);
/// The longest time that a connection may be without a transaction.
const STALL: Duration = Duration::from_secs(60);
const WRITERS: usize = 4;
const READERS: usize = 4;
const JOURNALS: [&str; 4] = ["delete", "truncate", "persist", "wal"];

/// Counts of transactions.
#[derive(Clone, Copy, Default, Debug)]
struct Done {
    commits: u64,
    rollbacks: u64,
    reads: u64,
    checks: u64,
    /// Refused by a lock, and tried again.
    busy: u64,
}

impl AddAssign for Done {
    fn add_assign(&mut self, other: Self) {
        self.commits += other.commits;
        self.rollbacks += other.rollbacks;
        self.reads += other.reads;
        self.checks += other.checks;
        self.busy += other.busy;
    }
}

/// Why a transaction did not finish.
enum Stop {
    /// A lock is held elsewhere: try again. The error code of SQLite.
    Busy(i32),
    /// A failure of the test.
    Wrong(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error.sqlite_error() {
            Some(said) if said.code == ErrorCode::DatabaseBusy => Self::Busy(said.extended_code),
            _ => Self::Wrong(error.to_string()),
        }
    }
}

/// When to stop, and the failures so far.
struct Run {
    until: Instant,
    stall: Duration,
    vfs: Vfs,
    wrong: Mutex<Vec<String>>,
}

impl Run {
    fn goes_on(&self) -> bool {
        Instant::now() < self.until && self.wrong.lock().expect("a list").is_empty()
    }

    fn wrong(&self, text: String) {
        self.wrong.lock().expect("a list").push(text);
    }

    /// Describes a connection without progress, and the locks.
    fn stalled(&self, database: &Database, code: i32, time: Duration) -> String {
        let pid = database.task().pid();
        let locks = self.vfs.locks();
        let locks: Vec<_> = locks.iter().map(ToString::to_string).collect();
        format!("process {pid}: code {code} for {time:?}; {locks:#?}")
    }

    /// Runs transactions until the end. A refusal is no failure, but lack of progress is.
    fn repeat(
        &self,
        database: &Database,
        mut once: impl FnMut(&mut Done) -> Result<(), Stop>,
    ) -> Done {
        let mut done = Done::default();
        let mut last = Instant::now();
        while self.goes_on() {
            match once(&mut done) {
                Ok(()) => last = Instant::now(),
                Err(Stop::Busy(code)) => {
                    done.busy += 1;
                    if last.elapsed() > self.stall {
                        self.wrong(self.stalled(database, code, last.elapsed()));
                    }
                }
                Err(Stop::Wrong(text)) => {
                    let errno = database.last_errno();
                    self.wrong(format!(
                        "process {}: {text}, {errno:?}",
                        database.task().pid()
                    ));
                }
            }
            if !database.is_autocommit() && database.execute_batch("ROLLBACK").is_err() {
                self.wrong("the rollback failed".to_owned());
            }
        }
        done
    }
}

/// Random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// Runs all connections on one database, and checks the result.
fn stress(journal: &str, time: Duration, fault: Fault, seed: u64) -> Result<Done, Vec<String>> {
    let databases = databases(fault);
    // A lock that stays shows as a stall, so that fault needs a short patience; others show in the
    // data.
    let (patience, stall) = match fault {
        Fault::NoUnlock => (PATIENCE / 40, STALL / 20),
        _ => (PATIENCE, STALL),
    };
    let first = open(&databases, 1);
    schema::make(&first, journal, WRITERS).map_err(|error| vec![error.to_string()])?;
    let run = Run {
        until: Instant::now() + time,
        stall,
        vfs: databases.vfs().clone(),
        wrong: Mutex::default(),
    };
    let mut all = Done::default();
    thread::scope(|scope| {
        let start = |number: usize| {
            let (run, databases) = (&run, &databases);
            scope.spawn(move || {
                let pid = i32::try_from(number).expect("few") + 2;
                let database = open(databases, pid);
                while run.goes_on() && schema::set_up(&database, patience).is_err() {}
                let random = Random((seed << 8) + number as u64 + 1);
                if number < WRITERS {
                    writer::run(run, &database, number, random)
                } else {
                    reader::run(run, &database, random)
                }
            })
        };
        let threads: Vec<_> = (0..WRITERS + READERS).map(start).collect();
        for thread in threads {
            match thread.join() {
                Ok(done) => all += done,
                Err(panic) => resume_unwind(panic),
            }
        }
    });
    let mut wrong = run.wrong.into_inner().expect("a list");
    if wrong.is_empty()
        && let Err(text) = schema::ended(&first, all.commits)
    {
        wrong.push(text);
    }
    drop(first);
    let left = databases.vfs().locks();
    if !left.is_empty() {
        wrong.push(format!("locks left: {left:?}"));
    }
    // For another fault, this would not be its symptom.
    let is_told = matches!(fault, Fault::None | Fault::NoUnlock);
    if is_told && wrong.is_empty() && all.commits.min(all.rollbacks).min(all.reads) == 0 {
        wrong.push(format!("some kind of transaction never succeeded: {all:?}"));
    }
    if wrong.is_empty() {
        Ok(all)
    } else {
        Err(wrong)
    }
}

/// Runs every journal mode for this long, and prints the counts.
fn all(time: Duration, seed: u64) {
    for journal in JOURNALS {
        let done = stress(journal, time, Fault::None, seed);
        let done = done.unwrap_or_else(|wrong| panic!("{journal}, seed {seed}: {wrong:#?}"));
        eprintln!("{journal}, {time:?}: {done:?}");
    }
}

#[test]
fn no_update_is_lost_or_torn() {
    all(Duration::from_millis(2500), 1);
}

#[test]
fn a_planted_fault_in_the_locks_is_detected() {
    let faults = [
        (Fault::NoLocks, "delete", 30),
        (Fault::NoShared, "delete", 30),
        (Fault::NoReserved, "delete", 30),
        (Fault::NoLogWriter, "wal", 30),
        (Fault::NoUnlock, "delete", 3),
    ];
    for (fault, journal, seconds) in faults {
        let seen = stress(journal, Duration::from_secs(seconds), fault, 1);
        let wrong = seen.expect_err("the planted fault was not detected");
        eprintln!("{fault:?}: {}", wrong[0]);
    }
}

#[test]
#[ignore = "takes OPENPATH_SQLITE_SECONDS, 600 by default: cargo xtask sqlite"]
fn for_long() {
    let number = |name, usual| {
        let said = std::env::var(name).ok();
        said.map_or(usual, |text| text.parse::<u64>().expect(name))
    };
    let seconds = number("OPENPATH_SQLITE_SECONDS", 600);
    let seed = number("OPENPATH_SQLITE_SEED", 1);
    all(Duration::from_secs(seconds) / JOURNALS.len() as u32, seed);
}
