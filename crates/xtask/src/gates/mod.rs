// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks, by counts and never by time, that cached calls make no shared writes and no allocations,
//! and keep their budgets of instructions.
//!
//! | gate | requires | how |
//! |---|---|---|
//! | `arena` | no store to shared memory | that memory is read-only meanwhile |
//! | `lines` | no cache line written by one task and accessed by another | a trace of memory |
//! | `allocations` | no heap allocation | a counting allocator |
//! | `instructions` | at most 1 % more than the budget | callgrind |
//! | `locked` | no locked instruction more than the budget | single steps |
//!
//! `docs/GATES.md` says what each proves and what it does not see. The `openpath-bench` program
//! makes the calls; the checks are here.

mod budget;
mod counts;
mod lines;
mod list;
mod plant;
mod symbols;
mod trace;

pub use plant::{PLANTS, Planted};

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// A gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// No store to shared memory.
    Arena,
    /// No conflicting cache line.
    Lines,
    /// No allocation.
    Allocations,
    /// Instructions within the budget.
    Instructions,
    /// Locked instructions within the budget.
    Locked,
}

impl Gate {
    /// All gates; those that take long first.
    pub const ALL: [Gate; 5] = [
        Gate::Lines,
        Gate::Arena,
        Gate::Locked,
        Gate::Instructions,
        Gate::Allocations,
    ];

    /// Its name for `--only`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Gate::Arena => "arena",
            Gate::Lines => "lines",
            Gate::Allocations => "allocations",
            Gate::Instructions => "instructions",
            Gate::Locked => "locked",
        }
    }
}

/// How to run the gates.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The `openpath-bench` program.
    pub program: PathBuf,
    /// The folder of the budgets.
    pub budgets: PathBuf,
    /// A fault to plant, and the rows that show it.
    pub plant: Option<&'static Planted>,
    /// Rewrite the budgets.
    pub update: bool,
}

/// The result of a gate.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which gate.
    pub gate: Gate,
    /// How much was checked.
    pub checked: String,
    /// Why it is red; green if empty.
    pub failures: Vec<String>,
    /// Further remarks.
    pub notes: Vec<String>,
}

impl Report {
    fn new(gate: Gate) -> Self {
        Self {
            gate,
            checked: String::new(),
            failures: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Whether it is green.
    #[must_use]
    pub fn green(&self) -> bool {
        self.failures.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.green() { "green" } else { "RED" };
        write!(f, "{:13} {state:6} {}", self.gate.name(), self.checked)?;
        for failure in &self.failures {
            write!(f, "\n  {failure}")?;
        }
        for note in &self.notes {
            write!(f, "\n  note: {note}")?;
        }
        Ok(())
    }
}

/// Runs one gate.
///
/// # Errors
/// If a program cannot be run, or a budget cannot be read or written.
pub fn run(gate: Gate, plan: &Plan) -> io::Result<Report> {
    match gate {
        Gate::Arena => counts::zero(gate, "shared-stores", plan),
        Gate::Allocations => counts::zero(gate, "allocations", plan),
        Gate::Instructions => counts::budgeted(gate, "instructions", plan),
        Gate::Locked => counts::budgeted(gate, "locked", plan),
        Gate::Lines => lines::run(plan),
    }
}

/// Runs the jobs on as many threads as there are processors; returns the results in the jobs'
/// order.
pub fn in_parallel<J: Sync, T: Send>(jobs: &[J], work: impl Fn(&J) -> T + Sync) -> Vec<T> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let left = Mutex::new(jobs.iter().enumerate());
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..workers.min(jobs.len()) {
            scope.spawn(|| {
                while let Some((at, job)) = locked(&left).next() {
                    let answer = work(job);
                    locked(&done).push((at, answer));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, answer)| answer).collect()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An error that names the program that could not be run.
fn cannot_run(program: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", program.display()))
}

#[cfg(test)]
mod tests {
    use super::in_parallel;

    #[test]
    fn results_keep_order_of_jobs() {
        let jobs: Vec<u32> = (0..50).collect();
        let doubled: Vec<u32> = jobs.iter().map(|job| 2 * job).collect();
        assert_eq!(in_parallel(&jobs, |job| 2 * job), doubled);
        assert!(in_parallel(&[0; 0], |job| *job).is_empty());
    }
}
