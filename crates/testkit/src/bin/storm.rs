// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs threads that change one tree against threads that walk it, on one `Vfs`. Exit status 1 if a
//! thread saw a wrong file or an unexpected error, or if anything leaked.

use std::process::ExitCode;

use clap::Parser;
use openpath_testkit::storm::{self, Plan};
use openpath_vfs::Tuning;

/// Lets threads change and walk one tree, and checks what they see.
#[derive(Debug, Parser)]
struct Args {
    /// How many seconds the storm lasts.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Stall one walker for this many seconds, and check that it is named and blocks nothing.
    #[arg(long, default_value_t = 0)]
    stall_seconds: u64,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many threads walk.
    #[arg(long, default_value_t = 4)]
    walkers: usize,
    /// Turn the path cache off.
    #[arg(long)]
    no_path_cache: bool,
    /// Turn the walks without references off.
    #[arg(long)]
    no_lock_free: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut tuning = Tuning::default();
    tuning.path_cache = !args.no_path_cache;
    tuning.lock_free_walk = !args.no_lock_free;
    let plan = Plan {
        seconds: args.seconds,
        stall_seconds: args.stall_seconds,
        seed: args.seed,
        walkers: args.walkers,
        tuning,
        last_words: |line| eprintln!("{line}"),
    };
    let outcome = match storm::run(plan) {
        Ok(outcome) => outcome,
        Err(e) => {
            eprintln!("storm: {e}");
            return ExitCode::from(2);
        }
    };
    for (name, steps) in &outcome.steps {
        println!("{name}: {steps} steps");
    }
    for note in &outcome.notes {
        println!("{note}");
    }
    for wrong in &outcome.wrong {
        println!("WRONG: {wrong}");
    }
    ExitCode::from(u8::from(!outcome.wrong.is_empty()))
}
