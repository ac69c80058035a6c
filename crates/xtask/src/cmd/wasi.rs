// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask wasi`: what `check` does, for the host of wasm guests, which is not built by
//! default, and its commands of the README.

use super::{Done, check_part};
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
        let code = check_part(part, tests, &[("OPENPATH_WASI_ROUNDS", ROUNDS)])?;
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
    }
    super::readme::run(true)
}
