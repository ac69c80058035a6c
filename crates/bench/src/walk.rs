// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `walk`: the rows of the contract that are times.
//!
//! * `warm`: cached operations by depth, against the host's file systems;
//! * `cold`: opens in a tree so large that every component misses the processor's caches;
//! * two threads, each with its own task, on the same file;
//! * `writers`: a directory's rename and chmod, by the number of cached names below it.

mod cold;
mod warm;
mod writers;

use openpath_vfs::Task;

use crate::calls::Calls;
use crate::cmd::{Ask, at_least_one};
use crate::error::Error;
use crate::harness::Plan;
use crate::host::Host;
use crate::ops::Op;
use crate::paths::{Ring, chains, rotation};
use crate::row::Row;
use crate::threads::ready;
use crate::{SEED, ours, sys};

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) ask: Ask,
    /// Dentries of the cold and the big trees.
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = at_least_one)]
    dentries: usize,
}

/// Runs every wanted row.
pub(crate) fn run(options: &Options) -> Result<Vec<Row>, Error> {
    let mut host = Host::new()?;
    let mut rows = warm::rows(&options.ask, &host)?;
    rows.extend(cold::rows(options, &mut host)?);
    host.leave()?;
    rows.extend(two_threads(&options.ask)?);
    rows.extend(writers::rows(options)?);
    Ok(rows)
}

/// Two threads on the same file, and the same calls with a `Vfs` for each thread. Two processors of
/// one core need not be twice as fast at these calls, even if they are at adding numbers.
fn two_threads(ask: &Ask) -> Result<Vec<Row>, Error> {
    const NAME: &str = "two-threads same-file";
    const FLOOR: &str = "two-threads nothing-shared";
    const DEPTH: usize = 5;
    if sys::processors().len() < 2 {
        return Ok(vec![Row::missing(NAME, "only one processor")]);
    }
    let tree = chains(1, DEPTH, SEED);
    let (vfs, apart) = (ours::instance()?, ours::instance()?);
    for vfs in [&vfs, &apart] {
        ours::task(vfs)?.grow(&tree)?;
    }
    let paths = rotation(&tree, false);
    let make = |task: Task, repeats: u64| {
        let mut ring = Ring::new(&paths, 0);
        ready(move |ops| {
            let once = |_| Op::OpenClose.burst(&task, ops, &mut ring);
            (0..repeats).map(once).sum()
        })
    };
    let mut plan = Plan::default();
    let same = vec![
        make(ours::task(&vfs)?, 1),
        make(ours::task(&vfs)?, ask.repeats()),
    ];
    let same = plan.threads(NAME, same, &[1, 2]);
    plan.row(Row::faster, NAME, same[1], "one thread", same[0]);
    let floor = vec![make(ours::task(&vfs)?, 1), make(ours::task(&apart)?, 1)];
    let floor = plan.threads(FLOOR, floor, &[1, 2]);
    plan.row(Row::faster, FLOOR, floor[1], "one thread", floor[0])
        .note("each in a Vfs of its own: what this machine allows");
    plan.run(ask)
}
