// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading a file as a stream.
//!
//! # States
//! Idle -> reading -> some data, handed out in pieces -> idle; or the end, or a failure, which is
//! told once -> closed.
//!
//! # Rules
//! R1. No more than one read is under way, and no more than [`MOST`] bytes are kept.
//! R2. What is in memory is read when it is asked for, in the guest's own call.

use super::descriptor::Open;
use super::side::{Landed, Side, Ticket};
use openpath_abi::Errno;
use openpath_ring::{Output, Sqe};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use wasmtime_wasi_io::async_trait;
use wasmtime_wasi_io::bytes::Bytes;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{InputStream, StreamError, StreamResult};

/// Bytes that one read is for at most.
pub(super) const MOST: usize = 1 << 16;
/// Bytes that are read for a guest that waits and has not said how much it wants.
const AHEAD: usize = 1 << 12;

enum State {
    Idle,
    Reading(Ticket),
    Data(Bytes),
    Failed(Errno),
    Closed,
}

/// A file that is read from an offset on.
pub(super) struct FileInput {
    side: Arc<Side>,
    open: Option<Arc<Open>>,
    fd: i32,
    offset: u64,
    state: State,
}

impl FileInput {
    pub(super) fn new(side: Arc<Side>, open: Arc<Open>, offset: u64) -> Self {
        Self {
            side,
            fd: open.fd,
            open: Some(open),
            offset,
            state: State::Idle,
        }
    }

    /// The entry of a read of `size` bytes, which are not 0.
    ///
    /// # Errors
    /// `EINVAL`: no file reaches so far.
    fn entry(&self, size: usize) -> Result<impl Fn() -> Sqe + use<>, Errno> {
        let offset = i64::try_from(self.offset).map_err(|_| Errno::EINVAL)?;
        let (fd, size) = (self.fd, size.min(MOST));
        Ok(move || Sqe::read(fd, vec![0; size], offset))
    }

    fn landed(&mut self, landed: Landed) {
        self.state = match (landed.result, landed.output) {
            (Err(errno), _) => State::Failed(errno),
            (Ok(0), _) => State::Closed,
            (Ok(_), Output::Buffer(data)) => State::Data(Bytes::from(data)),
            (Ok(_), _) => State::Failed(Errno::EIO),
        };
    }

    /// Begins to read, if there is nothing else to be done first.
    fn begin(&mut self, size: usize) {
        if !matches!(self.state, State::Idle) {
            return;
        }
        match self.entry(size) {
            Ok(entry) => {
                if let Some(ticket) = self.side.begin(entry) {
                    self.state = State::Reading(ticket);
                }
            }
            Err(errno) => self.state = State::Failed(errno),
        }
    }

    /// Takes in a read that has landed.
    fn look(&mut self) {
        if let State::Reading(ticket) = &self.state
            && let Some(landed) = self.side.take(ticket)
        {
            self.landed(landed);
        }
    }

    /// Ready when there is something to hand out, or to tell.
    fn poll_some(&mut self, size: usize, cx: &Context<'_>) -> Poll<()> {
        loop {
            match &self.state {
                State::Idle => {
                    let entry = match self.entry(size) {
                        Ok(entry) => entry,
                        Err(errno) => {
                            self.state = State::Failed(errno);
                            return Poll::Ready(());
                        }
                    };
                    match self.side.begin_when(entry, cx) {
                        Poll::Ready(ticket) => self.state = State::Reading(ticket),
                        Poll::Pending => return Poll::Pending,
                    }
                }
                State::Reading(ticket) => match self.side.poll(ticket, cx) {
                    Poll::Ready(landed) => self.landed(landed),
                    Poll::Pending => return Poll::Pending,
                },
                State::Data(_) | State::Failed(_) | State::Closed => return Poll::Ready(()),
            }
        }
    }
}

#[async_trait]
impl InputStream for FileInput {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size > 0 {
            self.begin(size);
        }
        self.look();
        match &mut self.state {
            State::Idle | State::Reading(_) => Ok(Bytes::new()),
            State::Data(data) => {
                let piece = data.split_to(data.len().min(size));
                if data.is_empty() {
                    self.state = State::Idle;
                }
                self.offset += piece.len() as u64;
                Ok(piece)
            }
            State::Failed(errno) => {
                let errno = *errno;
                self.state = State::Closed;
                Err(StreamError::LastOperationFailed(errno.into()))
            }
            State::Closed => Err(StreamError::Closed),
        }
    }

    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size > 0 {
            poll_fn(|cx| self.poll_some(size, cx)).await;
        }
        self.read(size)
    }

    async fn cancel(&mut self) {
        if let State::Reading(ticket) = std::mem::replace(&mut self.state, State::Closed) {
            self.side.forget(&ticket, true);
        }
    }
}

#[async_trait]
impl Pollable for FileInput {
    async fn ready(&mut self) {
        poll_fn(|cx| self.poll_some(AHEAD, cx)).await;
    }
}

impl Drop for FileInput {
    fn drop(&mut self) {
        if let State::Reading(ticket) = &self.state {
            self.side.forget(ticket, true);
        }
        if let Some(open) = self.open.take().and_then(Arc::into_inner) {
            self.side.close(open.fd);
        }
    }
}
