// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drives the kernel's ring, and owns the slots that hold the memory its entries point to.
//!
//! # States of a slot
//! Free -> pushed (in the submission queue) -> the kernel's -> completed -> free. Once nothing is
//! submitted any more, entries that were pushed and not taken by the kernel can be taken back.
//!
//! # Rules
//! R1. An operation leaves its slot at its completion, or when the kernel never saw its entry and
//!     never will. If the ring is dropped earlier, its slots and their contents are leaked.

use crate::operation::Operation;
use io_uring::{IoUring, Probe, opcode, squeue, types};
use openpath_abi::Errno;
use openpath_vfs::IoRequest;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, AsRawFd as _};
use std::collections::VecDeque;
use std::io;

/// The user data of the poll of the eventfd; no slot has this number.
const WAKE: u64 = u64::MAX;

/// The result of an attempt to submit and wait.
pub(crate) enum Submission {
    /// Entries were submitted.
    Done,
    /// Retry later.
    Retry,
    /// The kernel refuses for good.
    Refused,
}

/// A completion.
pub(crate) enum Completion {
    /// The eventfd is readable.
    Wake,
    /// An operation, with its result.
    Operation(Operation, Result<usize, Errno>),
}

/// The kernel's ring.
pub(crate) struct Kernel {
    ring: IoUring,
    slots: Vec<Option<Operation>>,
    free: Vec<u32>,
    /// User data of what was pushed and the kernel has not taken.
    pushed: VecDeque<u64>,
}

/// The host's error as an [`Errno`].
fn errno(error: &io::Error) -> Errno {
    let raw = error.raw_os_error().and_then(Errno::checked);
    raw.unwrap_or(Errno::EIO)
}

impl Kernel {
    /// A ring for `places` operations at a time; only the calling thread submits.
    ///
    /// # Errors
    /// Those of io_uring_setup(2); `ENOSYS`: an opcode is missing.
    pub(crate) fn new(permits: u32) -> Result<Self, Errno> {
        // One more, for the poll of the eventfd.
        let entries = (permits + 1).next_power_of_two();
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun();
        let ring = match builder.build(entries) {
            // A kernel older than these flags.
            Err(error) if errno(&error) == Errno::EINVAL => IoUring::new(entries),
            ring => ring,
        };
        let ring = ring.map_err(|error| errno(&error))?;
        let mut probe = Probe::new();
        let probed = ring.submitter().register_probe(&mut probe);
        probed.map_err(|error| errno(&error))?;
        let needed = [
            opcode::Read::CODE,
            opcode::Write::CODE,
            opcode::Fsync::CODE,
            opcode::PollAdd::CODE,
        ];
        if !needed.into_iter().all(|code| probe.is_supported(code)) {
            return Err(Errno::ENOSYS);
        }
        Ok(Self {
            ring,
            slots: (0..permits).map(|_| None).collect(),
            free: (0..permits).rev().collect(),
            pushed: VecDeque::with_capacity(entries as usize),
        })
    }

    /// Puts an operation into a slot and its entry into the submission queue.
    ///
    /// # Errors
    /// The operation, if there is no room; there is room for `places` of them.
    pub(crate) fn push(&mut self, operation: Operation) -> Result<(), Operation> {
        let Some(at) = self.free.pop() else {
            return Err(operation);
        };
        let operation = self.slots[at as usize].insert(operation);
        let file = types::Fd(operation.file.as_fd().as_raw_fd());
        let length = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let entry = match &mut operation.request {
            IoRequest::Read(buf) => opcode::Read::new(file, buf.as_mut_ptr(), length(buf.len()))
                .offset(operation.offset)
                .build(),
            IoRequest::Write(data) => opcode::Write::new(file, data.as_ptr(), length(data.len()))
                .offset(operation.offset)
                .build(),
            IoRequest::Sync(data_only) => {
                let mut flags = types::FsyncFlags::empty();
                flags.set(types::FsyncFlags::DATASYNC, *data_only);
                opcode::Fsync::new(file).flags(flags).build()
            }
        };
        let mark = u64::from(at);
        // SAFETY: (1) the buffer is on the heap or static, so it stays in place while the operation
        // is in its slot, which is until its completion (R1). (2) It is as long as the entry says.
        // (3) The operation owns the buffer of a read, and nobody changes the data of a write.
        let pushed = unsafe { self.enqueue(&entry.user_data(mark)) };
        if pushed {
            self.pushed.push_back(mark);
            return Ok(());
        }
        self.free.push(at);
        self.slots[at as usize].take().map_or(Ok(()), Err)
    }

    /// Polls the eventfd once; returns whether the entry was pushed.
    pub(crate) fn poll_wake_fd(&mut self, wake_fd: impl AsFd) -> bool {
        let wake_fd = types::Fd(wake_fd.as_fd().as_raw_fd());
        let events = u32::from(PollFlags::IN.bits());
        let entry = opcode::PollAdd::new(wake_fd, events)
            .build()
            .user_data(WAKE);
        // SAFETY: it points to no memory.
        let pushed = unsafe { self.enqueue(&entry) };
        if pushed {
            self.pushed.push_back(WAKE);
        }
        pushed
    }

    /// # Safety
    /// What `entry` points to stays valid until its completion.
    unsafe fn enqueue(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: as the caller says.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    /// Submits what was pushed, and waits for a completion if `wait`.
    pub(crate) fn enter(&mut self, wait: bool) -> Submission {
        let entered = self.ring.submit_and_wait(usize::from(wait));
        let left = self.ring.submission().len();
        while self.pushed.len() > left {
            self.pushed.pop_front();
        }
        match entered.map_err(|error| errno(&error)) {
            Ok(_) | Err(Errno::EINTR) => Submission::Done,
            Err(Errno::EAGAIN | Errno::EBUSY | Errno::ENOMEM) => Submission::Retry,
            Err(_) => Submission::Refused,
        }
    }

    /// The next completion.
    pub(crate) fn next(&mut self) -> Option<Completion> {
        let completion = self.ring.completion().next()?;
        let mark = completion.user_data();
        if mark == WAKE {
            return Some(Completion::Wake);
        }
        let at = u32::try_from(mark).ok()?;
        let operation = self.slots.get_mut(at as usize)?.take()?;
        self.free.push(at);
        let result = completion.result();
        let moved = usize::try_from(result)
            .map_err(|_| Errno::checked(result.saturating_neg()).unwrap_or(Errno::EIO));
        Some(Completion::Operation(operation, moved))
    }

    /// The operations that the kernel has not taken, once [`Kernel::enter`] is not called any more.
    pub(crate) fn take_unsubmitted(&mut self) -> Vec<Operation> {
        let marks = std::mem::take(&mut self.pushed);
        let slots = marks
            .into_iter()
            .filter_map(|mark| usize::try_from(mark).ok());
        slots
            .filter_map(|at| self.slots.get_mut(at)?.take())
            .collect()
    }
}

impl Drop for Kernel {
    /// R1
    fn drop(&mut self) {
        let slots = std::mem::take(&mut self.slots);
        if slots.iter().any(Option::is_some) {
            std::mem::forget(slots);
        }
    }
}
