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
    #[arg(long, value_name = "DIR", required_unless_present = "fill")]
    on: Option<PathBuf>,
    /// A folder of a file system that is trusted.
    #[arg(long, value_name = "DIR", required_unless_present = "fill")]
    beside: Option<PathBuf>,
    /// Make in this folder what both may begin with, and end.
    #[arg(long, value_name = "DIR")]
    fill: Option<PathBuf>,
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
