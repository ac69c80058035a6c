// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements an input stream of a component guest, which reads a file from an offset.
//!
//! # States
//! Idle -> reading -> data, returned in pieces -> idle. End of file -> closed. Error -> returned
//! once -> closed.
//!
//! # Rules
//! R1. At most one read is in flight, and at most [`MOST`] bytes are buffered.
//! R2. Data in memory is read on demand, in the guest's own call.

use super::descriptor::Open;
use super::stream_ring::{Completion, StreamRing, Ticket};
use openpath_abi::Errno;
use openpath_ring::{Output, Sqe};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use wasmtime_wasi_io::async_trait;
use wasmtime_wasi_io::bytes::Bytes;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{InputStream, StreamError, StreamResult};

/// The most bytes of one read.
pub(super) const MOST: usize = 1 << 16;
/// Bytes to read for a guest that waits without a size.
const AHEAD: usize = 1 << 12;

enum State {
    Idle,
    Reading(Ticket),
    Data(Bytes),
    Failed(Errno),
    Closed,
}

/// A file that is read from an offset.
pub(super) struct FileInput {
    ring: Arc<StreamRing>,
    open: Option<Arc<Open>>,
    fd: i32,
    offset: u64,
    state: State,
}

impl FileInput {
    pub(super) fn new(ring: Arc<StreamRing>, open: Arc<Open>, offset: u64) -> Self {
        Self {
            ring,
            fd: open.fd,
            open: Some(open),
            offset,
            state: State::Idle,
        }
    }

    /// Makes the ring entry of a read of `size` bytes, which must not be 0.
    ///
    /// # Errors
    /// `EINVAL`: the offset is beyond any file.
    fn entry(&self, size: usize) -> Result<impl Fn() -> Sqe + use<>, Errno> {
        let offset = i64::try_from(self.offset).map_err(|_| Errno::EINVAL)?;
        let (fd, size) = (self.fd, size.min(MOST));
        Ok(move || Sqe::read(fd, vec![0; size], offset))
    }

    fn complete(&mut self, completion: Completion) {
        self.state = match (completion.result, completion.output) {
            (Err(errno), _) => State::Failed(errno),
            (Ok(0), _) => State::Closed,
            (Ok(_), Output::Buffer(data)) => State::Data(Bytes::from(data)),
            (Ok(_), _) => State::Failed(Errno::EIO),
        };
    }

    /// Begins a read, if the stream is idle.
    fn begin(&mut self, size: usize) {
        if !matches!(self.state, State::Idle) {
            return;
        }
        match self.entry(size) {
            Ok(entry) => {
                if let Some(ticket) = self.ring.begin(entry) {
                    self.state = State::Reading(ticket);
                }
            }
            Err(errno) => self.state = State::Failed(errno),
        }
    }

    /// Takes the result of a completed read.
    fn look(&mut self) {
        if let State::Reading(ticket) = &self.state
            && let Some(completion) = self.ring.take(ticket)
        {
            self.complete(completion);
        }
    }

    /// Ready when there is data, an error or the end.
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
                    match self.ring.poll_begin(entry, cx) {
                        Poll::Ready(ticket) => self.state = State::Reading(ticket),
                        Poll::Pending => return Poll::Pending,
                    }
                }
                State::Reading(ticket) => match self.ring.poll(ticket, cx) {
                    Poll::Ready(completion) => self.complete(completion),
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
            self.ring.forget(&ticket, true);
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
            self.ring.forget(ticket, true);
        }
        if let Some(open) = self.open.take().and_then(Arc::into_inner) {
            self.ring.close(open.fd);
        }
    }
}
