// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kills processes of `openpath run` at random moments. Then it checks that no process is left,
//! that the tree is unchanged, and that the view and its synced data are whole. Needs root.
//!
//! With `--commits` it kills commits, undos and discards instead. Then it checks that every name
//! has its old content or the view's, and that the commit can go forward or back.
//!
//! Exit status 1 if a check failed, 2 if the rounds could not be run.

use clap::Parser;
use openpath_testkit::kills::{self, Plan};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Kills processes of `openpath run` while programs work in the view, and checks what is left
/// (needs root).
#[derive(Debug, Parser)]
struct Args {
    /// The command under test.
    #[arg(long, value_name = "FILE")]
    openpath: PathBuf,
    /// Kill commits, undos and discards instead of runs.
    #[arg(long)]
    commits: bool,
    /// How many rounds.
    #[arg(long, default_value_t = 20)]
    rounds: u64,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The longest time that a load works before the kill, in milliseconds.
    #[arg(long, default_value_t = 1500)]
    longest: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let plan = Plan {
        openpath: args.openpath,
        folder: std::env::temp_dir(),
        rounds: args.rounds,
        seed: args.seed,
        longest: Duration::from_millis(args.longest),
    };
    let tell = |round: &str| println!("{round}");
    let report = match args.commits {
        true => kills::commits(&plan, tell),
        false => kills::storm(&plan, tell),
    };
    let report = match report {
        Ok(report) => report,
        Err(why) => {
            eprintln!("kills: {why}");
            return ExitCode::from(2);
        }
    };
    let kills::Report {
        rounds,
        late,
        kept,
        promises,
        ..
    } = report;
    println!("rounds: {rounds}, too late in {late}");
    match args.commits {
        true => println!("interrupted, and continued or aborted: {kept}"),
        false => {
            println!("views compared, run again and discarded: {kept}; promises kept: {promises}")
        }
    }
    for wrong in &report.wrong {
        println!("WRONG: {wrong}");
    }
    ExitCode::from(u8::from(!report.wrong.is_empty()))
}
