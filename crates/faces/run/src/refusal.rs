// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a run did not come about: one sentence, and an exit status.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Exit status: the run itself failed, as with env(1) and timeout(1).
const FAILED: u8 = 125;
/// Exit status: the command was found and cannot be executed.
const NOT_EXECUTABLE: u8 = 126;
/// Exit status: there is no such command.
const NOT_FOUND: u8 = 127;

/// Why a run did not come about.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// The exit status that says it.
    pub code: u8,
    text: String,
}

impl Refusal {
    /// The run itself failed.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Refusal {
        let text = text.into();
        Refusal { code: FAILED, text }
    }

    /// A step of the run failed.
    #[must_use]
    pub fn step(what: &str, why: impl fmt::Display) -> Refusal {
        Refusal::new(format!("{what}: {why}"))
    }

    /// There is such a command, and it is nothing that can be run.
    #[must_use]
    pub fn not_executable(command: &std::ffi::OsStr, why: impl fmt::Display) -> Refusal {
        let text = format!("{}: {why}", command.display());
        let code = NOT_EXECUTABLE;
        Refusal { code, text }
    }

    /// There is no such command.
    #[must_use]
    pub fn not_found(command: &std::ffi::OsStr, why: impl fmt::Display) -> Refusal {
        let text = format!("{}: {why}", command.display());
        let code = NOT_FOUND;
        Refusal { code, text }
    }

    /// The command cannot be executed.
    pub(crate) fn exec(command: &std::ffi::OsStr, why: &std::io::Error) -> Refusal {
        let missing = why.kind() == std::io::ErrorKind::NotFound;
        Refusal {
            code: if missing { NOT_FOUND } else { NOT_EXECUTABLE },
            text: format!("{}: {why}", command.display()),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}
