// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lets many processes make the same calls on a mount and in a trusted directory of the host, and
//! compares every answer. Exit status 1 if a fault was found.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use openpath_testkit::stress::{self, Plan};

/// Lets many processes do the same in a mount and in a trusted folder, and compares.
#[derive(Debug, Parser)]
struct Args {
    /// A folder of the mount.
    #[arg(long, value_name = "DIR", required_unless_present = "fill")]
    on: Option<PathBuf>,
    /// A folder of a file system that is trusted.
    #[arg(long, value_name = "DIR", required_unless_present = "fill")]
    beside: Option<PathBuf>,
    /// Fill this folder with what both sides may begin with, and exit.
    #[arg(long, value_name = "DIR")]
    fill: Option<PathBuf>,
    /// How many processes to start.
    #[arg(long, default_value_t = 16)]
    processes: u64,
    /// How many seconds to run.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run as the process with this number; internal.
    #[arg(long, hide = true)]
    process: Option<u64>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(folder) = &args.fill {
        return match stress::fill(folder, args.processes, args.seed) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("stress: {}: {why}", folder.display());
                ExitCode::from(2)
            }
        };
    }
    let plan = Plan {
        on: args.on.unwrap_or_default(),
        beside: args.beside.unwrap_or_default(),
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
