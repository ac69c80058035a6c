// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath-bench one`: what `counts` starts under a counter.

use crate::gate::case::Case;
use crate::one::{How, One};
use crate::{Error, Plant};
use clap::ValueEnum;

use super::Outcome;

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
