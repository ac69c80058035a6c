// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the table of a ring's direct descriptors: files in slots of the ring, which are not
//! descriptors of the task.
//!
//! # Kernel analogue
//! The fixed file table of `io_uring`: `io_fixed_fd_install`, `IORING_FILE_INDEX_ALLOC`.
//!
//! # Rules
//! R1. The slots are the file table of a proxy task that opens nothing itself, so a slot is used
//!     like a descriptor: without a lock, and without waiting.
//! R2. The table has one number more than slots, for a file on its way to its slot.

use openpath_abi::Errno;
use openpath_abi::fcntl::O_RDONLY;
use openpath_vfs::{Fd, OpenFile, Task};

/// The slots of a ring.
pub(crate) struct DirectTable {
    task: Option<Task>,
    slots: u32,
}

/// The most slots.
pub(crate) const SLOTS_MAX: u32 = 1 << 15;

impl DirectTable {
    /// `slots` empty slots, for files that `task` may open.
    ///
    /// # Errors
    /// `EINVAL` (too many), `ENOMEM`.
    pub(crate) fn new(task: &Task, slots: u32) -> Result<Self, Errno> {
        if slots > SLOTS_MAX {
            return Err(Errno::EINVAL);
        }
        let mut table = None;
        if slots > 0 {
            let task = task.proxy_task()?;
            // R2
            task.set_rlimit_nofile(u64::from(slots) + 1);
            table = Some(task);
        }
        Ok(Self { task: table, slots })
    }

    /// A table without slots.
    pub(crate) const fn none() -> Self {
        Self {
            task: None,
            slots: 0,
        }
    }

    /// The proxy task with the slots as descriptors.
    pub(crate) fn task(&self) -> Option<&Task> {
        self.task.as_ref()
    }

    /// A slot as a descriptor.
    pub(crate) fn fd(&self, slot: u32) -> Option<Fd> {
        (slot < self.slots).then(|| slot.cast_signed())
    }

    /// Stores a file in the lowest free slot.
    ///
    /// # Errors
    /// `ENFILE` (none is free), `ENOMEM`.
    pub(crate) fn add(&self, file: &OpenFile) -> Result<u32, Errno> {
        let task = self.task.as_ref().ok_or(Errno::ENXIO)?;
        let fd = task.install(file, O_RDONLY).map_err(full)?;
        let slot = fd.cast_unsigned();
        if slot < self.slots {
            return Ok(slot);
        }
        drop(task.take_file(fd)?);
        Err(Errno::ENFILE)
    }

    /// Stores a file in `slot`, and closes the one that was there.
    ///
    /// # Errors
    /// `ENXIO` (no slots), `EINVAL` (no such slot), `ENOMEM`.
    pub(crate) fn put(&self, slot: u32, file: &OpenFile) -> Result<(), Errno> {
        let task = self.task.as_ref().ok_or(Errno::ENXIO)?;
        let target = self.fd(slot).ok_or(Errno::EINVAL)?;
        let fd = task.install(file, O_RDONLY)?;
        if fd == target {
            return Ok(());
        }
        let placed = task.dup2(fd, target);
        drop(task.take_file(fd)?);
        placed.map(drop)
    }

    /// Empties a slot.
    pub(crate) fn clear(&self, slot: u32) {
        let fd = self.task.as_ref().zip(self.fd(slot));
        drop(fd.and_then(|(task, fd)| task.take_file(fd).ok()));
    }

    /// The file in a slot.
    ///
    /// # Errors
    /// `EBADF`.
    pub(crate) fn file(&self, slot: u32) -> Result<OpenFile, Errno> {
        let fd = self.fd(slot).ok_or(Errno::EBADF)?;
        self.task.as_ref().ok_or(Errno::EBADF)?.file(fd)
    }

    /// The slots in use, ascending.
    pub(crate) fn in_use(&self) -> Vec<u32> {
        let fds = self.task.as_ref().map(Task::descriptors);
        let fds = fds.unwrap_or_default();
        fds.into_iter().map(Fd::cast_unsigned).collect()
    }
}

/// The error of a full table, as in `io_uring`.
fn full(errno: Errno) -> Errno {
    if errno == Errno::EMFILE {
        Errno::ENFILE
    } else {
        errno
    }
}
