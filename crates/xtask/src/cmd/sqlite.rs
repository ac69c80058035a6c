// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask sqlite`: what `check` does, for SQLite over our locks, which is not built by
//! default; or its connections at one database for long.

use super::{Done, cargo, check_part, pass_on};

const PACKAGE: &str = "--package=openpath-testkit-sqlite";

/// Checks; or lets them write and read for so many seconds, as it was built for that: who waits
/// for locks needs no speed.
pub(crate) fn run(seconds: Option<u64>, seed: u64) -> Done {
    let Some(seconds) = seconds else {
        return check_part(&[PACKAGE], &[], &[]);
    };
    let mut test = cargo(&["test", PACKAGE, "--test", "stress"]);
    test.args(["--", "--ignored", "--nocapture", "for_long"]);
    test.env("OPENPATH_SQLITE_SECONDS", seconds.to_string());
    pass_on(test.env("OPENPATH_SQLITE_SEED", seed.to_string()))
}
