// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the fields of a FUSE request one after the other, and none beyond its bytes.

use std::fmt;

/// Why bytes are not a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Malformed(pub(crate) &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The bytes that are still to be read.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Malformed("too short"))?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Skips `len` bytes.
    pub(crate) fn skip(&mut self, len: usize) -> Result<(), Malformed> {
        self.bytes(len).map(|_| ())
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (first, rest) = self.0.split_at_checked(len).ok_or(Malformed("too short"))?;
        self.0 = rest;
        Ok(first)
    }

    /// Bytes up to the next 0, which is skipped.
    pub(crate) fn name(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self.0.iter().position(|b| *b == 0);
        let name = self.bytes(end.ok_or(Malformed("a name without an end"))?)?;
        self.skip(1)?;
        Ok(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_is_read_beyond_the_end() {
        let bytes = [1, 0, 0, 0, b'a', b'b', 0, b'c'];
        let mut fields = Fields::new(&bytes);
        assert_eq!(fields.u32(), Ok(u32::from_ne_bytes([1, 0, 0, 0])));
        assert_eq!(fields.name(), Ok(&b"ab"[..]));
        assert!(fields.name().is_err());
        assert!(fields.u64().is_err());
        assert!(fields.bytes(2).is_err());
        assert_eq!(fields.bytes(1), Ok(&b"c"[..]));
        assert!(fields.skip(1).is_err());
    }
}
