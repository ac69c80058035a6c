// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's ring, and the memory that its entries point to.
//!
//! # Rules
//! R1. An entry is pushed only while it is ours, and is the kernel's from then on until its
//!     completion is taken: only then is its memory shown to anybody.
//! R2. If this goes before, the memory of what the kernel has is leaked.

use super::HEAD;
use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};
use openpath_abi::Errno;
use rustix::fd::{AsFd, AsRawFd as _};
use std::io;

/// What FUSE does with an entry, by its numbers (`fuse_uring_cmd`).
pub(super) enum Command {
    /// The entry is of this queue from now on.
    Register { queue: u16 },
    /// Takes the answer to a request, and waits for the next.
    Commit { queue: u16, id: u64 },
}

/// Whose an entry is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Ours,
    Kernels,
    /// Ours for good.
    Ended,
}

/// An entry's memory.
struct Slot {
    head: Box<[u8; HEAD]>,
    room: Box<[u8]>,
    /// Where the head and the payload are and how long, as readv(2) has it.
    spans: Box<[usize; 4]>,
    whose: Whose,
}

/// The ring.
pub(super) struct Kernel {
    ring: IoUring<Entry128, cqueue::Entry>,
    slots: Vec<Slot>,
    slack: usize,
}

/// Where in an entry of a submission queue the number of spans stands, in words of 32 bits.
const LEN: usize = 6;

fn errno(error: &io::Error) -> Errno {
    let raw = error.raw_os_error().and_then(Errno::checked);
    raw.unwrap_or(Errno::EIO)
}

impl Kernel {
    /// A ring of this thread's with so many entries.
    pub(super) fn new(count: usize, room: usize, slack: usize) -> Result<Self, Errno> {
        let entries = u32::try_from(count).map_err(|_| Errno::EINVAL)?;
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun();
        let ring = builder.build(entries.max(1).next_power_of_two());
        let slot = || Slot {
            head: Box::new([0; HEAD]),
            room: vec![0; room].into_boxed_slice(),
            spans: Box::new([0; 4]),
            whose: Whose::Ours,
        };
        Ok(Self {
            ring: ring.map_err(|error| errno(&error))?,
            slots: (0..count).map(|_| slot()).collect(),
            slack,
        })
    }

    /// Puts a command for an entry into the queue; it is the kernel's then.
    ///
    /// # Errors
    /// `EINVAL`: it is not ours. `EBUSY`: there is no room, which there is for all of them.
    pub(super) fn push(
        &mut self,
        device: &impl AsFd,
        at: usize,
        what: Command,
    ) -> Result<(), Errno> {
        let slot = self.slots.get_mut(at).ok_or(Errno::EINVAL)?;
        if slot.whose != Whose::Ours {
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
        // SAFETY: an entry is 128 bytes in the kernel's layout, whatever the library calls its
        // fields, and aligned to 8: this word of it is the length that goes with the address.
        unsafe { words.add(LEN).write(2) };
        // SAFETY: (1) the device is FUSE's, whose commands touch the two spans that were there with
        // the registration and nothing else. (2) They are on the heap and stay where they are while
        // the slot is, which is until the completion came (R1) or for ever (R2). (3) Nobody looks
        // at them while the slot is the kernel's.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| Errno::EBUSY)?;
        slot.whose = Whose::Kernels;
        Ok(())
    }

    /// Hands over what was pushed, and waits until something comes back, if `wait`.
    pub(super) fn enter(&mut self, wait: bool) -> Result<(), Errno> {
        let entered = self.ring.submit_and_wait(usize::from(wait));
        entered.map(|_| ()).map_err(|error| errno(&error))
    }

    /// An entry that has come back, with its result.
    pub(super) fn next(&mut self) -> Option<(usize, i32)> {
        let completion = self.ring.completion().next()?;
        let at = usize::try_from(completion.user_data()).ok()?;
        self.slots.get_mut(at)?.whose = Whose::Ours;
        Some((at, completion.result()))
    }

    /// An entry is not used any more; whether it was until now.
    pub(super) fn retire(&mut self, at: usize) -> bool {
        let Some(slot) = self.slots.get_mut(at) else {
            return false;
        };
        let was = slot.whose == Whose::Ours;
        slot.whose = Whose::Ended;
        was
    }

    /// The memory of an entry that is ours.
    pub(super) fn entry(&mut self, at: usize) -> Option<(&mut [u8; HEAD], &mut [u8])> {
        let slot = self.slots.get_mut(at)?;
        (slot.whose == Whose::Ours).then_some((&mut *slot.head, &mut *slot.room))
    }
}

impl Drop for Kernel {
    /// R2
    fn drop(&mut self) {
        for slot in self.slots.drain(..) {
            if slot.whose == Whose::Kernels {
                std::mem::forget(slot);
            }
        }
    }
}
