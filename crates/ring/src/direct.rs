// SPDX-License-Identifier: MIT OR Apache-2.0
//! Direct descriptors: files that a ring keeps in slots of its own, which are nobody's descriptors.
//!
//! # Kernel analogue
//! The fixed file table of `io_uring`: `io_fixed_fd_install`, `IORING_FILE_INDEX_ALLOC`.
//!
//! # Rules
//! R1. The slots are the table of a stand-in that opens nothing by itself, so a slot is used as a
//!     descriptor is: without a lock, and without a wait.
//! R2. There is one number more than slots, where a file stands until it is in its place.

use openpath_abi::Errno;
use openpath_vfs::{Fd, OpenFile, Task};

/// The slots of a ring.
pub(crate) struct Direct {
    task: Option<Task>,
    slots: u32,
}

/// The most slots.
pub(crate) const SLOTS_MAX: u32 = 1 << 15;

impl Direct {
    /// `slots` empty ones, for files that `task` may open.
    ///
    /// # Errors
    /// `EINVAL` (too many), `ENOMEM`.
    pub(crate) fn new(task: &Task, slots: u32) -> Result<Self, Errno> {
        if slots > SLOTS_MAX {
            return Err(Errno::EINVAL);
        }
        let mut keeper = None;
        if slots > 0 {
            let task = task.stand_in()?;
            // R2
            task.set_rlimit_nofile(u64::from(slots) + 1);
            keeper = Some(task);
        }
        Ok(Self {
            task: keeper,
            slots,
        })
    }

    /// Without any.
    pub(crate) const fn none() -> Self {
        Self {
            task: None,
            slots: 0,
        }
    }

    /// What has the slots for descriptors.
    pub(crate) fn task(&self) -> Option<&Task> {
        self.task.as_ref()
    }

    /// A slot as a descriptor.
    pub(crate) fn fd(&self, slot: u32) -> Option<Fd> {
        (slot < self.slots).then(|| slot.cast_signed())
    }

    /// Keeps a file in the lowest free slot.
    ///
    /// # Errors
    /// `ENFILE` (none is free), `ENOMEM`.
    pub(crate) fn add(&self, file: &OpenFile) -> Result<u32, Errno> {
        let task = self.task.as_ref().ok_or(Errno::ENXIO)?;
        let fd = task.install(file, 0).map_err(full)?;
        let slot = fd.cast_unsigned();
        if slot < self.slots {
            return Ok(slot);
        }
        drop(task.take_file(fd)?);
        Err(Errno::ENFILE)
    }

    /// Keeps a file in `slot`; what was there is closed.
    ///
    /// # Errors
    /// `ENXIO` (no slots), `EINVAL` (no such slot), `ENOMEM`.
    pub(crate) fn put(&self, slot: u32, file: &OpenFile) -> Result<(), Errno> {
        let task = self.task.as_ref().ok_or(Errno::ENXIO)?;
        let place = self.fd(slot).ok_or(Errno::EINVAL)?;
        let fd = task.install(file, 0)?;
        if fd == place {
            return Ok(());
        }
        let placed = task.dup2(fd, place);
        drop(task.take_file(fd)?);
        placed.map(drop)
    }

    /// Empties a slot.
    pub(crate) fn clear(&self, slot: u32) {
        let place = self.task.as_ref().zip(self.fd(slot));
        drop(place.and_then(|(task, fd)| task.take_file(fd).ok()));
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

/// A full table, as `io_uring` says it.
fn full(errno: Errno) -> Errno {
    if errno == Errno::EMFILE {
        Errno::ENFILE
    } else {
        errno
    }
}
