// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the attacks of a hostile guest, which tries to exhaust memory and limits. Exit status 1 if
//! a bound did not hold.

use std::process::ExitCode;

use clap::Parser;
use openpath_testkit::hostile::{self, Plan};

/// Lets a guest exhaust and block what it can, and checks the bounds.
#[derive(Debug, Parser)]
struct Args {
    /// How many names that do not exist to ask for; the promise is 100000000.
    #[arg(long, default_value_t = 1_000_000)]
    names: u64,
    /// Use full sizes (a million entries, levels and more) instead of a hundredth.
    #[arg(long)]
    full: bool,
    /// Run only attacks with this in their name.
    #[arg(long)]
    only: Option<String>,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let plan = Plan {
        names: args.names,
        full: args.full,
        seed: args.seed,
        only: args.only,
        say: |line| println!("{line}"),
    };
    let wrong = hostile::run(&plan);
    for line in &wrong {
        println!("WRONG: {line}");
    }
    println!("hostile guest: {} bounds broken", wrong.len());
    ExitCode::from(u8::from(!wrong.is_empty()))
}
