// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines asynchronous operations on a file's data: a backend lets the host's kernel read into the
//! operation's buffers or write from them, and no thread waits.
//!
//! # Kernel analogue
//! A `kiocb` with `ki_complete`: begun by one thread, ended by another.
//!
//! # Rules
//! R1. The caller begins or drops an [`AsyncIo`] that it got; neither fails nor waits.
//! R2. An operation that has begun ends once, in whatever thread, with the buffers; until then they
//!     are the backend's, even if the thread that began it is gone.

use crate::bytes::Bytes;
use openpath_abi::Errno;

/// The kind of an operation on data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IoKind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A sync to stable storage.
    Sync,
}

/// An operation, with its buffers.
#[derive(Debug)]
pub enum IoRequest {
    /// Data is read into this, as much as its length.
    Read(Vec<u8>),
    /// This is written.
    Write(Bytes),
    /// Written data is brought to stable storage: data alone, or the attributes too.
    Sync(bool),
}

impl IoRequest {
    /// The kind of operation.
    #[must_use]
    pub fn kind(&self) -> IoKind {
        match self {
            Self::Read(_) => IoKind::Read,
            Self::Write(_) => IoKind::Write,
            Self::Sync(_) => IoKind::Sync,
        }
    }

    /// The number of its bytes; 0 for a sync.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Read(buf) => buf.len(),
            Self::Write(data) => data.len(),
            Self::Sync(_) => 0,
        }
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Called when it is done: how many bytes were moved.
pub type IoCompletion = Box<dyn FnOnce(IoRequest, Result<usize, Errno>) + Send>;

/// Moves data of one file, once.
pub trait AsyncIo: Send {
    /// Begins, at `offset` of the file; it does not wait. `then` is called once, when it is done,
    /// by another thread, which must not be kept waiting.
    fn begin(self: Box<Self>, request: IoRequest, offset: u64, then: IoCompletion);
}
