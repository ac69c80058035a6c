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
pub(crate) enum Received {
    /// A request of this length.
    Request(usize),
    /// Nothing that is not read yet.
    Empty,
    /// The mount is gone.
    Unmounted,
}

/// A descriptor of `/dev/fuse` that is mounted.
pub(crate) struct Device {
    fuse: OwnedFd,
    epoll_fd: OwnedFd,
    /// Says to all who wait that there will be no more.
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

    /// The next request that is to be read, if there is one.
    ///
    /// # Errors
    /// `EPERM`: it was never mounted. What else the kernel says.
    pub(crate) fn read(&self, buf: &mut [u8]) -> io::Result<Received> {
        self.read_from(self.as_fd(), buf)
    }

    fn read_from(&self, fuse: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<Received> {
        loop {
            match rustix::io::read(fuse, &mut *buf) {
                Ok(len) => return Ok(Received::Request(len)),
                Err(Errno::AGAIN) => return Ok(Received::Empty),
                // A signal; a request that was taken back before it came.
                Err(Errno::INTR | Errno::NOENT) => {}
                Err(Errno::NODEV | Errno::CONNABORTED) => {
                    // The others are told too.
                    rustix::io::write(&self.shutdown, &1u64.to_ne_bytes())?;
                    return Ok(Received::Unmounted);
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Waits until there may be one, which there was not, or for so long.
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

    /// Whether there is one now.
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

/// Reads requests, and sends the replies to them, for one thread. With a descriptor of its own a
/// thread shares no list of requests in progress with others; a reply goes to the descriptor that
/// its request came from.
pub(crate) struct Reader<'a> {
    device: &'a Device,
    own: Option<OwnedFd>,
}

impl<'a> Reader<'a> {
    /// A reader with a clone of the descriptor, if that is wanted and the kernel gives one.
    pub(crate) fn new(device: &'a Device, clone: bool) -> Self {
        let own = clone.then(|| clone_device(device).ok()).flatten();
        Self { device, own }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.own.as_ref().map_or(self.device.as_fd(), AsFd::as_fd)
    }

    /// The next request, if there is one.
    ///
    /// # Errors
    /// `EPERM`: it was never mounted. Others of the kernel.
    pub(crate) fn read(&self, buf: &mut [u8]) -> io::Result<Received> {
        self.device.read_from(self.fd(), buf)
    }

    /// As [`Device::send`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn send(&self, message: &[u8]) -> rustix::io::Result<()> {
        send(self.fd(), message)
    }
}

/// A clone of the device's descriptor (`FUSE_DEV_IOC_CLONE`).
fn clone_device(device: &Device) -> io::Result<OwnedFd> {
    let clone = openpath_uring::fuse::clone_device(device);
    let clone = clone.map_err(|errno| io::Error::from_raw_os_error(errno.raw()))?;
    set_nonblocking(&clone)?;
    Ok(clone)
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
