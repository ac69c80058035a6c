// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the results of a subcommand that did not fail (done, problem found, or an exit status of
//! its own), which become the exit status of `openpath`.

use std::process::ExitCode;

/// How a verb ended, unless it failed.
pub(crate) enum Outcome {
    /// It did all that was asked.
    Done,
    /// It found a problem: exit status 1.
    Shortfall,
    /// It ended with this exit status.
    Status(ExitCode),
}
