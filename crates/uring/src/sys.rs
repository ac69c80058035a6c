// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's ring, and the slots in which lives what its entries point to.
//!
//! # States of a slot
//! Free -> pushed (in the submission queue) -> the kernel's -> its completion came -> free. What
//! was pushed and not taken by the kernel can be had back where nothing is submitted any more.
//!
//! # Rules
//! R1. An order leaves its slot when its completion came, or when the kernel never saw its entry
//!     and never will. If this goes before, slots are leaked with what is in them.

use crate::keeper::Order;
use io_uring::{IoUring, Probe, opcode, squeue, types};
use openpath_abi::Errno;
use openpath_vfs::Cargo;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, AsRawFd as _};
use std::collections::VecDeque;
use std::io;

/// What marks the completion that says that the bell rang; no slot has this number.
const BELL: u64 = u64::MAX;

/// What came of an attempt to hand entries over and to wait.
pub(crate) enum Entered {
    /// They were.
    Fine,
    /// Not now.
    Later,
    /// Neither now nor ever.
    Refused,
}

/// What has come back.
pub(crate) enum Back {
    /// The bell rang.
    Bell,
    /// This was done.
    Done(Order, Result<usize, Errno>),
}

/// The kernel's ring.
pub(crate) struct Kernel {
    ring: IoUring,
    slots: Vec<Option<Order>>,
    free: Vec<u32>,
    /// By their marks, what was pushed and the kernel has not taken.
    pushed: VecDeque<u64>,
}

/// The host's error, as ours.
fn errno(error: &io::Error) -> Errno {
    let raw = error.raw_os_error().and_then(Errno::checked);
    raw.unwrap_or(Errno::EIO)
}

impl Kernel {
    /// A ring for so many orders at a time, submitted to by this thread alone.
    ///
    /// # Errors
    /// Those of io_uring_setup(2); `ENOSYS`: it lacks an operation.
    pub(crate) fn new(places: u32) -> Result<Self, Errno> {
        // One more, for the bell.
        let entries = (places + 1).next_power_of_two();
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun();
        let ring = match builder.build(entries) {
            // Older than those.
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
            slots: (0..places).map(|_| None).collect(),
            free: (0..places).rev().collect(),
            pushed: VecDeque::with_capacity(entries as usize),
        })
    }

    /// Puts an order into a slot and its entry into the queue.
    ///
    /// # Errors
    /// The order: there is no room, which there is for as many as there are places.
    pub(crate) fn push(&mut self, order: Order) -> Result<(), Order> {
        let Some(at) = self.free.pop() else {
            return Err(order);
        };
        let order = self.slots[at as usize].insert(order);
        let file = types::Fd(order.file.as_fd().as_raw_fd());
        let length = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let entry = match &mut order.cargo {
            Cargo::Read(buf) => opcode::Read::new(file, buf.as_mut_ptr(), length(buf.len()))
                .offset(order.offset)
                .build(),
            Cargo::Write(data) => opcode::Write::new(file, data.as_ptr(), length(data.len()))
                .offset(order.offset)
                .build(),
            Cargo::Sync(data_only) => {
                let mut flags = types::FsyncFlags::empty();
                flags.set(types::FsyncFlags::DATASYNC, *data_only);
                opcode::Fsync::new(file).flags(flags).build()
            }
        };
        let mark = u64::from(at);
        // SAFETY: (1) the buffer is on the heap or there for ever, so it stays where it is while
        // the order is in its slot, which is until its completion came (R1). (2) It is as long as
        // the entry says. (3) What is read into is the order's own, and what is written nobody
        // changes.
        let pushed = unsafe { self.enqueue(&entry.user_data(mark)) };
        if pushed {
            self.pushed.push_back(mark);
            return Ok(());
        }
        self.free.push(at);
        self.slots[at as usize].take().map_or(Ok(()), Err)
    }

    /// Has the next ring of the bell come back.
    pub(crate) fn listen(&mut self, bell: impl AsFd) -> bool {
        let bell = types::Fd(bell.as_fd().as_raw_fd());
        let events = u32::from(PollFlags::IN.bits());
        let entry = opcode::PollAdd::new(bell, events).build().user_data(BELL);
        // SAFETY: it points to nothing.
        let pushed = unsafe { self.enqueue(&entry) };
        if pushed {
            self.pushed.push_back(BELL);
        }
        pushed
    }

    /// # Safety
    /// What `entry` points to is valid until its completion came.
    unsafe fn enqueue(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: as the caller says.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }

    /// Hands over what was pushed, and waits until something comes back, if `wait`.
    pub(crate) fn enter(&mut self, wait: bool) -> Entered {
        let entered = self.ring.submit_and_wait(usize::from(wait));
        let left = self.ring.submission().len();
        while self.pushed.len() > left {
            self.pushed.pop_front();
        }
        match entered.map_err(|error| errno(&error)) {
            Ok(_) | Err(Errno::EINTR) => Entered::Fine,
            Err(Errno::EAGAIN | Errno::EBUSY | Errno::ENOMEM) => Entered::Later,
            Err(_) => Entered::Refused,
        }
    }

    /// The next that has come back.
    pub(crate) fn next(&mut self) -> Option<Back> {
        let completion = self.ring.completion().next()?;
        let mark = completion.user_data();
        if mark == BELL {
            return Some(Back::Bell);
        }
        let at = u32::try_from(mark).ok()?;
        let order = self.slots.get_mut(at as usize)?.take()?;
        self.free.push(at);
        let result = completion.result();
        let moved = usize::try_from(result)
            .map_err(|_| Errno::checked(result.saturating_neg()).unwrap_or(Errno::EIO));
        Some(Back::Done(order, moved))
    }

    /// What the kernel has not taken, once [`Kernel::enter`] is not called any more.
    pub(crate) fn take_back(&mut self) -> Vec<Order> {
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
