// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stress of a mount. Exit status 1 if anything was wrong.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use openpath_testkit::stress::{self, Plan};

/// Lets many processes do the same to a mount and to a folder that is trusted, and compares.
#[derive(Debug, Parser)]
struct Args {
    /// A folder of the mount.
    #[arg(long, value_name = "DIR")]
    on: PathBuf,
    /// A folder of a file system that is trusted.
    #[arg(long, value_name = "DIR")]
    beside: PathBuf,
    /// How many processes.
    #[arg(long, default_value_t = 16)]
    processes: u64,
    /// How long.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Be this one of them.
    #[arg(long, hide = true)]
    process: Option<u64>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let plan = Plan {
        on: args.on,
        beside: args.beside,
        time: Duration::from_secs(args.seconds),
        seed: args.seed,
    };
    let done = match args.process {
        Some(number) => stress::one(&plan, number),
        None => stress::all(&plan, args.processes),
    };
    match done {
        Ok(report) => {
            println!("compared: {}", report.compared);
            println!("shared: {}", report.shared);
            for wrong in &report.wrong {
                println!("WRONG: {wrong}");
            }
            ExitCode::from(u8::from(!report.wrong.is_empty()))
        }
        Err(why) => {
            eprintln!("stress: {why}");
            ExitCode::from(2)
        }
    }
}
