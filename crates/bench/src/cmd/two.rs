// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath-bench two`: what `cargo xtask gates` starts under a tracer of memory.

use crate::gate::duel::{self, Options};
use crate::{Error, Plant};

use super::Outcome;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to put the marks that the tracer looks for.
    #[arg(long, default_value_t = 0x6f70_0000_0000)]
    marks: usize,
    /// Lay out memory another way.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tasks that live already.
    #[arg(long, default_value_t = 0)]
    tasks: usize,
    /// Let two other threads have tasks before, and end.
    #[arg(long)]
    reuse: bool,
    /// Let one thread make all tasks, side by side in one array.
    #[arg(long)]
    together: bool,
    /// Only pairs whose name contains NAME.
    #[arg(long, value_name = "NAME")]
    filter: Option<String>,
    /// Commit this fault with every operation.
    #[arg(long)]
    plant: Option<Plant>,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    let options = Options {
        marks: args.marks,
        seed: args.seed,
        tasks: args.tasks,
        reuse: args.reuse,
        together: args.together,
        filter: args.filter.clone(),
        plant: args.plant,
    };
    duel::run(&options, &mut std::io::stdout().lock())?;
    Ok(Outcome::Done)
}
