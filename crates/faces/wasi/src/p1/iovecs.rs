// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies the list of buffers of one read or write from the guest's memory, and checks it, before
//! any data is transferred.
//!
//! # Kernel analogue
//! `import_iovec`.
//!
//! # Rules
//! R1. The list is read once and checked as a whole: a read that overwrites the list has no effect
//!     on the call.
//! R2. Up to [`FEW`] buffers need no allocation; more need eight bytes each, and a limit of the
//!     guest bounds their number.

use crate::errno::Code;
use crate::guest::Guest;
use crate::memory::{Iovec, Memory, Outcome};

/// The most buffers without an allocation.
const FEW: usize = 16;
/// The most bytes of one call (`MAX_RW_COUNT`).
const ONCE_MAX: u32 = 0x7fff_f000;

/// A list of buffers, which may overlap.
pub(super) enum Iovecs {
    Few([Iovec; FEW], usize),
    Many(Vec<Iovec>),
}

impl Iovecs {
    /// Reads the `count` buffers at `iovs`, which must all be within the memory; bytes beyond
    /// [`ONCE_MAX`] are left out.
    ///
    /// # Errors
    /// [`Code::Inval`] (too many buffers, or longer together than any memory), and a trap for a bad
    /// address.
    pub(super) fn take(guest: &Guest, memory: &Memory<'_>, iovs: u32, count: u32) -> Outcome<Self> {
        if count > guest.limits.buffers {
            return Err(Code::Inval.into());
        }
        let mut iovecs = if count as usize <= FEW {
            Self::Few([Iovec::default(); FEW], count as usize)
        } else {
            Self::Many(vec![Iovec::default(); count as usize])
        };
        let mut bytes = 0u32;
        for (n, slot) in (0..).zip(iovecs.all_mut()) {
            let iovec = memory.iovec(iovs, n)?;
            memory.bytes(iovec.at, iovec.len)?;
            let room = ONCE_MAX.saturating_sub(bytes);
            bytes = bytes.checked_add(iovec.len).ok_or(Code::Inval)?;
            *slot = Iovec {
                at: iovec.at,
                len: iovec.len.min(room),
            };
        }
        Ok(iovecs)
    }

    fn all_mut(&mut self) -> &mut [Iovec] {
        match self {
            Self::Few(iovecs, count) => &mut iovecs[..*count],
            Self::Many(iovecs) => iovecs,
        }
    }

    /// The buffers that are not empty.
    pub(super) fn iter(&self) -> impl Iterator<Item = Iovec> {
        let all = match self {
            Self::Few(iovecs, count) => &iovecs[..*count],
            Self::Many(iovecs) => iovecs,
        };
        all.iter().copied().filter(|iovec| iovec.len > 0)
    }

    /// The sum of their lengths.
    pub(super) fn bytes(&self) -> usize {
        self.iter().map(|iovec| iovec.len as usize).sum()
    }
}
