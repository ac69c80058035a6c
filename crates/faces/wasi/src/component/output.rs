// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements an output stream of a component guest, which writes a file from an offset or appends
//! to it.
//!
//! # States
//! Ready -> writing, until the whole piece is written -> ready. Error -> returned once -> closed.
//!
//! # Rules
//! R1. One piece of at most [`MOST`] bytes is in flight at a time: the guest may not write another
//!     until it is written.
//! R2. An accepted piece is written whole, even if the guest drops the stream: the drop waits for
//!     it. Only the end of the guest cuts it short.

use super::descriptor::Open;
use super::input::MOST;
use super::stream_ring::{Completion, StreamRing, Ticket};
use openpath_abi::Errno;
use openpath_abi::falloc::RWF_APPEND;
use openpath_ring::Sqe;
use std::future::poll_fn;
use std::io::IoSlice;
use std::sync::Arc;
use std::task::{Context, Poll};
use wasmtime_wasi_io::async_trait;
use wasmtime_wasi_io::bytes::Bytes;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{OutputStream, StreamError, StreamResult};

/// Where a stream writes.
#[derive(Clone, Copy)]
pub(super) enum Position {
    /// At this offset.
    At(u64),
    /// At the end of the file at the time of the write; the descriptor has `O_APPEND`.
    End,
    /// The same for a file in memory; its descriptor lacks `O_APPEND`.
    EndInMemory,
}

enum State {
    Ready,
    /// Waits for a free slot to write this.
    Queued(Bytes),
    Writing(Ticket, Bytes),
    Failed(Errno),
    Closed,
}

/// A file that is written.
pub(super) struct FileOutput {
    ring: Arc<StreamRing>,
    open: Option<Arc<Open>>,
    fd: i32,
    position: Position,
    state: State,
}

impl FileOutput {
    pub(super) fn new(ring: Arc<StreamRing>, open: Arc<Open>, position: Position) -> Self {
        Self {
            ring,
            fd: open.fd,
            open: Some(open),
            position,
            state: State::Ready,
        }
    }

    /// Takes the result of a write, and keeps the rest of the piece.
    fn complete(&mut self, result: Result<u64, Errno>, mut data: Bytes) {
        self.state = match result {
            Ok(0) if !data.is_empty() => State::Failed(Errno::EIO),
            Ok(done) => {
                if let Position::At(offset) = &mut self.position {
                    *offset = offset.saturating_add(done);
                }
                let done = usize::try_from(done).unwrap_or(usize::MAX).min(data.len());
                let _written = data.split_to(done);
                if data.is_empty() {
                    State::Ready
                } else {
                    State::Queued(data)
                }
            }
            Err(errno) => State::Failed(errno),
        };
    }

    /// Makes the ring entry of a write.
    ///
    /// # Errors
    /// `EINVAL`: the offset is beyond any file.
    fn entry(&self, data: &Bytes) -> Result<impl Fn() -> Sqe + use<>, Errno> {
        let offset = match self.position {
            Position::At(offset) => i64::try_from(offset).map_err(|_| Errno::EINVAL)?,
            Position::End | Position::EndInMemory => -1,
        };
        let (fd, data) = (self.fd, data.clone());
        Ok(move || Sqe::write(fd, data.to_vec(), offset))
    }

    /// Continues as far as possible without a wait; `cx` is woken when more is possible.
    fn advance(&mut self, cx: Option<&Context<'_>>) -> Poll<()> {
        loop {
            match std::mem::replace(&mut self.state, State::Closed) {
                State::Queued(data) if matches!(self.position, Position::EndInMemory) => {
                    let (fd, pieces) = (self.fd, [IoSlice::new(&data)]);
                    let done = self
                        .ring
                        .call_now(|task| task.pwritev2(fd, &pieces, 0, RWF_APPEND));
                    self.complete(done.map(|done| done as u64), data);
                }
                State::Queued(data) => {
                    let begun = match self.entry(&data) {
                        Err(errno) => {
                            self.state = State::Failed(errno);
                            continue;
                        }
                        Ok(entry) => match cx {
                            Some(cx) => self.ring.poll_begin(entry, cx),
                            None => self.ring.begin(entry).map_or(Poll::Pending, Poll::Ready),
                        },
                    };
                    let Poll::Ready(ticket) = begun else {
                        self.state = State::Queued(data);
                        return Poll::Pending;
                    };
                    self.state = State::Writing(ticket, data);
                }
                State::Writing(ticket, data) => {
                    let completion: Poll<Completion> = match cx {
                        Some(cx) => self.ring.poll(&ticket, cx),
                        None => self.ring.take(&ticket).map_or(Poll::Pending, Poll::Ready),
                    };
                    match completion {
                        Poll::Ready(completion) => self.complete(completion.result, data),
                        Poll::Pending => {
                            self.state = State::Writing(ticket, data);
                            return Poll::Pending;
                        }
                    }
                }
                over => {
                    self.state = over;
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Checks whether the stream failed or is closed.
    ///
    /// # Errors
    /// The error, once, and then `Closed`.
    fn check(&mut self) -> StreamResult<()> {
        match self.state {
            State::Failed(errno) => {
                self.state = State::Closed;
                Err(StreamError::LastOperationFailed(errno.into()))
            }
            State::Closed => Err(StreamError::Closed),
            State::Ready | State::Queued(_) | State::Writing(..) => Ok(()),
        }
    }
}

#[async_trait]
impl OutputStream for FileOutput {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let _so_far = self.advance(None);
        match self.state {
            State::Ready if bytes.len() <= MOST => {}
            State::Closed => return Err(StreamError::Closed),
            _ => {
                return Err(StreamError::trap(
                    "a write beyond what check-write permitted",
                ));
            }
        }
        // An empty piece is written too, so that a file that may not be written fails.
        self.state = State::Queued(bytes);
        let _so_far = self.advance(None);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        let _so_far = self.advance(None);
        self.check()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        let so_far = self.advance(None);
        self.check()?;
        Ok(if so_far.is_ready() { MOST } else { 0 })
    }

    async fn cancel(&mut self) {
        // R2
        poll_fn(|cx| self.advance(Some(cx))).await;
        self.state = State::Closed;
    }
}

#[async_trait]
impl Pollable for FileOutput {
    async fn ready(&mut self) {
        poll_fn(|cx| self.advance(Some(cx))).await;
    }
}

impl Drop for FileOutput {
    fn drop(&mut self) {
        if let State::Writing(ticket, _) = &self.state {
            self.ring.forget(ticket, false);
        }
        if let Some(open) = self.open.take().and_then(Arc::into_inner) {
            self.ring.close(open.fd);
        }
    }
}
