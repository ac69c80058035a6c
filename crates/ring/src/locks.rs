// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks of files, as they are asked for, and how who waits for one hears of it.
//!
//! # Rules
//! R1. Who waits takes no worker and no thread, but a place in the line of the lock. Who frees it
//!     leaves a word at the desk; what else there is to do the owner does.
//! R2. The task's own table has the locks, so no stand-in asks for them: it asks in place, also
//!     where the other calls are sent away. That takes the locks of the file's list, and with
//!     `SEEK_END` a look at how long the file is; where a back end keeps the locks
//!     (`InodeOps::lock`) it takes as long as that does.

use crate::pool::Job;
use openpath_abi::{Errno, Flock};
use openpath_sync::{Mutex, Parcel};
use openpath_vfs::lock_order::RingWaker;
use openpath_vfs::{Fd, LockWait, Task};
use std::sync::Arc;
use std::task::{Wake, Waker};

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LockAsk {
    /// `F_SETLK`.
    Table(Flock),
    /// `F_SETLKW`.
    TableLater(Flock),
    /// `F_OFD_SETLK`.
    File(Flock),
    /// `F_OFD_SETLKW`.
    FileLater(Flock),
    /// flock(2).
    Whole(u32),
}

impl LockAsk {
    /// Asks for it: what waits, if there is something to wait for.
    ///
    /// # Errors
    /// Those of [`Task::fcntl_setlkw_later`] and its kin.
    pub(crate) fn begin(&self, task: &Task, fd: Fd) -> Result<Option<LockWait>, Errno> {
        match self {
            Self::Table(ask) => task.fcntl_setlk(fd, ask).map(|()| None),
            Self::TableLater(ask) => task.fcntl_setlkw_later(fd, ask),
            Self::File(ask) => task.ofd_setlk(fd, ask).map(|()| None),
            Self::FileLater(ask) => task.ofd_setlkw_later(fd, ask),
            Self::Whole(op) => task.flock_later(fd, *op),
        }
    }
}

/// Leaves a word at a desk, once.
pub(crate) struct Bell(Mutex<Option<Parcel<Job>>, RingWaker>);

impl Bell {
    pub(crate) fn waker(word: Parcel<Job>) -> Waker {
        Waker::from(Arc::new(Self(Mutex::new(Some(word)))))
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let word = self.0.lock().take();
        if let Some(word) = word {
            Job::deliver(word);
        }
    }
}
