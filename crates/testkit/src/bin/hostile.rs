// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hostile guest. Exit status 1 if a bound did not hold.

use std::process::ExitCode;

use clap::Parser;
use openpath_testkit::hostile::{self, Plan};

/// Lets a guest use up and hold up what it can, and checks that it cannot.
#[derive(Debug, Parser)]
struct Args {
    /// Names that do not exist, in all; 100000000 is the promise.
    #[arg(long, default_value_t = 1_000_000)]
    names: u64,
    /// A million entries, levels and more, instead of a hundredth of that.
    #[arg(long)]
    full: bool,
    /// Only attacks with this in their name.
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
