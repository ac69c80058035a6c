// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of a FUSE mount by a ring of the kernel's: each comes into memory of ours, its answer
//! goes from there, and one call does both.
//!
//! # Kernel analogue
//! FUSE over `io_uring` (`FUSE_IO_URING_CMD_REGISTER` and `_COMMIT_AND_FETCH`, Linux 6.14): each
//! processor has a queue, and who asks is answered by entries that were registered with the queue
//! of the processor that he runs on.
//!
//! # States of an entry
//! Ours -> registered: the kernel's -> a request came: ours -> its answer is committed: the
//! kernel's -> a request came ... -> ended, when the mount is gone or the kernel takes no rings.
//!
//! # Rules
//! R1. The kernel has an entry's memory from the time it is handed over until its completion came;
//!     nobody here sees it meanwhile, and what the kernel still has when a ring goes is never
//!     freed.
//! R2. A ring is of the thread that made it: what the kernel does for it, it does in that thread
//!     while that waits, and interrupts none of its calls.
//! R3. What may be asked for with commands is what FUSE has: of no other device is a ring made.

#[expect(unsafe_code, reason = "entries of the kernel's ring point to memory")]
mod sys;

use openpath_abi::Errno;
use rustix::fs::{FileType, fstat, major, minor};
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;
use sys::{Command, Kernel};

/// The length of an entry's head (`fuse_uring_req_header`): the request's or the answer's header,
/// what its kind has first, and what is said of the payload.
pub const HEAD: usize = 288;
/// Where in a head the number stands by which the kernel knows the request again.
const COMMIT_ID: usize = 264;
/// `/dev/fuse`: a miscellaneous device, and which.
const DEVICE: (u32, u32) = (10, 229);
/// How long it waits where the kernel lacks something for the moment.
const MOMENT: Duration = Duration::from_millis(1);

/// What came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Came {
    /// A request, in the entry with this number.
    Request(usize),
    /// No entry will get any more.
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
    /// Of each entry, the queue.
    queues: Vec<u16>,
    /// Entries with requests that nobody was given yet.
    came: VecDeque<usize>,
    /// Entries that have not ended.
    live: usize,
    /// Why one ended, if that is not that the mount is gone.
    refused: Option<Errno>,
}

impl<D: AsFd> FuseRing<D> {
    /// A ring of the calling thread's, with an entry for each of these queues; an entry has `room`
    /// bytes, of which the kernel leaves the first `slack` alone.
    ///
    /// # Errors
    /// `ENODEV`: it is not `/dev/fuse`. `ENOSYS`, `EPERM`, `EINVAL`: the kernel has no rings, gives
    /// none, or is too old. `EMFILE`, `ENOMEM`.
    pub fn new(device: D, queues: Vec<u16>, room: usize, slack: usize) -> Result<Self, Errno> {
        let stat = fstat(&device).map_err(super::errno)?;
        let is_char = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
        // R3
        if !is_char || (major(stat.st_rdev), minor(stat.st_rdev)) != DEVICE {
            return Err(Errno::ENODEV);
        }
        Ok(Self {
            kernel: Kernel::new(queues.len(), room, slack.min(room))?,
            device,
            came: VecDeque::with_capacity(queues.len()),
            live: queues.len(),
            queues,
            refused: None,
        })
    }

    /// Registers all entries. Once every queue of the mount has one, requests come here, and until
    /// then, from when the kernel was told of rings, who asks waits.
    ///
    /// # Errors
    /// The kernel's, with which it gives rings up: requests come by read(2) then.
    pub fn register(&mut self) -> Result<(), Errno> {
        for (at, queue) in self.queues.iter().enumerate() {
            self.kernel
                .push(&self.device, at, Command::Register { queue: *queue })?;
        }
        self.enter(false)?;
        while let Some((at, result)) = self.kernel.next() {
            self.back(at, result);
        }
        self.refused.map_or(Ok(()), Err)
    }

    /// Hands over what was committed, and waits for the next request.
    ///
    /// # Errors
    /// What keeps the kernel from taking it; what it says of an answer that it does not take, once
    /// nothing else will come.
    pub fn wait(&mut self) -> Result<Came, Errno> {
        loop {
            if let Some(at) = self.came.pop_front() {
                return Ok(Came::Request(at));
            }
            match self.kernel.next() {
                Some((at, result)) => self.back(at, result),
                None if self.live == 0 => return self.refused.map_or(Ok(Came::End), Err),
                None => self.enter(true)?,
            }
        }
    }

    /// The head and the room of an entry that has a request; nothing of one that is the kernel's.
    pub fn entry(&mut self, at: usize) -> Option<(&mut [u8; HEAD], &mut [u8])> {
        self.kernel.entry(at)
    }

    /// Commits the answer that was put into an entry, which is the kernel's with the next
    /// [`FuseRing::wait`].
    ///
    /// # Errors
    /// `EINVAL`: it has no request.
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

    /// An entry has come back: with a request, or for good.
    fn back(&mut self, at: usize, result: i32) {
        if result >= 0 {
            self.came.push_back(at);
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
                Err(Errno::EAGAIN | Errno::EBUSY | Errno::ENOMEM) => thread::sleep(MOMENT),
                entered => return entered,
            }
        }
    }
}
