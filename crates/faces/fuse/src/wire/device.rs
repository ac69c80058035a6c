// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads requests from `/dev/fuse`, waits for them, and writes replies.
//!
//! Several threads read it. Each request goes to one of them, and each write is one message.
//!
//! # Rules
//! R1. Of sleeping threads the one that slept last is woken, because its caches are warm. The
//!     kernel wakes threads in read(2) in turn, so they sleep in epoll_wait(2).
//! R2. A request is signalled once, and two simultaneous requests may wake one thread. So a woken
//!     thread reads until there is nothing, and only then sleeps; `poll_group` sees to what is left
//!     meanwhile.

use super::ONCE_MAX;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Room for the longest request: its data, and what precedes it.
pub(crate) const REQUEST_MAX: usize = ONCE_MAX + 4096;

/// The result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Received {
    /// A request of this length.
    Request(usize),
    /// There is no request.
    Empty,
    /// The mount is gone.
    Unmounted,
}

/// A mounted descriptor of `/dev/fuse`.
pub(crate) struct Device {
    fuse: OwnedFd,
    epoll_fd: OwnedFd,
    /// Wakes all threads when the mount is gone.
    shutdown: OwnedFd,
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
        set_nonblocking(&fuse)?;
        let epoll_fd = epoll::create(CreateFlags::CLOEXEC)?;
        let shutdown = eventfd(0, EventfdFlags::CLOEXEC)?;
        let none = EventData::new_u64(0);
        epoll::add(&epoll_fd, &fuse, none, EventFlags::IN | EventFlags::ET)?;
        epoll::add(&epoll_fd, &shutdown, none, EventFlags::IN)?;
        Ok(Self {
            fuse,
            epoll_fd,
            shutdown,
        })
    }

    /// The next request, if there is one.
    ///
    /// # Errors
    /// `EPERM`: it was never mounted. Others of the kernel.
    pub(crate) fn read(&self, buf: &mut [u8]) -> io::Result<Received> {
        loop {
            match rustix::io::read(&self.fuse, &mut *buf) {
                Ok(len) => return Ok(Received::Request(len)),
                Err(Errno::AGAIN) => return Ok(Received::Empty),
                // A signal; a request that was cancelled before it was read.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(Errno::NODEV | Errno::CONNABORTED) => {
                    // The other threads end too.
                    rustix::io::write(&self.shutdown, &1u64.to_ne_bytes())?;
                    return Ok(Received::Unmounted);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sleeps until there may be a request, or until the timeout.
    ///
    /// # Errors
    /// Those of epoll_wait(2).
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(|time| Timespec {
            tv_sec: time.as_secs().cast_signed(),
            tv_nsec: time.subsec_nanos().into(),
        });
        let mut events = [Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }];
        match epoll::wait(&self.epoll_fd, &mut events[..], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether there is a request.
    pub(crate) fn has_request(&self) -> bool {
        let mut fds = [PollFd::new(&self.fuse, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&Timespec::default()));
        ready.is_ok_and(|n| n > 0)
    }

    /// Sends one message.
    ///
    /// # Errors
    /// `ENOENT`: the caller no longer waits for this reply, or the kernel does not know what a
    /// notification names. Others of the kernel.
    pub(crate) fn send(&self, message: &[u8]) -> rustix::io::Result<()> {
        send(&self.fuse, message)
    }
}

fn set_nonblocking(fuse: &OwnedFd) -> rustix::io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fuse)?;
    rustix::fs::fcntl_setfl(fuse, flags | OFlags::NONBLOCK)
}

fn send(fuse: impl AsFd, message: &[u8]) -> rustix::io::Result<()> {
    loop {
        match rustix::io::write(&fuse, message) {
            Err(Errno::INTR) => {}
            sent => return sent.map(|_| ()),
        }
    }
}
