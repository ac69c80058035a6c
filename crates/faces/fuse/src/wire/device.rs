// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device: where requests come from and answers go to.
//!
//! Several threads read it. Each request goes to one of them, and what one of them writes is one
//! message.

use super::ONCE_MAX;
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// Room for the longest request: data, and what stands before it.
pub(crate) const REQUEST_MAX: usize = ONCE_MAX + 4096;

/// A descriptor of `/dev/fuse` that is mounted.
pub(crate) struct Device(OwnedFd);

impl Device {
    /// The device at this descriptor, which is waited at from now on.
    ///
    /// # Errors
    /// What keeps its flags from being changed.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags - rustix::fs::OFlags::NONBLOCK)?;
        Ok(Self(fd))
    }

    /// Waits for a request: its length, or nothing when the mount is gone.
    ///
    /// # Errors
    /// `EPERM`: it was never mounted. What else the kernel says.
    pub(crate) fn read(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.0, &mut *room) {
                Ok(len) => return Ok(Some(len)),
                // A signal; a request that was taken back before it came.
                Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => {}
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sends one message.
    ///
    /// # Errors
    /// `ENOENT`: nobody waits for that answer any more, or what is told is not known there. What
    /// else the kernel says.
    pub(crate) fn send(&self, message: &[u8]) -> rustix::io::Result<()> {
        loop {
            match rustix::io::write(&self.0, message) {
                Err(Errno::INTR) => {}
                sent => return sent.map(|_| ()),
            }
        }
    }
}
