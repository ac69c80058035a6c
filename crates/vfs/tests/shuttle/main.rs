// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the whole core under a scheduler that chooses the interleaving: tasks that share a table,
//! names, mounts, locks, leases and FIFOs, and rings with their workers.
//!
//! `cargo xtask shuttle`. Every test runs its scenario many times, first with random switches, then
//! by probabilistic concurrency testing (PCT). One run of PCT with `k` points and `n` threads finds
//! a bug of depth `d` with a chance of at least 1 / (n k^(d-1)). With `--nocapture` each test
//! prints what its runs were worth.
//!
//! | variable | what it sets |
//! |---|---|
//! | `OPENPATH_SHUTTLE_RUNS` | runs of each test with each scheduler; 300 |
//! | `OPENPATH_SHUTTLE_DEPTH` | the depth of bugs that PCT looks for; 3 |
//! | `OPENPATH_SHUTTLE_MISS` | the chance of `sure` to miss a bug; else it runs like the others |
//! | `OPENPATH_SHUTTLE_REPLAY` | a file with the schedule that a failure printed; runs only that |
#![cfg(shuttle)]

mod backend;
mod faults;
mod history;
mod leases;
mod locks;
mod model;
mod names;
mod pipes;
mod races;
mod rings;
mod schedule;
mod sure;
mod table;

use schedule::{Counted, Seen};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use std::env;
use std::sync::Arc;

/// A number from the environment.
fn setting(name: &str, otherwise: usize) -> usize {
    env::var(name).map_or(otherwise, |text| text.parse().expect(name))
}

/// The runs of each scenario with each scheduler.
fn runs() -> usize {
    setting("OPENPATH_SHUTTLE_RUNS", 300)
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.silence_warnings = true;
    config
}

/// Runs a scenario with both schedulers, `weight` times as often as usual.
fn explore_often(weight: usize, scenario: fn()) {
    if let Ok(file) = env::var("OPENPATH_SHUTTLE_REPLAY") {
        let schedule = std::fs::read_to_string(file).expect("a schedule");
        return shuttle::replay(scenario, schedule.trim());
    }
    let runs = runs() * weight;
    let depth = setting("OPENPATH_SHUTTLE_DEPTH", 3);
    Runner::new(RandomScheduler::new(runs), config()).run(scenario);
    let seen = Arc::new(Seen::default());
    let pct = Counted::new(PctScheduler::new(depth, runs), &seen);
    Runner::new(pct, config()).run(scenario);
    seen.report(runs);
}

/// Runs a scenario with PCT until the chance to miss a bug is at most the requested one, for the
/// most threads and points seen in any run.
fn explore_surely(scenario: fn()) {
    let Ok(chance) = env::var("OPENPATH_SHUTTLE_MISS") else {
        return explore(scenario);
    };
    let chance: f64 = chance.parse().expect("OPENPATH_SHUTTLE_MISS");
    let depth = setting("OPENPATH_SHUTTLE_DEPTH", 3);
    let seen = Arc::new(Seen::default());
    let (mut done, mut wanted) = (0, runs());
    while done < wanted {
        let runs = wanted - done;
        let seed = 0x5eed + done as u64;
        let pct = Counted::new(PctScheduler::new_from_seed(seed, depth, runs), &seen);
        Runner::new(pct, config()).run(scenario);
        done = wanted;
        wanted = wanted.max(seen.needed(depth as i32, chance));
    }
    seen.report(done);
}

/// Runs a scenario with both schedulers.
fn explore(scenario: fn()) {
    explore_often(1, scenario);
}

/// Starts a thread of the scenario.
fn spawn<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> shuttle::thread::JoinHandle<T> {
    shuttle::thread::spawn(body)
}

/// Waits for a thread, which must not have panicked.
fn join<T>(thread: shuttle::thread::JoinHandle<T>) -> T {
    thread.join().expect("a thread panicked")
}
