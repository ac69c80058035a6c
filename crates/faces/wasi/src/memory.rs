// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and writes a guest's memory, checks every address, and defines how a call fails: by an
//! error code, or by a trap that ends the guest.
//!
//! # Rules
//! R1. An address outside the memory, or not aligned for its record, ends the guest with a trap, as
//!     preview1 says: [`Fault::Trap`]. No length of a guest makes the host allocate.

use crate::errno::Code;
use openpath_abi::Errno;

/// Why a call fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The guest gets this code.
    Code(Code),
    /// The guest ends with this trap.
    Trap(Trap),
}

/// Why a guest ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Trap {
    /// It passed an address outside its memory.
    OutOfBounds,
    /// It passed an unaligned address.
    Misaligned,
}

impl std::fmt::Display for Trap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::OutOfBounds => "the guest passed an address outside its memory",
            Self::Misaligned => "the guest passed an unaligned address",
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

/// The result of a call.
pub(crate) type Outcome<T = ()> = Result<T, Fault>;

/// A guest's memory during a call.
pub(crate) struct Memory<'m>(&'m mut [u8]);

/// A buffer of a guest: its address and length (`iovec`, `ciovec`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Iovec {
    /// The address.
    pub(crate) at: u32,
    /// The length in bytes.
    pub(crate) len: u32,
}

impl<'m> Memory<'m> {
    /// Wraps the bytes of a memory.
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

    /// The bytes of a buffer, for writing.
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

    /// Reads a path: bytes without a NUL.
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

    /// Checks that a record of `len` bytes, aligned to `align`, can be written at this address.
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

    /// Writes a record at an address that is a multiple of `align`.
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

    /// Writes 32 bits.
    ///
    /// # Errors
    /// As [`Memory::check`].
    #[inline]
    pub(crate) fn put_u32(&mut self, at: u32, value: u32) -> Result<(), Trap> {
        self.put(at, &value.to_le_bytes(), 4)
    }

    /// Writes 64 bits.
    ///
    /// # Errors
    /// As [`Memory::check`].
    #[inline]
    pub(crate) fn put_u64(&mut self, at: u32, value: u64) -> Result<(), Trap> {
        self.put(at, &value.to_le_bytes(), 8)
    }

    /// Reads a record of `N` bytes at an address that is a multiple of `align`.
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

    /// Reads the `n`th entry of the list of buffers at `at`.
    ///
    /// # Errors
    /// As [`Memory::check`].
    #[inline]
    pub(crate) fn iovec(&self, at: u32, n: u32) -> Result<Iovec, Trap> {
        let at = n
            .checked_mul(8)
            .and_then(|by| at.checked_add(by))
            .ok_or(Trap::OutOfBounds)?;
        let record: &[u8; 8] = self.record(at, 4)?;
        let [a, b, c, d, e, f, g, h] = *record;
        Ok(Iovec {
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
        assert_eq!(memory.iovec(8, 0), Ok(Iovec { at: 1, len: 0 }));
        assert_eq!(memory.iovec(0, u32::MAX), Err(Trap::OutOfBounds));
        assert_eq!(memory.path(0, 3), Ok(&[7, 7, 7][..]));
        assert_eq!(memory.path(8, 3), Err(Fault::Code(Code::Inval)));
    }
}
