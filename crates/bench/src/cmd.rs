// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the command line of `openpath-bench`, runs a command, and reports its rows.
//!
//! Exit status: 0 done; 1 a check found a shortfall; 2 it could not run.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::bars::Bar;
use crate::error::Error;
use crate::gate::{Plant, turns};
use crate::page::{self, Page};
use crate::row::{Row, shortfalls, write_json, write_table};
use crate::{cached, counts, create, failed, fd, many, one, programs, same, shapes, walk};

/// Measure openpath: times against the host kernel, or counts.
#[derive(Debug, Parser)]
#[command(name = "openpath-bench", version, arg_required_else_help = true)]
#[command(after_help = "Exit status: 0 done, 1 a check found a shortfall, 2 it could not be run.")]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Time cached and cold walks against the host kernel in the same run (root only).
    Walk(walk::Options),
    /// Count allocations, instructions, locked instructions and stores to shared memory.
    Counts(Common),
    /// Time opens that fail: one name over and over, and a C compilation (root only).
    FailedOpen(failed::Options),
    /// Time open and close of one file by several threads, or what locks cost (root only).
    SameFile(same::Options),
    /// Time opens with O_CREAT in many mounts under one root, and count their stores (root only).
    CreateExisting(create::Options),
    /// Time opens with a part of the names cached, inline and offloaded: ring, future, tokio,
    /// io_uring (root only).
    Cached(Ask),
    /// Time the shapes of will-it-scale and FxMark (root only).
    Shapes(Ask),
    /// Time descriptors by the number of open ones: the bitmaps, and dup and close against the
    /// host's.
    Fd(Ask),
    /// Time whole programs under `openpath run`, the bare system, fuse-overlayfs and proot (root
    /// only).
    Run(programs::Options),
    /// Measure a million descriptors in one table, and ten thousand tasks (root only).
    Many(many::Options),
    /// Time the calls of a WebAssembly guest against wasmtime's own WASI, and count the memory of
    /// ten thousand guests.
    #[cfg(feature = "wasi")]
    Wasi(crate::wasi::Options),
    /// Run one operation by itself, for a counter around it.
    #[command(hide = true)]
    One(one::Options),
    /// Run pairs of operations on two threads, for a tracer around them.
    #[command(hide = true)]
    Two(turns::Options),
    /// Run scripts from the standard input in one of the places that `run` compares.
    #[command(hide = true)]
    Worker(programs::Worker),
}

/// Options of every command with rows.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Common {
    /// Measure only rows with NAME in their name.
    #[arg(long, value_name = "NAME")]
    pub(crate) filter: Option<String>,
    /// Print one JSON object per row instead of the table.
    #[arg(long)]
    json: bool,
    /// Exit with 1 if a bar is missed or a row of the contract could not be measured.
    #[arg(long)]
    check: bool,
    /// Plant a fault that the check must find.
    #[arg(long, hide = true)]
    pub(crate) plant: Option<Plant>,
}

impl Common {
    /// Whether a row of this name is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|part| name.contains(part))
    }

    /// Removes the items without a wanted row, unless none has one: a filter may name a part that
    /// the rows add to the name of an item.
    pub(crate) fn narrow<T>(&self, items: &mut Vec<T>, name: impl Fn(&T) -> &str) {
        if items.iter().any(|item| self.wants(name(item))) {
            items.retain(|item| self.wants(name(item)));
        }
    }
}

/// Options of a command that measures times.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Ask {
    #[command(flatten)]
    pub(crate) common: Common,
    /// How many clean windows each variant needs.
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = at_least_one)]
    pub(crate) rounds: usize,
    /// Time limit of each group of rows that is measured together.
    #[arg(long, default_value_t = 30, value_name = "S")]
    pub(crate) seconds: u64,
    /// Write a page of results here.
    #[arg(long, value_name = "FILE")]
    pub(crate) page: Option<PathBuf>,
}

impl Ask {
    /// Whether a row of this name is wanted.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.common.wants(name)
    }

    /// Whether a row with one of these names is wanted.
    pub(crate) fn wants_any<T: AsRef<str>>(&self, names: &[T]) -> bool {
        names.iter().any(|name| self.wants(name.as_ref()))
    }

    /// The time limit of rows that are measured together.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// How often each of our bursts runs.
    pub(crate) fn repeats(&self) -> u64 {
        match self.common.plant {
            Some(Plant::Slow) => 64,
            _ => 1,
        }
    }

    /// The number of rounds of everything.
    #[cfg(test)]
    pub(crate) fn rounds(rounds: usize) -> Self {
        Self {
            common: Common::default(),
            rounds,
            seconds: 20,
            page: None,
        }
    }
}

/// Parses a number above 0.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|&n| n > 0);
    number.ok_or_else(|| "a number above 0 is needed".to_owned())
}

/// Writes a line to standard error, and ignores a failure to write.
pub(crate) fn warn(line: &str) {
    let _ = writeln!(io::stderr(), "openpath-bench: {line}");
}

/// Reports what is measured now.
pub(crate) fn tell(what: &str) {
    if !cfg!(test) {
        warn(&format!("measuring {what}"));
    }
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(why) => {
            // A failure to print is ignored.
            why.print().ok();
            return ExitCode::from(u8::try_from(why.exit_code()).unwrap_or(2));
        }
    };
    match run(&args.what) {
        Ok(passed) => ExitCode::from(u8::from(!passed)),
        Err(why) => {
            warn(&why.to_string());
            ExitCode::from(2)
        }
    }
}

/// Runs a command; returns whether its check passed.
fn run(what: &What) -> Result<bool, Error> {
    let load = page::load();
    let timed = |ask: &Ask, page, rows| report(&ask.common, (&ask.page, page, &load), rows);
    let of = Page::of;
    match what {
        What::Walk(it) => timed(&it.ask, of("walk"), walk::run(it)?),
        What::Counts(it) => report(it, (&None, of("counts"), &load), counts::run(it)?),
        What::FailedOpen(it) => timed(&it.ask, of("failed-open"), failed::run(it)?),
        What::SameFile(it) => timed(&it.ask, of(it.command()), same::run(it)?),
        What::CreateExisting(it) => timed(&it.ask, of("create-existing"), create::run(it)?),
        What::Cached(it) => timed(it, of("cached"), cached::run(it)?),
        What::Shapes(it) => timed(it, of("shapes"), shapes::run(it)?),
        What::Fd(it) => timed(it, fd::page(), fd::run(it)?),
        What::Run(it) => {
            let (rows, page) = (programs::run(it)?, it.page());
            report(&it.common, (&it.page, page, &load), rows)
        }
        What::Many(it) => timed(&it.ask, of("many"), many::run(it)?),
        #[cfg(feature = "wasi")]
        What::Wasi(it) => timed(&it.ask, it.page(), crate::wasi::run(it)?),
        What::One(it) => one::run(it).map(|()| true),
        What::Two(it) => turns::run(it, &mut io::stdout().lock()).map(|()| true),
        What::Worker(it) => Ok(programs::serve(it).map(|()| true)?),
    }
}

/// Writes the wanted rows, and those of the contract that were not measured; returns whether the
/// check passes. A page has a file if it is requested; `load` is the load average when the run
/// began.
fn report(
    common: &Common,
    (file, page, load): (&Option<PathBuf>, Page, &str),
    mut rows: Vec<Row>,
) -> Result<bool, Error> {
    for name in page.bars.iter().flat_map(Bar::names) {
        if Row::named(&rows, &name).is_none() {
            rows.push(Row::missing(&name, "nothing measures it"));
        }
    }
    rows.retain(|row| common.wants(&row.name));
    if rows.is_empty() {
        let name = common.filter.as_deref().unwrap_or_default();
        return Err(Error::Setup(format!("no row's name contains {name:?}")));
    }
    if let Some(file) = file {
        page.write(file, load, &rows)?;
    }
    let mut out = io::stdout().lock();
    match common.json {
        true => write_json(&mut out, &rows)?,
        false => write_table(&mut out, &rows)?,
    }
    out.flush()?;
    let short = shortfalls(&rows);
    if !common.check || short.is_empty() {
        return Ok(true);
    }
    let names: Vec<&str> = short.iter().map(|row| row.name.as_str()).collect();
    let (few, all) = (short.len(), rows.len());
    warn(&format!("{few} of {all} rows fail: {}", names.join(", ")));
    Ok(false)
}
