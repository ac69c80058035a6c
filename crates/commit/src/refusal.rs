// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a run did not come about: one sentence, and an exit status.

use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

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
    pub fn not_executable(command: &OsStr, why: impl fmt::Display) -> Refusal {
        let text = format!("{}: {why}", command.display());
        let code = NOT_EXECUTABLE;
        Refusal { code, text }
    }

    /// There is no such command.
    #[must_use]
    pub fn not_found(command: &OsStr, why: impl fmt::Display) -> Refusal {
        let text = format!("{}: {why}", command.display());
        let code = NOT_FOUND;
        Refusal { code, text }
    }

    /// The command cannot be executed.
    #[must_use]
    pub fn exec(command: &OsStr, why: &std::io::Error) -> Refusal {
        let shown = command.display();
        let text = match why.kind() {
            ErrorKind::PermissionDenied => match denied(command) {
                Some(path) => format!("{shown}: {} of PATH: {why}", path.display()),
                None => format!("{shown}: {why}"),
            },
            _ => format!("{shown}: {why}"),
        };
        let code = match why.kind() {
            ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        };
        Refusal { code, text }
    }
}

/// Why a command that is named without a slash gets `EACCES`: the first file of this name in
/// `PATH`, or the first directory that cannot be searched.
fn denied(command: &OsStr) -> Option<PathBuf> {
    if command.as_bytes().contains(&b'/') {
        return None;
    }
    let dirs = std::env::var_os("PATH")?;
    std::env::split_paths(&dirs).find_map(|dir| {
        let file = dir.join(command);
        match file.metadata() {
            Ok(found) => found.is_file().then_some(file),
            Err(why) => (why.kind() == ErrorKind::PermissionDenied).then_some(dir),
        }
    })
}

/// Control characters of names are written as `\xHH`: a terminal might obey them.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.text.chars() {
            match letter {
                '\n' => f.write_char(letter)?,
                letter if letter.is_control() => write!(f, "\\x{:02x}", u32::from(letter))?,
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}
