// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath bench-one`: what `bench counts` starts under a counter.

use clap::ValueEnum;
use openpath_bench::gate::case::Case;
use openpath_bench::one::{How, One};
use openpath_bench::{Error, Plant};

use crate::Outcome;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The operation and its depth, as in "open-close d16".
    case: String,
    /// How many to run.
    #[arg(long, default_value_t = 1000)]
    ops: u64,
    /// Under what.
    #[arg(long, value_enum, default_value_t = Under::Plain)]
    how: Under,
    /// Commit this fault with every operation.
    #[arg(long)]
    plant: Option<Plant>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Under {
    Plain,
    Traced,
    Sealed,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    let how = match args.how {
        Under::Plain => How::Plain,
        Under::Traced => How::Traced,
        Under::Sealed => How::Sealed,
    };
    let case = Case::parse(&args.case)?;
    let plant = args.plant;
    One { case, plant }.run(args.ops, how)?;
    Ok(Outcome::Done)
}
