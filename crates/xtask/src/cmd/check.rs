// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `cargo xtask check`: everything that must pass before a commit, the fastest first.

use super::{Done, cargo, pass_on};
use std::process::ExitCode;
use std::time::Instant;

const CLIPPY: &[&str] = &["clippy", "--all-targets", "--quiet", "--", "-Dwarnings"];

/// The packages that a feature changes, built and tested with it.
const FEATURE: &[&str] = &[
    "--package=openpath-host",
    "--package=openpath-ring",
    "--features=openpath-host/io-uring",
    "--quiet",
];

type Step = (&'static str, fn() -> Done);

/// Runs the steps in order; the first that fails ends it.
pub(crate) fn run() -> Done {
    let steps: [Step; 8] = [
        ("fmt", || pass_on(&mut cargo(&["fmt", "--all", "--check"]))),
        ("tidy", super::tidy::run),
        ("clippy", || pass_on(&mut cargo(CLIPPY))),
        ("doc", || {
            let mut doc = cargo(&["doc", "--no-deps", "--quiet"]);
            pass_on(doc.env("RUSTDOCFLAGS", "-Dwarnings"))
        }),
        ("test", || pass_on(&mut cargo(&["test", "--quiet"]))),
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
    let start = Instant::now();
    for (name, step) in steps {
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
