// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs programs of the host to their end.

use std::io;
use std::process::{Command, Stdio};

/// Runs a program without input; returns what it wrote to standard output and standard error.
///
/// # Errors
/// If it cannot be started, with that kind of error, or if it fails; the message has its name.
pub(crate) fn run(command: &mut Command) -> io::Result<[String; 2]> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output();
    let done = done.map_err(|e| io::Error::new(e.kind(), format!("{program}: {e}")))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    let (said, complained) = (text(&done.stdout), text(&done.stderr));
    match done.status.success() {
        true => Ok([said, complained]),
        false => {
            let status = done.status;
            Err(io::Error::other(format!(
                "{program}: {status}: {complained}"
            )))
        }
    }
}
