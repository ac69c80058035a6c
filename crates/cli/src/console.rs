// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes text to the standard output of this program, in pieces if it is long, and warnings to its
//! standard error.
//!
//! # Rules
//! R1. A reader that closed its end has read enough: `EPIPE` is neither an error nor a panic.
//! R2. Only terminals get colours.

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

/// How many bytes of a long text are collected before they are written.
const PIECE: usize = 1 << 16;

/// Standard output for a long text, which is written piece by piece (R1, R2).
pub(crate) struct Pieces {
    held: String,
    is_open: bool,
}

impl Pieces {
    pub(crate) fn new() -> Pieces {
        Pieces {
            held: String::new(),
            is_open: true,
        }
    }

    /// Adds to the text; `false` if the reader has closed its end.
    ///
    /// # Errors
    /// The text cannot be written.
    pub(crate) fn put(&mut self, text: &str) -> io::Result<bool> {
        self.held.push_str(text);
        if self.held.len() >= PIECE {
            self.write()?;
        }
        Ok(self.is_open)
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// The text cannot be written.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        let mut out = anstream::AutoStream::auto(io::stdout());
        let text = std::mem::take(&mut self.held);
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Err(why) if why.kind() == ErrorKind::BrokenPipe => self.is_open = false,
            put => put?,
        }
        Ok(())
    }
}

/// Writes a line to standard error in one piece, and ignores errors.
pub(crate) fn warn(line: &str) {
    io::stderr().write_all(format!("{line}\n").as_bytes()).ok();
}
