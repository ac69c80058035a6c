// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct open_how`, the argument of openat2(2).

/// How to open: flags, mode and resolve bits, all in 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct OpenHow {
    /// `O_*` of [`crate::fcntl`]; unknown bits are refused.
    pub flags: u64,
    /// Permission bits of a file to create; must be 0 where none is created.
    pub mode: u64,
    /// `RESOLVE_*` of [`crate::resolve`].
    pub resolve: u64,
}

impl OpenHow {
    /// Bytes of the first version of the structure, the least that openat2(2) takes.
    pub const SIZE_VER0: usize = 24;

    /// What is asked for, without any resolve bit.
    #[inline]
    #[must_use]
    pub const fn new(flags: u64, mode: u64) -> OpenHow {
        OpenHow {
            flags,
            mode,
            resolve: 0,
        }
    }

    /// The same with these resolve bits.
    #[inline]
    #[must_use]
    pub const fn resolve(self, resolve: u64) -> OpenHow {
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
            resolve: word(16),
        }
    }

    /// The bytes of the structure in native order.
    #[inline]
    #[must_use]
    pub fn to_bytes(self) -> [u8; OpenHow::SIZE_VER0] {
        let mut bytes = [0; OpenHow::SIZE_VER0];
        for (place, word) in bytes
            .chunks_exact_mut(8)
            .zip([self.flags, self.mode, self.resolve])
        {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

const _: () = assert!(size_of::<OpenHow>() == OpenHow::SIZE_VER0);
