// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and sets the capacity of a pipe, for `F_GETPIPE_SZ` and `F_SETPIPE_SZ` of fcntl(2).
//!
//! # Kernel analogue
//! `pipe_fcntl`, `pipe_set_size`, `round_pipe_size`, `pipe_resize_ring`.

use super::end::PipeEnd;
use super::ring::SLOT;
use crate::config::Limits;
use crate::cred::Cred;
use openpath_abi::{Errno, caps};

/// The most slots: the largest ring that the kernel can allocate.
const SLOTS_MAX: u32 = 1 << 16;

/// Slots for so many bytes: a power of two.
///
/// # Errors
/// `EINVAL`: more than 2 GiB.
fn slots_for(bytes: u32) -> Result<u32, Errno> {
    if bytes > 1 << 31 {
        return Err(Errno::EINVAL);
    }
    Ok(bytes.div_ceil(SLOT as u32).max(1).next_power_of_two())
}

impl PipeEnd {
    /// How many bytes the pipe has room for.
    pub(crate) fn size(&self) -> u64 {
        let slots = self.pipe().state.lock().share.slots();
        u64::from(slots) * SLOT as u64
    }

    /// Sets the capacity to so many bytes, rounded up, on behalf of `cred`; the new capacity.
    ///
    /// # Errors
    /// `EINVAL` (more than 2 GiB), `EPERM` (more than before and than `pipe_max_size`), `ENOMEM`
    /// (more than there can be), `EBUSY` (more is in use), `EPERM` (more than before, and than the
    /// user may have).
    pub(crate) fn set_size(&self, bytes: u32, cred: &Cred, limits: &Limits) -> Result<u64, Errno> {
        let slots = slots_for(bytes)?;
        let size = u64::from(slots) * SLOT as u64;
        let mut state = self.pipe().state.lock();
        let grows = slots > state.share.slots();
        if grows && size > u64::from(limits.pipe_max_size) && !cred.capable(caps::CAP_SYS_RESOURCE)
        {
            return Err(Errno::EPERM);
        }
        if slots > SLOTS_MAX {
            return Err(Errno::ENOMEM);
        }
        if (slots as usize) < state.ring.slots() + state.reserved {
            return Err(Errno::EBUSY);
        }
        state.share.resize(slots, cred, limits)?;
        let wake = state.settle();
        drop(state);
        drop(wake);
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_two_of_pages() {
        let slots = [0, 1, 4096, 4097, 65536, 65537, 1 << 31].map(slots_for);
        assert_eq!(slots, [1, 1, 1, 2, 16, 32, 1 << 19].map(Ok));
        assert_eq!(slots_for((1 << 31) + 1), Err(Errno::EINVAL));
    }
}
