// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests locks of files for rings and futures, and tells the owner of a ring when a lock that it
//! waits for is free.
//!
//! # Rules
//! R1. A request that waits takes no worker and no thread, but a place in the queue of the lock.
//!     The thread that frees the lock posts an event to the mailbox; the owner does the rest.
//! R2. The locks belong to the task's own file table, so no proxy task requests them. The owner
//!     does, also with inline attempts switched off. That takes the locks of the file's list, and
//!     with `SEEK_END` reads the size of the file. Where a backend keeps the locks
//!     (`InodeOps::lock`) it takes as long as the backend.

use crate::job::Job;
use openpath_abi::{Errno, Flock};
use openpath_sync::{Message, Mutex};
use openpath_vfs::lock_order::RingWaker;
use openpath_vfs::{Fd, LockWait, Task};
use std::sync::Arc;
use std::task::{Wake, Waker};

/// A request for a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LockRequest {
    /// `F_SETLK`.
    Posix(Flock),
    /// `F_SETLKW`.
    PosixWait(Flock),
    /// `F_OFD_SETLK`.
    Ofd(Flock),
    /// `F_OFD_SETLKW`.
    OfdWait(Flock),
    /// flock(2).
    Flock(u32),
}

impl LockRequest {
    /// Requests the lock; returns the wait, if there is one.
    ///
    /// # Errors
    /// Those of [`Task::fcntl_setlkw_later`] and its kin.
    pub(crate) fn begin(&self, task: &Task, fd: Fd) -> Result<Option<LockWait>, Errno> {
        match self {
            Self::Posix(flock) => task.fcntl_setlk(fd, flock).map(|()| None),
            Self::PosixWait(flock) => task.fcntl_setlkw_later(fd, flock),
            Self::Ofd(flock) => task.ofd_setlk(fd, flock).map(|()| None),
            Self::OfdWait(flock) => task.ofd_setlkw_later(fd, flock),
            Self::Flock(op) => task.flock_later(fd, *op),
        }
    }
}

/// Posts an event to a mailbox, once.
pub(crate) struct LockWaker(Mutex<Option<Message<Job>>, RingWaker>);

impl LockWaker {
    pub(crate) fn waker(event: Message<Job>) -> Waker {
        Waker::from(Arc::new(Self(Mutex::new(Some(event)))))
    }
}

impl Wake for LockWaker {
    fn wake(self: Arc<Self>) {
        let event = self.0.lock().take();
        if let Some(event) = event {
            Job::deliver(event);
        }
    }
}
