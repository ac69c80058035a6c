// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask wasi`: what `check` does, for the host of wasm guests, which is not built by
//! default.

use super::{Done, cargo, pass_on};
use std::process::ExitCode;

/// What is checked, with which features, and which of its tests.
const PARTS: [(&[&str], &[&str]); 3] = [
    (&["--package=openpath-wasi", "--all-features"], &[]),
    // Its other tests are of what is built by default.
    (
        &["--package=openpath-cli", "--features=wasi"],
        &["--bin=openpath", "--test=wasi"],
    ),
    (
        &["--package=openpath-bench", "--features=wasi"],
        &["--lib", "wasi"],
    ),
];

/// Sequences of calls that are compared with wasmtime-wasi: so many that each known difference is
/// met, or its row is to go.
const ROUNDS: &str = "12000";

/// Runs the steps in order; the first that fails ends it.
pub(crate) fn run() -> Done {
    for (part, tests) in PARTS {
        for step in [
            &["clippy", "--all-targets", "--quiet"][..],
            &["doc", "--no-deps", "--quiet"],
            &["test", "--quiet"],
        ] {
            eprintln!("== {} {}", step[0], part[0]);
            let mut command = cargo(step);
            command.args(part);
            match step[0] {
                "clippy" => command.args(["--", "-Dwarnings"]),
                "test" => command.args(tests),
                _ => &mut command,
            };
            command.env("RUSTDOCFLAGS", "-Dwarnings");
            let code = pass_on(command.env("OPENPATH_WASI_ROUNDS", ROUNDS))?;
            if code != ExitCode::SUCCESS {
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
