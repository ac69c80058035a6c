// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives requests of a FUSE mount by `io_uring`: the kernel writes each request into our memory
//! and reads the reply from there, and one system call does both.
//!
//! # Kernel analogue
//! FUSE over `io_uring` (`FUSE_IO_URING_CMD_REGISTER` and `_COMMIT_AND_FETCH`, Linux 6.14). Each
//! CPU has a queue; a request goes to an entry that was registered with the queue of the CPU on
//! which the requesting thread runs.
//!
//! # States of an entry
//! Ours -> registered: the kernel's -> a request came: ours -> its reply is committed: the kernel's
//! -> a request came ... -> ended, when the mount is gone or the kernel takes no rings.
//!
//! # Rules
//! R1. The kernel owns an entry's memory from submission to completion, and no code here reads or
//!     writes it meanwhile. Memory that the kernel still owns when a ring is dropped is leaked.
//! R2. A ring belongs to the thread that made it. The kernel does its work for the ring in that
//!     thread while it waits, and interrupts none of its calls.
//! R3. Commands are only safe for FUSE's device, so a ring is made for no other.

#[expect(unsafe_code, reason = "entries of the kernel's ring point to memory")]
mod sys;

use crate::errno::errno;
use openpath_abi::Errno;
use rustix::fs::{FileType, fstat, major, minor};
use std::collections::VecDeque;
use std::fmt;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;
use sys::{Command, Kernel};

/// The length of an entry's header (`fuse_uring_req_header`): the request's or reply's header, the
/// operation's own header, and the description of the payload.
pub const HEAD: usize = 288;
/// The offset in a header of the commit id, by which the kernel identifies the request.
const COMMIT_ID: usize = 264;
/// `/dev/fuse`: major and minor number.
const DEVICE: (u32, u32) = (10, 229);
/// The pause before a retry when the kernel is short of a resource.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// What [`FuseRing::wait`] returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingEvent {
    /// A request, in the entry with this number.
    Request(usize),
    /// No entry will get a request any more.
    End,
}

/// A ring with its entries.
///
/// ```
/// use openpath_abi::Errno;
/// use openpath_uring::fuse::FuseRing;
///
/// // What is not FUSE's is not asked.
/// let file = std::fs::File::open("/dev/null")?;
/// let ring = FuseRing::new(file, vec![0], 1 << 20, 0);
/// assert_eq!(ring.err(), Some(Errno::ENODEV));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct FuseRing<D> {
    kernel: Kernel,
    device: D,
    /// The queue of each entry.
    queues: Vec<u16>,
    /// Entries with requests that `wait` has not returned yet.
    ready: VecDeque<usize>,
    /// The number of entries that have not ended.
    live: usize,
    /// Why an entry ended, other than that the mount is gone.
    refused: Option<Errno>,
}

impl<D> fmt::Debug for FuseRing<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FuseRing")
            .field("live", &self.live)
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

impl<D: AsFd> FuseRing<D> {
    /// A ring of the calling thread, with an entry for each of `queues`. An entry has `room` bytes,
    /// of which the kernel leaves the first `slack` alone.
    ///
    /// # Errors
    /// `ENODEV`: the device is not `/dev/fuse`. `ENOSYS`, `EPERM`, `EINVAL`: the kernel has no
    /// rings, refuses them, or is too old. `EMFILE`, `ENOMEM`.
    pub fn new(device: D, queues: Vec<u16>, room: usize, slack: usize) -> Result<Self, Errno> {
        let stat = fstat(&device).map_err(errno)?;
        let is_char = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
        // R3
        if !is_char || (major(stat.st_rdev), minor(stat.st_rdev)) != DEVICE {
            return Err(Errno::ENODEV);
        }
        Ok(Self {
            kernel: Kernel::new(queues.len(), room, slack.min(room))?,
            device,
            ready: VecDeque::with_capacity(queues.len()),
            live: queues.len(),
            queues,
            refused: None,
        })
    }

    /// Registers all entries. Requests come here once every queue of the mount has one. From the
    /// kernel's first entry until then, requesting threads wait.
    ///
    /// # Errors
    /// The kernel's error, with which it gives up rings: requests come by read(2) then.
    pub fn register(&mut self) -> Result<(), Errno> {
        for (at, queue) in self.queues.iter().enumerate() {
            self.kernel
                .push(&self.device, at, Command::Register { queue: *queue })?;
        }
        self.enter(false)?;
        while let Some((at, result)) = self.kernel.next() {
            self.on_completion(at, result);
        }
        self.refused.map_or(Ok(()), Err)
    }

    /// Submits what was committed, and waits for the next request.
    ///
    /// # Errors
    /// The error of the submission; or, once no entry is left, the error with which the kernel
    /// refused one.
    pub fn wait(&mut self) -> Result<RingEvent, Errno> {
        loop {
            if let Some(at) = self.ready.pop_front() {
                return Ok(RingEvent::Request(at));
            }
            match self.kernel.next() {
                Some((at, result)) => self.on_completion(at, result),
                None if self.live == 0 => return self.refused.map_or(Ok(RingEvent::End), Err),
                None => self.enter(true)?,
            }
        }
    }

    /// The header and the buffer of an entry with a request; `None` if the kernel owns the entry.
    pub fn entry(&mut self, at: usize) -> Option<(&mut [u8; HEAD], &mut [u8])> {
        self.kernel.entry(at)
    }

    /// Commits the reply in an entry; the next [`FuseRing::wait`] hands it to the kernel.
    ///
    /// # Errors
    /// `EINVAL`: the entry has no request.
    pub fn commit(&mut self, at: usize) -> Result<(), Errno> {
        let (Some((head, _)), Some(queue)) = (self.kernel.entry(at), self.queues.get(at)) else {
            return Err(Errno::EINVAL);
        };
        let mut id = [0; 8];
        id.copy_from_slice(&head[COMMIT_ID..][..8]);
        let (queue, id) = (*queue, u64::from_ne_bytes(id));
        self.kernel
            .push(&self.device, at, Command::Commit { queue, id })
    }

    /// An entry was completed: with a request, or for good.
    fn on_completion(&mut self, at: usize, result: i32) {
        if result >= 0 {
            self.ready.push_back(at);
            return;
        }
        let errno = Errno::checked(result.saturating_neg()).unwrap_or(Errno::EIO);
        let gone = matches!(errno, Errno::ENOTCONN | Errno::ECONNABORTED);
        if self.kernel.retire(at) {
            self.live -= 1;
        }
        if !gone {
            self.refused = self.refused.or(Some(errno));
        }
    }

    fn enter(&mut self, wait: bool) -> Result<(), Errno> {
        loop {
            match self.kernel.enter(wait) {
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN | Errno::EBUSY | Errno::ENOMEM) => thread::sleep(RETRY_PAUSE),
                entered => return entered,
            }
        }
    }
}
