// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath bench`: rows of the performance contract, as a table or as JSON.

use crate::console;
use std::io::{self, Write};
use std::time::Duration;

use clap::Subcommand;
use openpath_bench::harness::Effort;
use openpath_bench::row::{Row, shortfalls, write_json, write_table};
use openpath_bench::{Error, Plant, counts, walk};

use super::bench_run::{self, Run};
use super::bench_seeds::{self, CreateExisting, FailedOpen, Many, SameFile, Timed};
use super::bench_tenants::{self, Tenants};
#[cfg(feature = "wasi")]
use super::bench_wasi::{self, Wasi};
use crate::Outcome;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
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
    let _ = writeln!(io::stderr(), "openpath: measuring {what}");
}

pub(crate) fn at_least_one(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|&n| n > 0)
        .ok_or_else(|| "a number above 0 is needed".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    match &args.what {
        What::Walk(walk) => report(&walk.common, &walk::run(&options(walk))?),
        What::Counts(common) => {
            let exe = std::env::current_exe().map_err(|e| Error::host("find this program", e))?;
            let (filter, plant) = (common.filter.clone(), common.plant);
            report(
                common,
                &counts::run(&counts::Options { exe, filter, plant })?,
            )
        }
        What::FailedOpen(args) => report(&args.timed.common, &bench_seeds::failed_open(args)?),
        What::SameFile(args) => report(&args.timed.common, &bench_seeds::same_file(args)?),
        What::CreateExisting(args) => {
            report(&args.timed.common, &bench_seeds::create_existing(args)?)
        }
        What::Cached(args) => report(&args.common, &bench_seeds::cached(args)?),
        What::Shapes(args) => report(&args.common, &bench_seeds::shapes(args)?),
        What::Run(args) => report(&args.common, &bench_run::run(args)?),
        What::Fd(args) => report(&args.common, &bench_seeds::fd(args)?),
        What::Tenants(args) => bench_tenants::run(args),
        What::Many(args) => report(&args.timed.common, &bench_seeds::many(args)?),
        #[cfg(feature = "wasi")]
        What::Wasi(args) => report(&args.timed.common, &bench_wasi::run(args)?),
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
    console::warn(&format!(
        "openpath: {} of {} rows fail: {}",
        short.len(),
        rows.len(),
        names.join(", ")
    ));
    Ok(Outcome::Shortfall)
}
