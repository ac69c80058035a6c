// SPDX-License-Identifier: MIT OR Apache-2.0
//! The soak: very many operations through rings and futures. Exit status 1 if anything was wrong.

use std::process::ExitCode;

use clap::Parser;
use openpath_testkit::soak::{self, Plan};

/// Passes operations through rings and futures, with cancels, drops, time-outs and faults.
#[derive(Debug, Parser)]
struct Args {
    /// How many: submissions to rings and futures made, not polls of them.
    #[arg(long, default_value_t = 1_000_000)]
    ops: u64,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let Args { ops, seed } = Args::parse();
    // A backend that breaks is part of it.
    std::panic::set_hook(Box::new(|_| {}));
    let report = match soak::run(Plan { ops, seed }) {
        Ok(report) => report,
        Err(errno) => {
            eprintln!("soak: {errno}");
            return ExitCode::from(2);
        }
    };
    println!("submitted to rings: {}", report.submitted);
    println!("futures made:       {}", report.futures);
    println!("polls of them:      {}", report.polls);
    println!("completed:          {}", report.completed);
    println!(
        "cancelled, failed:  {}, {}",
        report.failed[0], report.failed[1]
    );
    println!("dropped in between: {}", report.dropped);
    for wrong in &report.wrong {
        println!("WRONG: {wrong}");
    }
    ExitCode::from(u8::from(!report.wrong.is_empty()))
}
