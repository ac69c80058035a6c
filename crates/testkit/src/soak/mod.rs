// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs very many operations through rings and futures, with cancels, drops, time-outs and a
//! backend that stalls, fails and panics, and checks that every submission completes once and
//! nothing is left.

mod future;
mod ring;
mod wake_queue;
mod world;

use crate::rng::Rng;
use openpath_ring::{Pool, PoolOptions};
use std::time::Duration;
use world::World;

/// The parameters of a soak.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Operations in all: submissions to rings, and futures that were made.
    pub ops: u64,
    /// Seed of the random choices.
    pub seed: u64,
    /// Whether the files are in a directory of the host.
    pub over_host: bool,
}

/// The results of a soak.
#[derive(Debug, Default)]
pub struct Report {
    /// Operations that were submitted to rings.
    pub submitted: u64,
    /// Completions that were taken.
    pub completed: u64,
    /// Futures that were made.
    pub futures: u64,
    /// How often futures were polled.
    pub polls: u64,
    /// Rings and tasks that were dropped with calls in flight.
    pub dropped: u64,
    /// Operations that were cancelled, and those that failed otherwise.
    pub failed: [u64; 2],
    /// Faults.
    pub wrong: Vec<String>,
}

impl Report {
    fn note(&mut self, what: impl Into<String>) {
        if self.wrong.len() < 20 {
            self.wrong.push(what.into());
        }
    }
}

/// Runs a soak.
///
/// # Errors
/// Those of making the world.
pub fn run(plan: Plan) -> Result<Report, openpath_abi::Errno> {
    let mut rng = Rng::new(plan.seed);
    let mut report = Report::default();
    let world = World::new(plan.seed, plan.over_host)?;
    let mut options = PoolOptions::default();
    options.threads_max = 6;
    options.idle = Duration::from_millis(20);
    options.shutdown_timeout = Duration::from_secs(60);
    let pool = Pool::new(options);
    while report.submitted + report.futures < plan.ops && report.wrong.is_empty() {
        if rng.one_in(4) {
            future::round(&world, &pool, &mut rng, &mut report)?;
        } else {
            ring::round(&world, &pool, &mut rng, &mut report)?;
        }
    }
    drop(pool);
    world.check(&mut report)?;
    Ok(report)
}
