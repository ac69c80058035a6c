// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device: where requests come from and answers go to.
//!
//! Several threads read it. Each request goes to one of them, and what one of them writes is one
//! message.
//!
//! # Rules
//! R1. Of threads that have nothing to do the one that was last at work is woken, which is warm.
//!     Those that wait in read(2) the kernel wakes in turn; so they wait in epoll_wait(2).
//! R2. A request is told once, and two that come together may wake one thread. Who is woken reads
//!     until there is nothing, and only then waits; `shift` sees to what is left meanwhile.

use super::ONCE_MAX;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Room for the longest request: data, and what stands before it.
pub(crate) const REQUEST_MAX: usize = ONCE_MAX + 4096;

/// What came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Came {
    /// A request of this length.
    Request(usize),
    /// Nothing that is not read yet.
    Nothing,
    /// The mount is gone.
    End,
}

/// A descriptor of `/dev/fuse` that is mounted.
pub(crate) struct Device {
    fuse: OwnedFd,
    waits: OwnedFd,
    /// Says to all who wait that there will be no more.
    end: OwnedFd,
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fuse.as_fd()
    }
}

impl Device {
    /// The device at this descriptor.
    ///
    /// # Errors
    /// Those of epoll_create1(2), eventfd(2) and fcntl(2).
    pub(crate) fn new(fuse: OwnedFd) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&fuse)?;
        rustix::fs::fcntl_setfl(&fuse, flags | OFlags::NONBLOCK)?;
        let waits = epoll::create(CreateFlags::CLOEXEC)?;
        let end = eventfd(0, EventfdFlags::CLOEXEC)?;
        let none = EventData::new_u64(0);
        epoll::add(&waits, &fuse, none, EventFlags::IN | EventFlags::ET)?;
        epoll::add(&waits, &end, none, EventFlags::IN)?;
        Ok(Self { fuse, waits, end })
    }

    /// The next request that is to be read, if there is one.
    ///
    /// # Errors
    /// `EPERM`: it was never mounted. What else the kernel says.
    pub(crate) fn read(&self, room: &mut [u8]) -> io::Result<Came> {
        loop {
            match rustix::io::read(&self.fuse, &mut *room) {
                Ok(len) => return Ok(Came::Request(len)),
                Err(Errno::AGAIN) => return Ok(Came::Nothing),
                // A signal; a request that was taken back before it came.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(Errno::NODEV | Errno::CONNABORTED) => {
                    // The others are told too.
                    rustix::io::write(&self.end, &1u64.to_ne_bytes())?;
                    return Ok(Came::End);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Waits until there may be one, which there was not, or for so long.
    ///
    /// # Errors
    /// Those of epoll_wait(2).
    pub(crate) fn wait(&self, at_most: Option<Duration>) -> io::Result<()> {
        let at_most = at_most.map(|time| Timespec {
            tv_sec: time.as_secs().cast_signed(),
            tv_nsec: time.subsec_nanos().into(),
        });
        let mut events = [Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }];
        match epoll::wait(&self.waits, &mut events[..], at_most.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether there is one now.
    pub(crate) fn has_more(&self) -> bool {
        let mut fds = [PollFd::new(&self.fuse, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&Timespec::default()));
        ready.is_ok_and(|n| n > 0)
    }

    /// Sends one message.
    ///
    /// # Errors
    /// `ENOENT`: nobody waits for that answer any more, or what is told is not known there. What
    /// else the kernel says.
    pub(crate) fn send(&self, message: &[u8]) -> rustix::io::Result<()> {
        loop {
            match rustix::io::write(&self.fuse, message) {
                Err(Errno::INTR) => {}
                sent => return sent.map(|_| ()),
            }
        }
    }
}
