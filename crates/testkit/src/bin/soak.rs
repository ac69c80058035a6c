// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs very many operations through rings and futures. Exit status 1 if one was lost or completed
//! twice, or if anything was left behind.

use std::process::ExitCode;

use clap::Parser;
use openpath_testkit::soak::{self, Plan};

/// Runs operations through rings and futures, with cancels, drops, time-outs and faults.
#[derive(Debug, Parser)]
struct Args {
    /// How many operations: submissions to rings and futures made, without polls.
    #[arg(long, default_value_t = 1_000_000)]
    ops: u64,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where to keep the files.
    #[arg(long, value_enum, default_value = "mem")]
    back: Back,
}

/// A backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Back {
    /// In memory.
    Mem,
    /// In a directory of the host.
    Host,
}

fn main() -> ExitCode {
    let Args { ops, seed, back } = Args::parse();
    let over_host = back == Back::Host;
    // A backend that panics is part of the soak.
    std::panic::set_hook(Box::new(|_| {}));
    let report = match soak::run(Plan {
        ops,
        seed,
        over_host,
    }) {
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
