// SPDX-License-Identifier: MIT OR Apache-2.0
//! The buffers of one read or write, taken in before anything is moved.
//!
//! # Kernel analogue
//! `import_iovec`.
//!
//! # Rules
//! R1. The list is read once, and checked whole: what a read puts where the list was changes
//!     nothing.
//! R2. Up to [`FEW`] buffers cost no allocation; more cost eight bytes each, and how many there may
//!     be is a limit of the guest.

use crate::errno::Code;
use crate::guest::Guest;
use crate::memory::{Memory, Outcome, Span};

/// Buffers that are kept without an allocation.
const FEW: usize = 16;
/// The most that one call moves (`MAX_RW_COUNT`).
const ONCE_MAX: u32 = 0x7fff_f000;

/// A list of buffers. They may lie over one another.
pub(super) enum Spans {
    Few([Span; FEW], usize),
    Many(Vec<Span>),
}

impl Spans {
    /// Takes in the `count` buffers at `iovs`, all of them within the memory; what is past
    /// [`ONCE_MAX`] bytes is left out.
    ///
    /// # Errors
    /// [`Code::Inval`] (too many, or longer together than any memory), and a trap for an address.
    pub(super) fn take(guest: &Guest, memory: &Memory<'_>, iovs: u32, count: u32) -> Outcome<Self> {
        if count > guest.limits.buffers {
            return Err(Code::Inval.into());
        }
        let mut spans = if count as usize <= FEW {
            Self::Few([Span::default(); FEW], count as usize)
        } else {
            Self::Many(vec![Span::default(); count as usize])
        };
        let mut bytes = 0u32;
        for (n, place) in (0..).zip(spans.all_mut()) {
            let span = memory.span(iovs, n)?;
            memory.bytes(span.at, span.len)?;
            let room = ONCE_MAX.saturating_sub(bytes);
            bytes = bytes.checked_add(span.len).ok_or(Code::Inval)?;
            *place = Span {
                at: span.at,
                len: span.len.min(room),
            };
        }
        Ok(spans)
    }

    fn all_mut(&mut self) -> &mut [Span] {
        match self {
            Self::Few(spans, count) => &mut spans[..*count],
            Self::Many(spans) => spans,
        }
    }

    /// Those that are not empty.
    pub(super) fn iter(&self) -> impl Iterator<Item = Span> {
        let all = match self {
            Self::Few(spans, count) => &spans[..*count],
            Self::Many(spans) => spans,
        };
        all.iter().copied().filter(|span| span.len > 0)
    }

    /// How long they are together.
    pub(super) fn bytes(&self) -> usize {
        self.iter().map(|span| span.len as usize).sum()
    }
}
