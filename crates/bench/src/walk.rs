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

use std::ffi::CStr;

use openpath_abi::fcntl::O_RDONLY;

use crate::calls::{Calls, wrong_of};
use crate::cmd::{Ask, at_least_one};
use crate::error::Error;
use crate::harness::Plan;
use crate::host::Host;
use crate::paths::Chain;
use crate::row::Row;
use crate::scene::nothing_shared;
use crate::threads::ready;
use crate::{ours, sys};

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
    const FILE: &CStr = c"/several/threads/open/this/same-file";
    if sys::processors().len() < 2 {
        return Ok(vec![Row::missing(NAME, "only one processor")]);
    }
    let vfs = ours::instance()?;
    ours::task(&vfs)?.grow(&[Chain::of(FILE)])?;
    let make = |repeats: u64| {
        let task = ours::task(&vfs)?;
        Ok::<_, Error>(ready(move |ops| {
            wrong_of(ops * repeats, || task.open_close(FILE, O_RDONLY))
        }))
    };
    let mut plan = Plan::default();
    let same = vec![make(1)?, make(ask.repeats())?];
    let same = plan.threads(NAME, same, &[1, 2]);
    plan.row(Row::faster, NAME, same[1], "one thread", same[0]);
    nothing_shared(&mut plan, "two-threads nothing-shared", FILE)?;
    plan.run(ask)
}
