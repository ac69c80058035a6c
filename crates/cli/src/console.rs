// SPDX-License-Identifier: MIT OR Apache-2.0
//! What this program writes to its standard output and standard error.
//!
//! # Rules
//! R1. A reader that closed its end has read enough: that is no error and no panic.
//! R2. Colours go to terminals alone.

use std::io::{self, ErrorKind, Write as _};

/// Writes to standard output (R1, R2).
///
/// # Errors
/// What write(2) gives, but for `EPIPE`.
pub(crate) fn put(text: &str) -> io::Result<()> {
    let mut out = anstream::AutoStream::auto(io::stdout());
    let put = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match put {
        Err(why) if why.kind() == ErrorKind::BrokenPipe => Ok(()),
        put => put,
    }
}

/// Writes a line to standard error, whether or not anything reads it.
pub(crate) fn warn(line: &str) {
    writeln!(io::stderr(), "{line}").ok();
}
