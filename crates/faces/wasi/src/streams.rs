// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the standard input, output and error of a guest: bytes in memory, the host's streams,
//! or a reader and writer of the host.
//!
//! # Rules
//! R1. The host's streams are its descriptors 0 to 2, without the buffers of this process: a read
//!     takes no byte that the guest did not ask for, and the result of a write is the descriptor's
//!     own.
//! R2. Bytes that a writer accepted count as written. If the writer then fails to flush them, the
//!     next write fails with that error.

use crate::errno::Code;
use crate::types::Filetype;
use openpath_abi::Errno;
use rustix::fd::AsFd;
use std::fmt;
use std::io::{self, IoSlice, IsTerminal, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// The source of a guest's standard input.
pub struct Input(Source);

enum Source {
    Null,
    Bytes(io::Cursor<Vec<u8>>),
    Inherit,
    Reader(Box<dyn Read + Send>),
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").finish_non_exhaustive()
    }
}

impl Input {
    /// An empty stream.
    #[must_use]
    pub fn null() -> Self {
        Self(Source::Null)
    }

    /// A stream of these bytes.
    #[must_use]
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Source::Bytes(io::Cursor::new(bytes.into())))
    }

    /// The host's standard input. A read waits as the host's own would.
    #[must_use]
    pub fn inherit() -> Self {
        Self(Source::Inherit)
    }

    /// A stream from `reader`.
    #[must_use]
    pub fn reader(reader: impl Read + Send + 'static) -> Self {
        Self(Source::Reader(Box::new(reader)))
    }

    pub(crate) fn read(&mut self, buf: &mut [u8]) -> Result<usize, Code> {
        let read = match &mut self.0 {
            Source::Null => Ok(0),
            Source::Bytes(bytes) => bytes.read(buf),
            Source::Inherit => rustix::io::read(io::stdin().as_fd(), &mut *buf).map_err(Into::into),
            Source::Reader(reader) => reader.read(buf),
        };
        // A reader may claim more than the buffer holds.
        read.map(|n| n.min(buf.len())).map_err(|e| code(&e))
    }

    pub(crate) fn filetype(&self) -> Filetype {
        match self.0 {
            Source::Inherit if io::stdin().is_terminal() => Filetype::CharacterDevice,
            _ => Filetype::Unknown,
        }
    }
}

/// The target of a guest's standard output or error.
pub struct Output {
    to: Target,
    /// The error of the next write (R2).
    failed: Option<Code>,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

enum Target {
    Null,
    Stdout,
    Stderr,
    Captured(Captured, usize),
    Writer(Box<dyn Write + Send>),
}

/// The output of a guest, kept in memory.
#[derive(Clone, Debug, Default)]
pub struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    /// The bytes so far.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes the bytes so far.
    #[must_use]
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Output {
    fn new(to: Target) -> Self {
        Self { to, failed: None }
    }

    /// Discards everything.
    #[must_use]
    pub fn null() -> Self {
        Self::new(Target::Null)
    }

    /// The host's standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self::new(Target::Stdout)
    }

    /// The host's standard error.
    #[must_use]
    pub fn stderr() -> Self {
        Self::new(Target::Stderr)
    }

    /// Keeps at most `limit` bytes in memory; a write without room is `ENOSPC`.
    #[must_use]
    pub fn captured(limit: usize) -> (Self, Captured) {
        let captured = Captured::default();
        (
            Self::new(Target::Captured(captured.clone(), limit)),
            captured,
        )
    }

    /// Passes everything to `writer`. The guest gets the error of a failed write.
    #[must_use]
    pub fn writer(writer: impl Write + Send + 'static) -> Self {
        Self::new(Target::Writer(Box::new(writer)))
    }

    /// Writes as much as the target accepts.
    pub(crate) fn write(&mut self, bufs: &[IoSlice<'_>]) -> Result<usize, Code> {
        if let Some(code) = self.failed.take() {
            return Err(code);
        }
        match &mut self.to {
            Target::Stdout => written(io::stdout().as_fd(), bufs),
            Target::Stderr => written(io::stderr().as_fd(), bufs),
            Target::Null => Ok(bufs.iter().map(|buf| buf.len()).sum()),
            Target::Writer(writer) => {
                let done = write_each(bufs, |data| {
                    let written = writer.write(data);
                    // A writer may claim more than it was given.
                    written.map(|n| n.min(data.len())).map_err(|e| code(&e))
                })?;
                match writer.flush().map_err(|e| code(&e)) {
                    Err(code) if done == 0 => return Err(code),
                    // R2
                    flushed => self.failed = flushed.err(),
                }
                Ok(done)
            }
            Target::Captured(captured, limit) => write_each(bufs, |data| {
                let mut kept = captured.0.lock().unwrap_or_else(PoisonError::into_inner);
                let room = limit.saturating_sub(kept.len()).min(data.len());
                if room == 0 && !data.is_empty() {
                    return Err(Code::Nospc);
                }
                kept.extend_from_slice(&data[..room]);
                Ok(room)
            }),
        }
    }

    /// Flushes what the host buffers.
    pub(crate) fn flush(&mut self) -> Result<(), Code> {
        if let Some(code) = self.failed.take() {
            return Err(code);
        }
        match &mut self.to {
            Target::Writer(writer) => writer.flush().map_err(|e| code(&e)),
            Target::Null | Target::Stdout | Target::Stderr | Target::Captured(..) => Ok(()),
        }
    }

    pub(crate) fn filetype(&self) -> Filetype {
        let is_terminal = match self.to {
            Target::Stdout => io::stdout().is_terminal(),
            Target::Stderr => io::stderr().is_terminal(),
            _ => false,
        };
        if is_terminal {
            Filetype::CharacterDevice
        } else {
            Filetype::Unknown
        }
    }
}

/// Like writev(2).
fn written(fd: impl AsFd, bufs: &[IoSlice<'_>]) -> Result<usize, Code> {
    rustix::io::writev(fd, bufs).map_err(|e| code(&e.into()))
}

/// Writes one buffer after the other, until one is not accepted whole.
fn write_each(
    bufs: &[IoSlice<'_>],
    mut write: impl FnMut(&[u8]) -> Result<usize, Code>,
) -> Result<usize, Code> {
    let mut done = 0;
    for buf in bufs {
        match write(buf) {
            Ok(n) => {
                done += n;
                if n < buf.len() {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(code) => return Err(code),
        }
    }
    Ok(done)
}

fn code(error: &io::Error) -> Code {
    if let Some(errno) = error.raw_os_error().and_then(Errno::checked) {
        return errno.into();
    }
    match error.kind() {
        io::ErrorKind::WouldBlock => Code::Again,
        io::ErrorKind::Interrupted => Code::Intr,
        io::ErrorKind::BrokenPipe => Code::Pipe,
        io::ErrorKind::OutOfMemory => Code::Nomem,
        io::ErrorKind::StorageFull => Code::Nospc,
        _ => Code::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, Output};
    use std::io::{self, IoSlice, Write};

    /// Accepts bytes until it is full, and fails to flush.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let taken = data.len().min(self.0);
            self.0 -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_failed_flush_fails_the_next_write() {
        let mut output = Output::writer(Full(5));
        let bufs = [IoSlice::new(b"abc"), IoSlice::new(b"defg")];
        assert_eq!(output.write(&bufs), Ok(5));
        assert_eq!(output.write(&bufs), Err(Code::Pipe));
        assert_eq!(output.write(&bufs), Err(Code::Again));
        assert_eq!(output.write(&[]), Err(Code::Pipe));
    }

    #[test]
    fn a_captured_write_stops_at_the_limit() {
        let (mut output, captured) = Output::captured(4);
        let bufs = [IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"de")];
        assert_eq!(output.write(&bufs), Ok(4));
        assert_eq!(output.write(&bufs[..1]), Err(Code::Nospc));
        assert_eq!(captured.take(), b"abcd");
    }
}
