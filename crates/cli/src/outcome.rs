// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines how a subcommand ends if it does not fail, from which its exit status follows.

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
