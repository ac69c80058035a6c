// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a worker: the task in which a thread handles requests, and the request that it handles.
//! All workers share one descriptor table.
//!
//! # Rules
//! R1. Each thread has its own task, so that none waits for one.
//! R2. Tasks act with every capability: the kernel has checked permissions before it asks
//!     (`default_permissions`). The caller matters only as the owner of new files, and for the
//!     set-id bits that a change of data strips.

use crate::in_flight::InFlight;
use openpath_abi::caps::CAP_FSETID;
use openpath_abi::fcntl::O_APPEND;
use openpath_abi::{Errno, OFlags};
use openpath_vfs::{Cred, Fd, Task};
use std::sync::Arc;

/// The user that a task acts for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ActingAs {
    /// New files belong to this user and group.
    Owner(u32, u32),
    /// The same, and changed files lose their set-id bits and capabilities.
    Stripped(u32, u32),
}

/// A task, and the request that it handles.
pub(crate) struct Worker {
    pub(crate) task: Task,
    pub(crate) in_flight: Arc<InFlight>,
    acting: ActingAs,
}

impl Worker {
    /// `count` tasks that share the table of `first`.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn group(first: &Task, count: usize) -> Result<Vec<Self>, Errno> {
        let make = |_| {
            let task = first.clone_files()?;
            task.set_cred(Cred::root());
            // Each request that creates a file brings its own.
            task.umask(0);
            Ok(Self {
                in_flight: Arc::new(InFlight::new(task.interrupter())),
                task,
                acting: ActingAs::Owner(0, 0),
            })
        };
        (0..count).map(make).collect()
    }

    /// Acts for this user from now on.
    pub(crate) fn act_as(&mut self, actor: ActingAs) {
        let (uid, gid, taken) = match actor {
            ActingAs::Owner(uid, gid) => (uid, gid, 0),
            ActingAs::Stripped(uid, gid) => (uid, gid, 1 << CAP_FSETID),
        };
        if self.acting != actor {
            let caps = Cred::root().caps & !taken;
            self.task.set_cred(Cred {
                caps,
                ..Cred::user(uid, gid, &[])
            });
            self.acting = actor;
        }
    }

    /// Runs `work` with these credentials.
    pub(crate) fn with_cred<T>(&mut self, cred: Cred, work: impl FnOnce(&Task) -> T) -> T {
        self.task.set_cred(cred);
        let done = work(&self.task);
        self.task.set_cred(Cred::root());
        self.acting = ActingAs::Owner(0, 0);
        done
    }

    /// Opens the file of an `O_PATH` descriptor. `O_APPEND` is used only for an append-only file,
    /// which cannot be opened without it; otherwise each request says where it writes.
    ///
    /// # Errors
    /// Those of opening it.
    pub(crate) fn reopen(&self, path_fd: Fd, flags: OFlags) -> Result<Fd, Errno> {
        match self.task.reopen(path_fd, flags & !O_APPEND) {
            Err(Errno::EPERM) if flags.contains(O_APPEND) => self.task.reopen(path_fd, flags),
            with_open => with_open,
        }
    }

    /// Opens a file as [`Worker::reopen`] does, for the duration of `work`.
    ///
    /// # Errors
    /// Those of opening it, and of `work`.
    pub(crate) fn with_open<T>(
        &mut self,
        path_fd: Fd,
        flags: OFlags,
        work: impl FnOnce(&mut Self, Fd) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let fd = self.reopen(path_fd, flags)?;
        let done = work(self, fd);
        let closed = self.task.close(fd);
        let done = done?;
        closed?;
        Ok(done)
    }
}
