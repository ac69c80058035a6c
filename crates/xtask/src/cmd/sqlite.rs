// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs `cargo xtask sqlite`: checks SQLite over our locks, which is not built by default, or runs
//! many connections on one database for a long time.

use super::{Done, cargo, check_part, pass_on};

const PACKAGE: &str = "--package=openpath-testkit-sqlite";

/// Checks, or runs the connections for this many seconds, in the same build: waiting for locks
/// needs no speed.
pub(crate) fn run(seconds: Option<u64>, seed: u64) -> Done {
    let Some(seconds) = seconds else {
        return check_part(&[PACKAGE], &[], &[]);
    };
    let mut test = cargo(&["test", PACKAGE, "--test", "stress"]);
    test.args(["--", "--ignored", "--nocapture", "for_long"]);
    test.env("OPENPATH_SQLITE_SECONDS", seconds.to_string());
    pass_on(test.env("OPENPATH_SQLITE_SEED", seed.to_string()))
}
