// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `cargo xtask wasi`: checks the code for WebAssembly guests in three crates, which is not
//! built by default, and runs the README's commands for it.

use super::{Done, check_part};
use std::process::ExitCode;

/// The packages and features to check, and their tests.
const PARTS: [(&[&str], &[&str]); 3] = [
    (&["--package=openpath-wasi", "--all-features"], &[]),
    // Its other tests are of parts that are built by default.
    (
        &["--package=openpath-cli", "--features=wasi"],
        &["--bin=openpath", "--test=wasi"],
    ),
    (
        &["--package=openpath-bench", "--features=wasi"],
        &["--lib", "wasi"],
    ),
];

/// How many sequences of calls are compared with wasmtime-wasi: enough to meet each known
/// difference; otherwise its row must be deleted.
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
