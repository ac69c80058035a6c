// SPDX-License-Identifier: MIT OR Apache-2.0
//! Drives the kernel's ring of FUSE requests, and owns the memory that its entries point to.
//!
//! # Rules
//! R1. An entry is pushed only while it is ours, and belongs to the kernel from then until its
//!     completion is taken. Only after that is its memory accessible again.
//! R2. If the ring is dropped earlier, the memory of the kernel's entries is leaked.

use super::HEAD;
use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};
use openpath_abi::Errno;
use rustix::fd::{AsFd, AsRawFd as _};
use std::io;

/// The commands of FUSE, by their numbers (`fuse_uring_cmd`).
pub(super) enum Command {
    /// Registers the entry with this queue.
    Register { queue: u16 },
    /// Commits the reply to a request, and fetches the next one.
    Commit { queue: u16, id: u64 },
}

/// The owner of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Us,
    Kernel,
    /// Ours, and never pushed again.
    Ended,
}

/// An entry's memory.
struct Slot {
    head: Box<[u8; HEAD]>,
    room: Box<[u8]>,
    /// Address and length of header and payload, as for readv(2).
    spans: Box<[usize; 4]>,
    owner: Owner,
}

/// The ring.
pub(super) struct Kernel {
    ring: IoUring<Entry128, cqueue::Entry>,
    slots: Vec<Slot>,
    slack: usize,
}

/// The index of the field `len`, the number of spans, in a submission queue entry seen as 32-bit
/// words.
const LEN: usize = 6;

fn errno(error: &io::Error) -> Errno {
    let raw = error.raw_os_error().and_then(Errno::checked);
    raw.unwrap_or(Errno::EIO)
}

impl Kernel {
    /// A ring of this thread with `count` entries.
    pub(super) fn new(count: usize, room: usize, slack: usize) -> Result<Self, Errno> {
        let entries = u32::try_from(count).map_err(|_| Errno::EINVAL)?;
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun();
        let ring = builder.build(entries.max(1).next_power_of_two());
        let slot = || Slot {
            head: Box::new([0; HEAD]),
            room: vec![0; room].into_boxed_slice(),
            spans: Box::new([0; 4]),
            owner: Owner::Us,
        };
        Ok(Self {
            ring: ring.map_err(|error| errno(&error))?,
            slots: (0..count).map(|_| slot()).collect(),
            slack,
        })
    }

    /// Pushes a command for an entry, which is the kernel's then.
    ///
    /// # Errors
    /// `EINVAL`: the entry is not ours. `EBUSY`: there is no room; there is room for all entries.
    pub(super) fn push(
        &mut self,
        device: &impl AsFd,
        at: usize,
        what: Command,
    ) -> Result<(), Errno> {
        let slot = self.slots.get_mut(at).ok_or(Errno::EINVAL)?;
        if slot.owner != Owner::Us {
            return Err(Errno::EINVAL);
        }
        let (op, queue, id) = match what {
            Command::Register { queue } => (1, queue, 0),
            Command::Commit { queue, id } => (2, queue, id),
        };
        let mut command = [0; 80];
        command[8..16].copy_from_slice(&id.to_ne_bytes());
        command[16..18].copy_from_slice(&queue.to_ne_bytes());
        let payload = &mut slot.room[self.slack..];
        *slot.spans = [
            slot.head.as_mut_ptr().expose_provenance(),
            HEAD,
            payload.as_mut_ptr().expose_provenance(),
            payload.len(),
        ];
        let spans = slot.spans.as_ptr().expose_provenance() as u64;
        let file = types::Fd(device.as_fd().as_raw_fd());
        let entry = opcode::UringCmd80::new(file, op).cmd(command);
        let mut entry = entry.addr(Some(spans)).build().user_data(at as u64);
        let words = (&raw mut entry).cast::<u32>();
        // SAFETY: an entry is 128 bytes in the kernel's layout, whatever the library names its
        // fields, and aligned to 8. This word of it is the length that belongs to the address.
        unsafe { words.add(LEN).write(2) };
        // SAFETY: (1) the device is FUSE's, and its commands access only the two spans that were
        // registered. (2) They are on the heap and stay in place as long as the slot does, which is
        // until the completion (R1) or for ever (R2). (3) No code accesses them while the slot is
        // the kernel's.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| Errno::EBUSY)?;
        slot.owner = Owner::Kernel;
        Ok(())
    }

    /// Submits what was pushed, and waits for a completion if `wait`.
    pub(super) fn enter(&mut self, wait: bool) -> Result<(), Errno> {
        let entered = self.ring.submit_and_wait(usize::from(wait));
        entered.map(|_| ()).map_err(|error| errno(&error))
    }

    /// The next completed entry, with its result.
    pub(super) fn next(&mut self) -> Option<(usize, i32)> {
        let completion = self.ring.completion().next()?;
        let at = usize::try_from(completion.user_data()).ok()?;
        self.slots.get_mut(at)?.owner = Owner::Us;
        Some((at, completion.result()))
    }

    /// Ends an entry; returns whether it was in use until now.
    pub(super) fn retire(&mut self, at: usize) -> bool {
        let Some(slot) = self.slots.get_mut(at) else {
            return false;
        };
        let was = slot.owner == Owner::Us;
        slot.owner = Owner::Ended;
        was
    }

    /// The memory of an entry that is ours.
    pub(super) fn entry(&mut self, at: usize) -> Option<(&mut [u8; HEAD], &mut [u8])> {
        let slot = self.slots.get_mut(at)?;
        (slot.owner == Owner::Us).then_some((&mut *slot.head, &mut *slot.room))
    }
}

impl Drop for Kernel {
    /// R2
    fn drop(&mut self) {
        for slot in self.slots.drain(..) {
            if slot.owner == Owner::Kernel {
                std::mem::forget(slot);
            }
        }
    }
}
