// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements an open end of a pipe: reading, writing, readiness, and its close.
//!
//! # Kernel analogue
//! `pipefifo_fops`: `anon_pipe_read`, `anon_pipe_write`, `pipe_poll`, `pipe_ioctl`, `pipe_release`.

use super::ring::{Content, RemainingPieces};
use super::{Pipe, State};
use crate::file_ops::{FileOps, Io, RWF_COMMON};
use openpath_abi::Errno;
use openpath_abi::falloc::RWF_NOWAIT;
use openpath_abi::fcntl::O_DIRECT;
use openpath_abi::poll::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDNORM, POLLWRNORM};
use openpath_sync::no_fault_injection;
use std::any::Any;
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

/// How much there is to read.
const FIONREAD: u32 = 0x541b;
/// The most that one call moves (`MAX_RW_COUNT`).
const ONCE_MAX: usize = 0x7fff_f000;

/// An end of a pipe: counted in it until this is dropped.
pub(crate) struct PipeEnd {
    pipe: Arc<Pipe>,
    reads: bool,
    writes: bool,
    /// As long as no further writer has come, there is no hangup (`f_pipe`).
    seen: u64,
}

impl State {
    /// One end more.
    pub(super) fn enter(&mut self, reads: bool, writes: bool) {
        self.readers += u32::from(reads);
        self.readers_seen += u64::from(reads);
        self.writers += u32::from(writes);
        self.writers_seen += u64::from(writes);
    }

    /// How many readers, or writers, ever came.
    pub(super) fn came(&self, readers: bool) -> u64 {
        if readers {
            self.readers_seen
        } else {
            self.writers_seen
        }
    }
}

impl PipeEnd {
    /// An end that is counted already.
    pub(super) fn new(pipe: Arc<Pipe>, reads: bool, writes: bool, seen: u64) -> Self {
        Self {
            pipe,
            reads,
            writes,
            seen,
        }
    }

    pub(super) fn pipe(&self) -> &Pipe {
        &self.pipe
    }

    pub(super) fn reads(&self) -> bool {
        self.reads
    }

    /// Whether it is of a FIFO: one with a name, which has times.
    pub(crate) fn is_named(&self) -> bool {
        !self.pipe.anonymous
    }

    /// Reads the data there is, or waits for some.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`.
    fn pop(&self, bufs: &mut [IoSliceMut<'_>], io: &Io<'_>) -> Result<usize, Errno> {
        if bufs.iter().all(|buf| buf.is_empty()) {
            return Ok(0);
        }
        let lock = &self.pipe.state;
        let mut state = lock.lock();
        loop {
            let done = state.ring.pop(bufs, ONCE_MAX);
            if done > 0 || state.writers == 0 {
                let wake = state.settle();
                drop(state);
                drop(wake);
                return Ok(done);
            }
            let sleeper = io.wait.ok_or(Errno::EAGAIN)?;
            let waited = lock.wait(state, |state| &mut state.reading, sleeper, None);
            state = waited.map_err(|_| Errno::EINTR)?;
        }
    }

    /// Writes all of it, waiting for room. If it cannot wait, or is interrupted, writes as much as
    /// there was room for.
    ///
    /// # Errors
    /// If nothing was written: `EPIPE` (no readers), `EAGAIN`, `EINTR`, `ENOMEM`.
    fn push(&self, pieces: &[IoSlice<'_>], io: &Io<'_>) -> Result<usize, Errno> {
        let mut rest = RemainingPieces::new(pieces, ONCE_MAX);
        if rest.is_empty() {
            return Ok(0);
        }
        let content = if io.flags.contains(O_DIRECT) {
            Content::Packet
        } else {
            Content::Bytes
        };
        let lock = &self.pipe.state;
        let mut state = lock.lock();
        let mut done = 0;
        if state.readers != 0 {
            done = state.ring.merge(&mut rest)?;
        }
        let ended = loop {
            if rest.is_empty() {
                break None;
            }
            match state.fill(&mut rest, content, &mut done) {
                Ok(true) => break None,
                Ok(false) => {}
                Err(errno) => break Some(errno),
            }
            let Some(sleeper) = io.wait else {
                break Some(Errno::EAGAIN);
            };
            // Readers make the room that this waits for.
            drop(state.settle());
            match lock.wait(state, |state| &mut state.writing, sleeper, None) {
                Ok(held) => state = held,
                Err((held, _)) => {
                    state = held;
                    break Some(Errno::EINTR);
                }
            }
        };
        let wake = state.settle();
        drop(state);
        drop(wake);
        match ended {
            Some(errno) if done == 0 => Err(errno),
            _ => Ok(done),
        }
    }
}

impl State {
    /// Fills free slots; whether everything was written.
    ///
    /// # Errors
    /// `EPIPE`, `ENOMEM`.
    fn fill(
        &mut self,
        rest: &mut RemainingPieces<'_, '_>,
        content: Content,
        done: &mut usize,
    ) -> Result<bool, Errno> {
        if self.readers == 0 {
            return Err(Errno::EPIPE);
        }
        while self.room() > 0 {
            *done += self.ring.push(rest, content)?;
            if rest.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for PipeEnd {
    /// `pipe_release`
    fn drop(&mut self) {
        let _step = no_fault_injection();
        let mut state = self.pipe.state.lock();
        state.readers -= u32::from(self.reads);
        state.writers -= u32::from(self.writes);
        let wake = state.settle();
        drop(state);
        drop(wake);
    }
}

impl FileOps for PipeEnd {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read(&self, buf: &mut [u8], io: &Io<'_>) -> Option<Result<usize, Errno>> {
        Some(self.pop(&mut [IoSliceMut::new(buf)], io))
    }

    fn read_vectored(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        io: &Io<'_>,
    ) -> Option<Result<usize, Errno>> {
        Some(self.pop(bufs, io))
    }

    fn write(&self, data: &[u8], io: &Io<'_>) -> Option<Result<usize, Errno>> {
        Some(self.push(&[IoSlice::new(data)], io))
    }

    fn write_vectored(&self, data: &[IoSlice<'_>], io: &Io<'_>) -> Option<Result<usize, Errno>> {
        Some(self.push(data, io))
    }

    fn rw_flags(&self, _writing: bool) -> u32 {
        // The open of a FIFO does not set `FMODE_NOWAIT`.
        let nowait = if self.is_named() { 0 } else { RWF_NOWAIT };
        RWF_COMMON | nowait
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn splices(&self, writing: bool) -> bool {
        writing
    }

    fn poll(&self) -> Option<u32> {
        let state = self.pipe.state.lock();
        let mut ready = 0;
        if self.reads {
            if !state.ring.is_empty() {
                ready |= POLLIN | POLLRDNORM;
            }
            if state.writers == 0 && state.writers_seen != self.seen {
                ready |= POLLHUP;
            }
        }
        if self.writes {
            if state.room() > 0 {
                ready |= POLLOUT | POLLWRNORM;
            }
            if state.readers == 0 {
                ready |= POLLERR;
            }
        }
        Some(ready)
    }

    fn ioctl(&self, request: u32, arg: &mut [u8]) -> Option<Result<i64, Errno>> {
        if request != FIONREAD {
            return Some(Err(Errno::ENOTTY));
        }
        let Some(to) = arg.first_chunk_mut::<4>() else {
            return Some(Err(Errno::EFAULT));
        };
        let bytes = self.pipe.state.lock().ring.bytes();
        *to = i32::try_from(bytes).unwrap_or(i32::MAX).to_ne_bytes();
        Some(Ok(0))
    }
}
