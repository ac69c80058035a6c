// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writing a file as a stream.
//!
//! # States
//! Ready -> writing, until all of a piece is written -> ready; or a failure, which is told once ->
//! closed.
//!
//! # Rules
//! R1. One piece is under way at a time, of [`MOST`] bytes at most: until it is written, the guest
//!     may write none.
//! R2. A piece that was taken is written whole, though the guest drops the stream: a drop waits for
//!     it. Only the end of the guest itself cuts it short.

use super::descriptor::Open;
use super::input::MOST;
use super::side::{Landed, Side, Ticket};
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
pub(super) enum Goal {
    /// From here on.
    At(u64),
    /// At the end of the file, wherever that is by then; its descriptor appends by itself.
    End,
    /// The same in memory, where the descriptor does not.
    EndAtOnce,
}

enum State {
    Ready,
    /// For a place to write this.
    Queued(Bytes),
    Writing(Ticket, Bytes),
    Failed(Errno),
    Closed,
}

/// A file that is written.
pub(super) struct FileOutput {
    side: Arc<Side>,
    open: Option<Arc<Open>>,
    fd: i32,
    goal: Goal,
    state: State,
}

impl FileOutput {
    pub(super) fn new(side: Arc<Side>, open: Arc<Open>, goal: Goal) -> Self {
        Self {
            side,
            fd: open.fd,
            open: Some(open),
            goal,
            state: State::Ready,
        }
    }

    /// What is left of a piece when `result` of it is written.
    fn landed(&mut self, result: Result<u64, Errno>, mut data: Bytes) {
        self.state = match result {
            Ok(0) if !data.is_empty() => State::Failed(Errno::EIO),
            Ok(done) => {
                if let Goal::At(offset) = &mut self.goal {
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

    /// The entry of a write.
    ///
    /// # Errors
    /// `EINVAL`: no file reaches so far.
    fn entry(&self, data: &Bytes) -> Result<impl Fn() -> Sqe + use<>, Errno> {
        let offset = match self.goal {
            Goal::At(offset) => i64::try_from(offset).map_err(|_| Errno::EINVAL)?,
            Goal::End | Goal::EndAtOnce => -1,
        };
        let (fd, data) = (self.fd, data.clone());
        Ok(move || Sqe::write(fd, data.to_vec(), offset))
    }

    /// Goes on as far as it can without a wait; with `cx`, has it woken where that ends.
    fn go_on(&mut self, cx: Option<&Context<'_>>) -> Poll<()> {
        loop {
            match std::mem::replace(&mut self.state, State::Closed) {
                State::Queued(data) if matches!(self.goal, Goal::EndAtOnce) => {
                    let (fd, pieces) = (self.fd, [IoSlice::new(&data)]);
                    let done = self
                        .side
                        .at_once(|task| task.pwritev2(fd, &pieces, 0, RWF_APPEND));
                    self.landed(done.map(|done| done as u64), data);
                }
                State::Queued(data) => {
                    let begun = match self.entry(&data) {
                        Err(errno) => {
                            self.state = State::Failed(errno);
                            continue;
                        }
                        Ok(entry) => match cx {
                            Some(cx) => self.side.begin_when(entry, cx),
                            None => self.side.begin(entry).map_or(Poll::Pending, Poll::Ready),
                        },
                    };
                    let Poll::Ready(ticket) = begun else {
                        self.state = State::Queued(data);
                        return Poll::Pending;
                    };
                    self.state = State::Writing(ticket, data);
                }
                State::Writing(ticket, data) => {
                    let landed: Poll<Landed> = match cx {
                        Some(cx) => self.side.poll(&ticket, cx),
                        None => self.side.take(&ticket).map_or(Poll::Pending, Poll::Ready),
                    };
                    match landed {
                        Poll::Ready(landed) => self.landed(landed.result, data),
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

    /// A failure, once, or that the stream is closed.
    ///
    /// # Errors
    /// It.
    fn told(&mut self) -> StreamResult<()> {
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
        let _so_far = self.go_on(None);
        match self.state {
            State::Ready if bytes.len() <= MOST => {}
            State::Closed => return Err(StreamError::Closed),
            _ => return Err(StreamError::trap("a write that was not permitted")),
        }
        // A piece of nothing is written too: it tells whether the file may be.
        self.state = State::Queued(bytes);
        let _so_far = self.go_on(None);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        let _so_far = self.go_on(None);
        self.told()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        let so_far = self.go_on(None);
        self.told()?;
        Ok(if so_far.is_ready() { MOST } else { 0 })
    }

    async fn cancel(&mut self) {
        // R2
        poll_fn(|cx| self.go_on(Some(cx))).await;
        self.state = State::Closed;
    }
}

#[async_trait]
impl Pollable for FileOutput {
    async fn ready(&mut self) {
        poll_fn(|cx| self.go_on(Some(cx))).await;
    }
}

impl Drop for FileOutput {
    fn drop(&mut self) {
        if let State::Writing(ticket, _) = &self.state {
            self.side.forget(ticket, false);
        }
        if let Some(open) = self.open.take().and_then(Arc::into_inner) {
            self.side.close(open.fd);
        }
    }
}
