// SPDX-License-Identifier: MIT OR Apache-2.0
//! What moves data by itself, with buffers of its own: how a backend has the host's kernel read and
//! write while nobody waits.
//!
//! # Kernel analogue
//! A `kiocb` with `ki_complete`: begun by one thread, ended by another.
//!
//! # Rules
//! R1. A carrier that was given is begun or dropped; neither fails nor waits.
//! R2. What is begun ends once, in whatever thread, with the buffers; until then they are the
//!     carrier's, whatever becomes of who began it.

use crate::bytes::Bytes;
use openpath_abi::Errno;

/// What is to be done with data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoKind {
    /// It is read.
    Read,
    /// It is written.
    Write,
    /// It is brought to stable storage.
    Sync,
}

/// What is to be moved, with its buffers.
#[derive(Debug)]
pub enum IoRequest {
    /// Data is read into this, as much as its length.
    Read(Vec<u8>),
    /// This is written.
    Write(Bytes),
    /// What was written is brought to stable storage: with data alone, or the attributes too.
    Sync(bool),
}

impl IoRequest {
    /// What is to be done.
    #[must_use]
    pub fn way(&self) -> IoKind {
        match self {
            Self::Read(_) => IoKind::Read,
            Self::Write(_) => IoKind::Write,
            Self::Sync(_) => IoKind::Sync,
        }
    }

    /// Its bytes; of a sync none.
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

/// What is called when it is done: how many bytes were moved.
pub type IoCompletion = Box<dyn FnOnce(IoRequest, Result<usize, Errno>) + Send>;

/// What will move data of one file, once.
pub trait AsyncIo: Send {
    /// Begins, at `offset` of the file; it does not wait. `then` is called once, when it is done,
    /// by another thread, which must not be kept waiting.
    fn begin(self: Box<Self>, cargo: IoRequest, offset: u64, then: IoCompletion);
}
