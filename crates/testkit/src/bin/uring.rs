// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs random batches of entries on the kernel's `io_uring` and on openpath's ring. Exit status 1
//! if any result differs; 77 if the kernel gives no ring.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Parser;
use openpath_testkit::uring::{self, Back};

/// Runs scenes on both rings, and compares.
#[derive(Debug, Parser)]
struct Args {
    /// How many scenes.
    #[arg(long, default_value_t = 10_000)]
    scenes: u64,
    /// Seed of the first scene.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stop after this many scenes that differ.
    #[arg(long, default_value_t = 10)]
    reports: usize,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Err(why) = uring::available() {
        eprintln!("uring: the kernel gives no ring: {why}");
        return ExitCode::from(77);
    }
    let (mut entries, mut wrong) = (0, 0);
    let mut allowed: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in args.seed..args.seed + args.scenes {
        let scene = uring::scene(seed);
        let back = [Back::Mem, Back::Host][usize::from(seed % 2 == 0)];
        entries += scene.entries().count();
        match uring::check(&scene, back) {
            Ok(ids) => ids
                .into_iter()
                .for_each(|id| *allowed.entry(id).or_default() += 1),
            Err(text) => {
                wrong += 1;
                println!("DIFFERS, seed {seed}, over {back:?}\n{scene}{text}");
            }
        }
        if wrong >= args.reports {
            break;
        }
    }
    println!("{} scenes, {entries} entries, {wrong} differ", args.scenes);
    for (id, n) in allowed {
        println!("  as {id} says: {n}");
    }
    ExitCode::from(u8::from(wrong > 0))
}
