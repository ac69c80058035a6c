// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `openpath-bench`: rows of the performance contract, as a table or as JSON.
//!
//! Exit status: 0 done; 1 a check found a shortfall; 2 it could not be run.

mod one;
mod run;
mod tenants;
mod timed;
mod two;
#[cfg(feature = "wasi")]
mod wasi;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use crate::harness::Effort;
use crate::row::{Row, shortfalls, write_json, write_table};
use crate::{Error, Plant, counts, walk};
use clap::{Parser, Subcommand};

use self::run::{Run, Worker};
use self::tenants::Tenants;
use self::timed::{CreateExisting, FailedOpen, Many, SameFile, Timed};
#[cfg(feature = "wasi")]
use self::wasi::Wasi;

/// Measure openpath: times against the host kernel, or counts.
#[derive(Debug, Parser)]
#[command(name = "openpath-bench", version, arg_required_else_help = true)]
#[command(after_help = "Exit status: 0 done, 1 a check found a shortfall, 2 it could not be run.")]
struct Args {
    #[command(subcommand)]
    what: What,
}

/// How a command ended, unless it could not be run.
enum Outcome {
    Done,
    Shortfall,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Time cached and cold walks against the host kernel in the same run (root only).
    Walk(Walk),
    /// Count allocations, instructions, locked instructions and stores to shared memory.
    Counts(Common),
    /// Time opens that fail: one name over and over, and a C compilation (root only).
    FailedOpen(FailedOpen),
    /// Time open and close of one file by several threads, or what locks cost (root only).
    SameFile(SameFile),
    /// Time opens with O_CREAT in many mounts under one root, and count their stores (root only).
    CreateExisting(CreateExisting),
    /// Time opens of which a part is cached, in place and offloaded: ring, future, tokio, io_uring
    /// (root only).
    Cached(Timed),
    /// Time the shapes of will-it-scale and FxMark (root only).
    Shapes(Timed),
    /// Time descriptors by how many are open: the bitmaps, and dup and close against the host's.
    Fd(Timed),
    /// Time whole programs under `openpath run`, the bare system, fuse-overlayfs and proot (root
    /// only).
    Run(Run),
    /// Run two tenants, one of which floods the cache with names, and print what became of each.
    Tenants(Tenants),
    /// Measure a million descriptors in one table, and ten thousand tasks (root only).
    Many(Many),
    /// Time the calls of a WebAssembly guest against wasmtime's own WASI, and count what ten
    /// thousand guests take.
    #[cfg(feature = "wasi")]
    Wasi(Wasi),
    /// Run one operation by itself, for a counter around it.
    #[command(hide = true)]
    One(one::Args),
    /// Run pairs of operations on two threads, for a tracer around it.
    #[command(hide = true)]
    Two(two::Args),
    /// Run scripts from the standard input in one of the places that `run` compares.
    #[command(hide = true)]
    Worker(Worker),
}

#[derive(Debug, clap::Args)]
struct Walk {
    #[command(flatten)]
    common: Common,
    /// Clean windows wanted of each variant.
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = at_least_one)]
    rounds: u64,
    /// Time limit of each group of rows that is measured together.
    #[arg(long, default_value_t = 30, value_name = "S")]
    seconds: u64,
    /// Dentries of the cold and the big trees.
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = at_least_one)]
    dentries: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Only rows whose name contains NAME.
    #[arg(long, value_name = "NAME")]
    pub(crate) filter: Option<String>,
    /// One JSON object a row instead of the table.
    #[arg(long)]
    json: bool,
    /// Exit with 1 if a bar is missed or a row of the contract could not be measured.
    #[arg(long)]
    check: bool,
    /// With --check: let rows pass that this machine cannot measure.
    #[arg(long)]
    allow_missing: bool,
    /// Plant a fault that the check has to find.
    #[arg(long, hide = true)]
    pub(crate) plant: Option<Plant>,
}

/// Says what is measured now. Nobody may listen.
pub(crate) fn tell(what: &str) {
    warn(&format!("measuring {what}"));
}

pub(crate) fn at_least_one(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|&n| n > 0)
        .ok_or_else(|| "a number above 0 is needed".to_owned())
}

/// Writes a line to standard error, whether or not anything reads it.
fn warn(line: &str) {
    let _ = writeln!(io::stderr(), "openpath-bench: {line}");
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(why) => {
            // Whether or not it is read.
            why.print().ok();
            return ExitCode::from(u8::try_from(why.exit_code()).unwrap_or(2));
        }
    };
    match run(&args.what) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Shortfall) => ExitCode::from(1),
        Err(why) => {
            warn(&why.to_string());
            ExitCode::from(2)
        }
    }
}

fn run(what: &What) -> Result<Outcome, Error> {
    match what {
        What::Walk(walk) => report(&walk.common, &walk::run(&options(walk))?),
        What::Counts(common) => {
            let exe = std::env::current_exe().map_err(|e| Error::host("find this program", e))?;
            let (filter, plant) = (common.filter.clone(), common.plant);
            report(
                common,
                &counts::run(&counts::Options { exe, filter, plant })?,
            )
        }
        What::FailedOpen(args) => report(&args.timed.common, &timed::failed_open(args)?),
        What::SameFile(args) => report(&args.timed.common, &timed::same_file(args)?),
        What::CreateExisting(args) => report(&args.timed.common, &timed::create_existing(args)?),
        What::Cached(args) => report(&args.common, &timed::cached(args)?),
        What::Shapes(args) => report(&args.common, &timed::shapes(args)?),
        What::Run(args) => report(&args.common, &self::run::run(args)?),
        What::Fd(args) => report(&args.common, &timed::fd(args)?),
        What::Tenants(args) => tenants::run(args),
        What::Many(args) => report(&args.timed.common, &timed::many(args)?),
        #[cfg(feature = "wasi")]
        What::Wasi(args) => report(&args.timed.common, &self::wasi::run(args)?),
        What::One(args) => one::run(args),
        What::Two(args) => two::run(args),
        What::Worker(args) => self::run::work(args),
    }
}

fn options(walk: &Walk) -> walk::Options {
    let rounds = usize::try_from(walk.rounds).unwrap_or(usize::MAX);
    walk::Options {
        effort: Effort {
            rounds,
            time: Duration::from_secs(walk.seconds),
            tell,
        },
        filter: walk.common.filter.clone(),
        dentries: usize::try_from(walk.dentries).unwrap_or(usize::MAX),
        plant: walk.common.plant,
    }
}

fn report(common: &Common, rows: &[Row]) -> Result<Outcome, Error> {
    if rows.is_empty() {
        let name = common.filter.as_deref().unwrap_or_default();
        return Err(Error::Setup(format!("no row's name contains {name:?}")));
    }
    let mut out = io::stdout().lock();
    if common.json {
        write_json(&mut out, rows)?;
    } else {
        write_table(&mut out, rows)?;
    }
    out.flush()?;
    let short = shortfalls(rows, common.allow_missing);
    if !common.check || short.is_empty() {
        return Ok(Outcome::Done);
    }
    let names: Vec<&str> = short.iter().map(|row| row.name.as_str()).collect();
    warn(&format!(
        "{} of {} rows fail: {}",
        short.len(),
        rows.len(),
        names.join(", ")
    ));
    Ok(Outcome::Shortfall)
}
