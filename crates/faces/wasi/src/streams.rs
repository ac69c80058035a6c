// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard input and output of a guest: bytes, the host's own, or what the host makes of them.
//!
//! # Rules
//! R1. The host's own streams are its descriptors 0 to 2, past what this process buffers for
//!     itself: no byte is taken that the guest did not ask for, and what is told of a write is so.
//! R2. What a writer has taken is told as written. If it then fails to pass it on, the next write
//!     fails so.

use crate::errno::Code;
use crate::types::Filetype;
use openpath_abi::Errno;
use rustix::fd::AsFd;
use std::io::{self, IoSlice, IsTerminal, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Where a guest's standard input comes from.
pub struct Input(From);

enum From {
    Null,
    Bytes(io::Cursor<Vec<u8>>),
    Inherit,
    Reader(Box<dyn Read + Send>),
}

impl Input {
    /// Nothing: the end at once.
    #[must_use]
    pub fn null() -> Self {
        Self(From::Null)
    }

    /// These bytes.
    #[must_use]
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self(From::Bytes(io::Cursor::new(bytes.into())))
    }

    /// The host's own. A read waits as the host's would.
    #[must_use]
    pub fn inherit() -> Self {
        Self(From::Inherit)
    }

    /// What `reader` gives.
    #[must_use]
    pub fn reader(reader: impl Read + Send + 'static) -> Self {
        Self(From::Reader(Box::new(reader)))
    }

    pub(crate) fn read(&mut self, buf: &mut [u8]) -> Result<usize, Code> {
        let read = match &mut self.0 {
            From::Null => Ok(0),
            From::Bytes(bytes) => bytes.read(buf),
            From::Inherit => rustix::io::read(io::stdin().as_fd(), &mut *buf).map_err(Into::into),
            From::Reader(reader) => reader.read(buf),
        };
        // A reader that claims more than it was given room for is not believed.
        read.map(|n| n.min(buf.len())).map_err(|e| code(&e))
    }

    pub(crate) fn filetype(&self) -> Filetype {
        match self.0 {
            From::Inherit if io::stdin().is_terminal() => Filetype::CharacterDevice,
            _ => Filetype::Unknown,
        }
    }
}

/// Where a guest's standard output goes.
pub struct Output {
    to: To,
    /// What the next write is told.
    failed: Option<Code>,
}

enum To {
    Null,
    Stdout,
    Stderr,
    Captured(Captured, usize),
    Writer(Box<dyn Write + Send>),
}

/// What a guest has written, as far as it was kept.
#[derive(Clone, Debug, Default)]
pub struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    /// What there is so far.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What there is so far, which is then no longer kept.
    #[must_use]
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Output {
    fn new(to: To) -> Self {
        Self { to, failed: None }
    }

    /// Nowhere.
    #[must_use]
    pub fn null() -> Self {
        Self::new(To::Null)
    }

    /// The host's standard output.
    #[must_use]
    pub fn stdout() -> Self {
        Self::new(To::Stdout)
    }

    /// The host's standard error.
    #[must_use]
    pub fn stderr() -> Self {
        Self::new(To::Stderr)
    }

    /// Memory of at most `limit` bytes; a write that finds no room is `ENOSPC`.
    #[must_use]
    pub fn captured(limit: usize) -> (Self, Captured) {
        let captured = Captured::default();
        (Self::new(To::Captured(captured.clone(), limit)), captured)
    }

    /// What `writer` takes. A write that fails is told to the guest.
    #[must_use]
    pub fn writer(writer: impl Write + Send + 'static) -> Self {
        Self::new(To::Writer(Box::new(writer)))
    }

    /// Writes as much of this as is taken.
    pub(crate) fn write(&mut self, bufs: &[IoSlice<'_>]) -> Result<usize, Code> {
        if let Some(code) = self.failed.take() {
            return Err(code);
        }
        match &mut self.to {
            To::Stdout => written(io::stdout().as_fd(), bufs),
            To::Stderr => written(io::stderr().as_fd(), bufs),
            To::Null => Ok(bufs.iter().map(|buf| buf.len()).sum()),
            To::Writer(writer) => {
                let done = each(bufs, |data| {
                    let written = writer.write(data);
                    // A writer that claims more than it was given is not believed.
                    written.map(|n| n.min(data.len())).map_err(|e| code(&e))
                })?;
                match writer.flush().map_err(|e| code(&e)) {
                    Err(code) if done == 0 => return Err(code),
                    // R2
                    flushed => self.failed = flushed.err(),
                }
                Ok(done)
            }
            To::Captured(captured, limit) => each(bufs, |data| {
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

    /// Passes on what the host keeps back.
    pub(crate) fn flush(&mut self) -> Result<(), Code> {
        if let Some(code) = self.failed.take() {
            return Err(code);
        }
        match &mut self.to {
            To::Writer(writer) => writer.flush().map_err(|e| code(&e)),
            To::Null | To::Stdout | To::Stderr | To::Captured(..) => Ok(()),
        }
    }

    pub(crate) fn filetype(&self) -> Filetype {
        let is_terminal = match self.to {
            To::Stdout => io::stdout().is_terminal(),
            To::Stderr => io::stderr().is_terminal(),
            _ => false,
        };
        if is_terminal {
            Filetype::CharacterDevice
        } else {
            Filetype::Unknown
        }
    }
}

/// As writev(2).
fn written(fd: impl AsFd, bufs: &[IoSlice<'_>]) -> Result<usize, Code> {
    rustix::io::writev(fd, bufs).map_err(|e| code(&e.into()))
}

/// Writes one buffer after the other, until one is not taken whole.
fn each(
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

    /// Keeps what it takes, and fails to pass it on.
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
    fn what_was_taken_is_told_and_the_failure_after_it() {
        let mut output = Output::writer(Full(5));
        let bufs = [IoSlice::new(b"abc"), IoSlice::new(b"defg")];
        assert_eq!(output.write(&bufs), Ok(5));
        assert_eq!(output.write(&bufs), Err(Code::Pipe));
        assert_eq!(output.write(&bufs), Err(Code::Again));
        assert_eq!(output.write(&[]), Err(Code::Pipe));
    }

    #[test]
    fn a_captured_write_ends_where_there_is_no_room() {
        let (mut output, captured) = Output::captured(4);
        let bufs = [IoSlice::new(b"abc"), IoSlice::new(b""), IoSlice::new(b"de")];
        assert_eq!(output.write(&bufs), Ok(4));
        assert_eq!(output.write(&bufs[..1]), Err(Code::Nospc));
        assert_eq!(captured.take(), b"abcd");
    }
}
