// SPDX-License-Identifier: MIT OR Apache-2.0
//! A guest's memory, with every address checked.
//!
//! # Rules
//! R1. An address that is not in the memory, or not a multiple of what lies there, ends the guest
//!     with a trap, as preview1 says: [`Fault::Trap`]. Nothing is allocated by what a guest says.

use crate::errno::Code;
use openpath_abi::Errno;

/// Why a call does not succeed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The guest is told.
    Code(Code),
    /// The guest ends.
    Trap(Trap),
}

/// Why a guest ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trap {
    /// It passed an address outside of its memory.
    OutOfBounds,
    /// It passed an address that is not aligned.
    Misaligned,
}

impl std::fmt::Display for Trap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::OutOfBounds => "the guest passed an address outside of its memory",
            Self::Misaligned => "the guest passed an address that is not aligned",
        })
    }
}

impl std::error::Error for Trap {}

impl From<Code> for Fault {
    fn from(code: Code) -> Self {
        Self::Code(code)
    }
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Code(errno.into())
    }
}

impl From<Trap> for Fault {
    fn from(trap: Trap) -> Self {
        Self::Trap(trap)
    }
}

/// What a call answers.
pub(crate) type Outcome<T = ()> = Result<T, Fault>;

/// A guest's memory during a call.
pub(crate) struct Memory<'m>(&'m mut [u8]);

/// A buffer of a guest: where, and how long (`iovec`, `ciovec`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    /// Its address.
    pub(crate) at: u32,
    /// Its length in bytes.
    pub(crate) len: u32,
}

impl<'m> Memory<'m> {
    /// The memory of these bytes.
    #[must_use]
    pub(crate) fn new(bytes: &'m mut [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes of a buffer.
    ///
    /// # Errors
    /// [`Trap::OutOfBounds`].
    #[inline]
    pub(crate) fn bytes(&self, at: u32, len: u32) -> Result<&[u8], Trap> {
        let at = at as usize;
        self.0.get(at..at + len as usize).ok_or(Trap::OutOfBounds)
    }

    /// The bytes of a buffer, to be written.
    ///
    /// # Errors
    /// [`Trap::OutOfBounds`].
    #[inline]
    pub(crate) fn bytes_mut(&mut self, at: u32, len: u32) -> Result<&mut [u8], Trap> {
        let at = at as usize;
        self.0
            .get_mut(at..at + len as usize)
            .ok_or(Trap::OutOfBounds)
    }

    /// A path: bytes without a NUL.
    ///
    /// # Errors
    /// [`Trap::OutOfBounds`], [`Code::NameTooLong`], [`Code::Inval`] (a NUL).
    #[inline]
    pub(crate) fn path(&self, at: u32, len: u32) -> Outcome<&[u8]> {
        let path = self.bytes(at, len)?;
        if path.len() >= openpath_abi::limits::PATH_MAX {
            return Err(Code::NameTooLong.into());
        }
        if path.contains(&0) {
            return Err(Code::Inval.into());
        }
        Ok(path)
    }

    /// Whether a record of `len` bytes, aligned to `align`, can be written there.
    ///
    /// # Errors
    /// [`Trap::Misaligned`], [`Trap::OutOfBounds`].
    #[inline]
    pub(crate) fn check(&self, at: u32, len: u32, align: u32) -> Result<(), Trap> {
        if !at.is_multiple_of(align) {
            return Err(Trap::Misaligned);
        }
        self.bytes(at, len).map(|_| ())
    }

    /// Writes a record that lies at a multiple of `align`.
    ///
    /// # Errors
    /// As [`Memory::check`].
    #[inline]
    pub(crate) fn put(&mut self, at: u32, record: &[u8], align: u32) -> Result<(), Trap> {
        if !at.is_multiple_of(align) {
            return Err(Trap::Misaligned);
        }
        self.bytes_mut(at, record.len() as u32)?
            .copy_from_slice(record);
        Ok(())
    }

    /// Writes a number of 32 bits.
    ///
    /// # Errors
    /// As [`Memory::check`].
    #[inline]
    pub(crate) fn put_u32(&mut self, at: u32, value: u32) -> Result<(), Trap> {
        self.put(at, &value.to_le_bytes(), 4)
    }

    /// Writes a number of 64 bits.
    ///
    /// # Errors
    /// As [`Memory::check`].
    #[inline]
    pub(crate) fn put_u64(&mut self, at: u32, value: u64) -> Result<(), Trap> {
        self.put(at, &value.to_le_bytes(), 8)
    }

    /// The record of `N` bytes that lies at a multiple of `align`.
    ///
    /// # Errors
    /// As [`Memory::check`].
    #[inline]
    pub(crate) fn record<const N: usize>(&self, at: u32, align: u32) -> Result<&[u8; N], Trap> {
        if !at.is_multiple_of(align) {
            return Err(Trap::Misaligned);
        }
        let bytes = self.bytes(at, N as u32)?;
        bytes.first_chunk().ok_or(Trap::OutOfBounds)
    }

    /// The `n`th of the buffers at `at`.
    ///
    /// # Errors
    /// As [`Memory::check`].
    #[inline]
    pub(crate) fn span(&self, at: u32, n: u32) -> Result<Span, Trap> {
        let at = n
            .checked_mul(8)
            .and_then(|by| at.checked_add(by))
            .ok_or(Trap::OutOfBounds)?;
        let record: &[u8; 8] = self.record(at, 4)?;
        let [a, b, c, d, e, f, g, h] = *record;
        Ok(Span {
            at: u32::from_le_bytes([a, b, c, d]),
            len: u32::from_le_bytes([e, f, g, h]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_at_both_ends() {
        let mut bytes = [7; 16];
        let mut memory = Memory::new(&mut bytes);
        assert_eq!(memory.bytes(16, 0), Ok(&[][..]));
        assert_eq!(memory.bytes(17, 0), Err(Trap::OutOfBounds));
        assert_eq!(memory.bytes(15, 2), Err(Trap::OutOfBounds));
        assert_eq!(memory.bytes(u32::MAX, u32::MAX), Err(Trap::OutOfBounds));
        assert_eq!(memory.put_u32(2, 1), Err(Trap::Misaligned));
        assert_eq!(memory.put_u32(16, 1), Err(Trap::OutOfBounds));
        assert_eq!(memory.put_u64(8, 1), Ok(()));
        assert_eq!(memory.span(8, 0), Ok(Span { at: 1, len: 0 }));
        assert_eq!(memory.span(0, u32::MAX), Err(Trap::OutOfBounds));
        assert_eq!(memory.path(0, 3), Ok(&[7, 7, 7][..]));
        assert_eq!(memory.path(8, 3), Err(Fault::Code(Code::Inval)));
    }
}
