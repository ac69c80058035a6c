// SPDX-License-Identifier: MIT OR Apache-2.0
//! The task of a thread that answers. All share one descriptor table.
//!
//! # Rules
//! R1. A thread has a task to itself, so that none ever waits for one.
//! R2. Tasks act with every capability: the kernel has checked permissions before it asks
//!     (`default_permissions`). Who asks matters for what is made, which is his, and for what a
//!     change of data takes from a file.

use crate::seat::Seat;
use openpath_abi::Errno;
use openpath_abi::caps::CAP_FSETID;
use openpath_abi::fcntl::O_APPEND;
use openpath_vfs::{Cred, Fd, Task};
use std::sync::Arc;

/// Whom a task acts for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    /// What is made is this user's and this group's.
    Owner(u32, u32),
    /// The same, and what he changes loses its set-id bits and capabilities.
    Stripped(u32, u32),
}

/// A task, and where it answers.
pub(crate) struct Worker {
    pub(crate) task: Task,
    pub(crate) seat: Arc<Seat>,
    acting: Who,
}

impl Worker {
    /// `count` tasks beside `first`, whose table all share.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn some(first: &Task, count: usize) -> Result<Vec<Self>, Errno> {
        let make = |_| {
            let task = first.clone_files()?;
            task.set_cred(Cred::root());
            // Each request to make something comes with one.
            task.umask(0);
            Ok(Self {
                seat: Arc::new(Seat::new(task.interrupter())),
                task,
                acting: Who::Owner(0, 0),
            })
        };
        (0..count).map(make).collect()
    }

    /// Acts for this user from now on.
    pub(crate) fn act_for(&mut self, who: Who) {
        let (uid, gid, taken) = match who {
            Who::Owner(uid, gid) => (uid, gid, 0),
            Who::Stripped(uid, gid) => (uid, gid, 1 << CAP_FSETID),
        };
        if self.acting != who {
            let caps = Cred::root().caps & !taken;
            self.task.set_cred(Cred {
                caps,
                ..Cred::user(uid, gid, &[])
            });
            self.acting = who;
        }
    }

    /// Does something with other credentials.
    pub(crate) fn as_cred<T>(&mut self, cred: Cred, work: impl FnOnce(&Task) -> T) -> T {
        self.task.set_cred(cred);
        let done = work(&self.task);
        self.task.set_cred(Cred::root());
        self.acting = Who::Owner(0, 0);
        done
    }

    /// Opens what the descriptor `place` is at. `O_APPEND` is used for a file that is append-only
    /// and refuses to be opened without it; elsewhere requests say where they write.
    ///
    /// # Errors
    /// Those of opening it.
    pub(crate) fn reopen(&self, place: Fd, flags: u32) -> Result<Fd, Errno> {
        match self.task.reopen(place, flags & !O_APPEND) {
            Err(Errno::EPERM) if flags & O_APPEND != 0 => self.task.reopen(place, flags),
            opened => opened,
        }
    }

    /// Opens what the descriptor `place` is at, as [`Worker::reopen`], for the length of `work`.
    ///
    /// # Errors
    /// Those of opening it, and of `work`.
    pub(crate) fn opened<T>(
        &mut self,
        place: Fd,
        flags: u32,
        work: impl FnOnce(&mut Self, Fd) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let fd = self.reopen(place, flags)?;
        let done = work(self, fd);
        let closed = self.task.close(fd);
        let done = done?;
        closed?;
        Ok(done)
    }
}
