// SPDX-License-Identifier: MIT OR Apache-2.0
//! An answer: a header (`fuse_out_header`), and what it brings.
//!
//! # Rules
//! R1. It is put together in a buffer that stays, and never grows: what does not fit makes it the
//!     answer `EIO`.

use super::ONCE_MAX;
use openpath_abi::Errno;

/// The length of its header.
pub(crate) const SIZE: usize = 16;
/// Numbers of errors that the kernel takes are below.
const ERRORS: i32 = 512;

/// An answer being put together.
pub(crate) struct Answer {
    bytes: Box<[u8]>,
    end: usize,
    unique: u64,
    error: i32,
}

impl Answer {
    /// Room for the longest.
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; SIZE + ONCE_MAX].into_boxed_slice(),
            end: SIZE,
            unique: 0,
            error: 0,
        }
    }

    /// Room for one that brings nothing.
    pub(crate) fn brief() -> Self {
        Self {
            bytes: vec![0; SIZE].into_boxed_slice(),
            end: SIZE,
            unique: 0,
            error: 0,
        }
    }

    /// Begins the answer to the request with this number.
    pub(crate) fn begin(&mut self, unique: u64) {
        (self.end, self.unique, self.error) = (SIZE, unique, 0);
    }

    /// Makes it an error, whatever it brought.
    pub(crate) fn fail(&mut self, errno: Errno) {
        let raw = errno.raw();
        let known = raw > 0 && raw < ERRORS;
        self.error = if known { raw } else { Errno::EIO.raw() };
        self.end = SIZE;
    }

    /// How much it brings so far.
    pub(crate) fn len(&self) -> usize {
        self.end - SIZE
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let room = self.bytes.get_mut(self.end..self.end + bytes.len());
        match room {
            Some(room) if self.error == 0 => {
                room.copy_from_slice(bytes);
                self.end += bytes.len();
            }
            Some(_) => {}
            None => self.fail(Errno::EIO),
        }
    }

    pub(crate) fn u16(&mut self, n: u16) {
        self.bytes(&n.to_ne_bytes());
    }

    pub(crate) fn u32(&mut self, n: u32) {
        self.bytes(&n.to_ne_bytes());
    }

    pub(crate) fn u64(&mut self, n: u64) {
        self.bytes(&n.to_ne_bytes());
    }

    /// So many zeros.
    pub(crate) fn zeros(&mut self, len: usize) {
        const ZEROS: [u8; 128] = [0; 128];
        for at in (0..len).step_by(ZEROS.len()) {
            self.bytes(&ZEROS[..(len - at).min(ZEROS.len())]);
        }
    }

    /// Has up to `len` bytes filled in; `fill` says how many it did.
    ///
    /// # Errors
    /// Those of `fill`.
    pub(crate) fn filled(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
    ) -> Result<(), Errno> {
        let room = &mut self.bytes[self.end..];
        let len = len.min(room.len());
        let done = fill(&mut room[..len])?;
        self.end += done.min(len);
        Ok(())
    }

    /// The whole message.
    pub(crate) fn message(&mut self) -> &[u8] {
        let len = self.end as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[4..8].copy_from_slice(&(-self.error).to_ne_bytes());
        self.bytes[8..SIZE].copy_from_slice(&self.unique.to_ne_bytes());
        &self.bytes[..self.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_an_error_and_nothing_else() {
        let mut answer = Answer::new();
        answer.begin(9);
        answer.u32(5);
        assert_eq!(answer.message().len(), 20);
        answer.zeros(ONCE_MAX);
        answer.u32(5);
        let message = answer.message();
        assert_eq!(message.len(), SIZE);
        assert_eq!(message[4..8], (-Errno::EIO.raw()).to_ne_bytes());
        assert_eq!(message[8..], 9u64.to_ne_bytes());
    }

    #[test]
    fn what_is_filled_in_is_what_was_said() {
        let mut answer = Answer::new();
        answer.begin(1);
        let filled = answer.filled(10, |room| {
            room[..3].copy_from_slice(b"abc");
            Ok(3)
        });
        assert_eq!(filled, Ok(()));
        assert_eq!(answer.message()[SIZE..], *b"abc");
        assert_eq!(answer.filled(1, |_| Err(Errno::EIO)), Err(Errno::EIO));
        let all = answer.filled(usize::MAX, |room| Ok(room.len()));
        assert_eq!((all, answer.message().len()), (Ok(()), SIZE + ONCE_MAX));
    }
}
