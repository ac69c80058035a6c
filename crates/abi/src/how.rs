// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines `struct open_how`, the argument of openat2(2), and converts it to bytes and back.

use crate::fcntl::OFlags;
use crate::mode::Mode;
use crate::resolve::ResolveFlags;

/// How to open: flags, mode and resolve bits, all in 64 bits. A caller with numbers from a wire
/// fills in the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct OpenHow {
    /// `O_*` of [`crate::fcntl`]; unknown bits are refused.
    pub flags: u64,
    /// Permission bits of a file to create; must be 0 where none is created.
    pub mode: u64,
    /// `RESOLVE_*` of [`crate::resolve`].
    pub resolve: ResolveFlags,
}

impl OpenHow {
    /// Bytes of the first version of the structure, the least that openat2(2) takes.
    pub const SIZE_VER0: usize = 24;

    /// What is asked for, without any resolve bit.
    #[inline]
    #[must_use]
    pub fn new(flags: OFlags, mode: impl Into<Mode>) -> OpenHow {
        OpenHow {
            flags: u64::from(flags.bits()),
            mode: u64::from(mode.into().bits()),
            resolve: ResolveFlags::empty(),
        }
    }

    /// The same with these resolve bits.
    #[inline]
    #[must_use]
    pub const fn resolve(self, resolve: ResolveFlags) -> OpenHow {
        OpenHow { resolve, ..self }
    }

    /// The structure from its bytes in native order.
    #[inline]
    #[must_use]
    pub fn from_bytes(bytes: &[u8; OpenHow::SIZE_VER0]) -> OpenHow {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(word)
        };
        OpenHow {
            flags: word(0),
            mode: word(8),
            resolve: ResolveFlags::from_bits_retain(word(16)),
        }
    }

    /// The bytes of the structure in native order.
    #[inline]
    #[must_use]
    pub fn to_bytes(self) -> [u8; OpenHow::SIZE_VER0] {
        let mut bytes = [0; OpenHow::SIZE_VER0];
        for (place, word) in
            bytes
                .chunks_exact_mut(8)
                .zip([self.flags, self.mode, self.resolve.bits()])
        {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

const _: () = assert!(size_of::<OpenHow>() == OpenHow::SIZE_VER0);
