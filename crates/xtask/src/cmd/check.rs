// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `cargo xtask check`: everything that must pass before a commit, the fastest first, or with
//! `--more` what takes long.

use super::test::{Options, Slow};
use super::{Done, cargo, pass_on};
use clap::Args;
use std::process::ExitCode;
use std::time::Instant;

const CLIPPY: &[&str] = &["clippy", "--all-targets", "--", "-Dwarnings"];

/// The packages that a feature changes, built and tested with it.
const FEATURE: &[&str] = &[
    "--package=openpath-host",
    "--package=openpath-ring",
    "--features=openpath-host/io-uring",
    "--quiet",
];

type Step = (&'static str, fn() -> Done);

/// What every commit passes.
const STEPS: &[Step] = &[
    ("fmt", || pass_on(&mut cargo(&["fmt", "--all", "--check"]))),
    ("tidy", super::tidy::run),
    ("clippy", || pass_on(&mut cargo(CLIPPY))),
    ("doc", || {
        let mut doc = cargo(&["doc", "--no-deps", "--quiet"]);
        pass_on(doc.env("RUSTDOCFLAGS", "-Dwarnings"))
    }),
    ("test", || super::test::run(&Options::default())),
];

/// What takes long, and what is built only with a feature.
const MORE: &[Step] = &[
    ("slow tests", || {
        super::test::run(&Options {
            slow: Slow::Only,
            ..Options::default()
        })
    }),
    ("runs of root by fuse", || {
        let mut test = cargo(&["test", "--package=openpath-cli", "--test=run", "--quiet"]);
        pass_on(test.env("OPENPATH_TEST_ENGINE", "fuse"))
    }),
    ("clippy with io-uring", || {
        let mut clippy = cargo(&["clippy", "--all-targets"]);
        pass_on(clippy.args(FEATURE).args(["--", "-Dwarnings"]))
    }),
    ("test with io-uring", || {
        pass_on(cargo(&["test"]).args(FEATURE))
    }),
    ("rings over the host", || {
        let mut test = cargo(&["test", "--tests", "--package=openpath-ring"]);
        test.env("OPENPATH_RING_TREE", "host");
        pass_on(test.args(["--features=openpath-host/io-uring", "--quiet"]))
    }),
];

/// Which steps run.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Which {
    /// Also what takes long, and what is built only with a feature.
    #[arg(long)]
    full: bool,
    /// Only what `--full` adds.
    #[arg(long, conflicts_with = "full")]
    more: bool,
}

/// Runs the steps in order; the first that fails ends it.
pub(crate) fn run(which: Which) -> Done {
    let start = Instant::now();
    let usual = STEPS.iter().filter(|_| !which.more);
    let more = MORE.iter().filter(|_| which.full || which.more);
    for (name, step) in usual.chain(more) {
        eprintln!("== {name}");
        let began = Instant::now();
        let code = step()?;
        let seconds = began.elapsed().as_secs_f64();
        if code != ExitCode::SUCCESS {
            eprintln!("== {name} FAILED after {seconds:.1} s");
            return Ok(ExitCode::FAILURE);
        }
        eprintln!("== {name} passed in {seconds:.1} s");
    }
    eprintln!("== all passed in {:.1} s", start.elapsed().as_secs_f64());
    Ok(ExitCode::SUCCESS)
}
