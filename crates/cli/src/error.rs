// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the error with which a subcommand fails: the message of a failed step, or a failed write
//! of its results.

use std::fmt;
use std::io;

/// Why a verb failed.
#[derive(Debug)]
pub(crate) enum Error {
    /// A step failed: the whole message.
    Setup(String),
    /// The results could not be written.
    Output(io::Error),
}

impl Error {
    /// An error of the step `what`.
    pub(crate) fn setup(what: &str, why: impl fmt::Display) -> Self {
        Self::Setup(format!("{what}: {why}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setup(why) => f.write_str(why),
            Self::Output(why) => write!(f, "cannot write the results: {why}"),
        }
    }
}

impl From<io::Error> for Error {
    fn from(why: io::Error) -> Self {
        Self::Output(why)
    }
}
