// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines an operation on a file, the permit that it needs, and the state that the ring's thread
//! shares with the threads that start operations.

use openpath_sync::{Message, MessageList, Word};
use openpath_vfs::{IoCompletion, IoRequest};
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Shared by the ring's thread and all others.
pub(crate) struct Shared {
    pub(crate) operations: MessageList<Operation>,
    /// An eventfd; a write wakes the ring's thread.
    pub(crate) wake_fd: OwnedFd,
    pub(crate) permits: u64,
    /// Permits in use.
    pub(crate) in_use: Word,
    /// The ring was dropped: no more operations will come.
    pub(crate) closing: Word,
    /// The kernel takes no more entries: no permit is granted.
    pub(crate) refused: Word,
}

impl Shared {
    /// Wakes the ring's thread.
    pub(crate) fn wake(&self) {
        // It fails only if the counter is at its maximum, and then the thread is awake.
        let _written = rustix::io::write(&self.wake_fd, &1u64.to_ne_bytes());
    }

    pub(crate) fn post(&self, operation: Operation) {
        if self.operations.post(Message::new(operation)) {
            self.wake();
        }
    }

    /// Acquires a permit, if one is free (R3 of the crate).
    pub(crate) fn acquire(&self) -> bool {
        if self.refused.get() != 0 {
            return false;
        }
        let had = self.in_use.add(1);
        if had >= self.permits {
            self.in_use.sub(1);
        }
        had < self.permits
    }
}

/// A permit, returned when this is dropped.
pub(crate) struct Permit(pub(crate) Arc<Shared>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.in_use.sub(1);
        if self.0.closing.get() != 0 {
            self.0.wake();
        }
    }
}

/// One operation.
pub(crate) struct Operation {
    pub(crate) request: IoRequest,
    pub(crate) offset: u64,
    pub(crate) file: Box<dyn AsFd + Send>,
    pub(crate) then: IoCompletion,
    pub(crate) permit: Permit,
}
