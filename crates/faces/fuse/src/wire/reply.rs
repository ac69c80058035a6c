// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds a reply: a header (`fuse_out_header`) and a body.
//!
//! # Rules
//! R1. A reply is built in a given buffer and never grows beyond it: one that does not fit becomes
//!     the error `EIO`.
//! R2. Header and body are placed as the request's way wants: together in a [`ReplyBuffer`], or
//!     apart in an entry of a ring.

use super::ONCE_MAX;
use openpath_abi::Errno;

/// The length of its header.
pub(crate) const SIZE: usize = 16;
/// The kernel accepts error numbers below this.
const ERRORS: i32 = 512;

/// A reply that is being built.
pub(crate) struct ReplyBuilder<'a> {
    room: &'a mut [u8],
    len: usize,
    unique: u64,
    error: i32,
}

/// A finished reply: its header, and the length of its body in the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reply {
    pub(crate) head: [u8; SIZE],
    pub(crate) len: usize,
}

/// A buffer for the longest reply, as one message.
pub(crate) struct ReplyBuffer(Box<[u8]>);

impl ReplyBuffer {
    pub(crate) fn new() -> Self {
        Self(vec![0; SIZE + ONCE_MAX].into_boxed_slice())
    }

    /// The room for the body.
    pub(crate) fn body(&mut self) -> &mut [u8] {
        &mut self.0[SIZE..]
    }

    /// The whole message.
    pub(crate) fn message(&mut self, reply: &Reply) -> &[u8] {
        self.0[..SIZE].copy_from_slice(&reply.head);
        &self.0[..SIZE + reply.len]
    }
}

impl<'a> ReplyBuilder<'a> {
    /// Begins the reply to the request with this number.
    pub(crate) fn new(room: &'a mut [u8], unique: u64) -> Self {
        Self {
            room,
            len: 0,
            unique,
            error: 0,
        }
    }

    /// Makes it an error, and drops its body.
    pub(crate) fn fail(&mut self, errno: Errno) {
        let raw = errno.raw();
        let known = raw > 0 && raw < ERRORS;
        self.error = if known { raw } else { Errno::EIO.raw() };
        self.len = 0;
    }

    /// The length of the body so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let room = self.room.get_mut(self.len..self.len + bytes.len());
        match room {
            Some(room) if self.error == 0 => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
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

    /// Adds zeros.
    pub(crate) fn zeros(&mut self, len: usize) {
        const ZEROS: [u8; 128] = [0; 128];
        for at in (0..len).step_by(ZEROS.len()) {
            self.bytes(&ZEROS[..(len - at).min(ZEROS.len())]);
        }
    }

    /// Has `fill` add up to `len` bytes; `fill` returns how many.
    ///
    /// # Errors
    /// Those of `fill`.
    pub(crate) fn fill_with(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
    ) -> Result<(), Errno> {
        let room = &mut self.room[self.len..];
        let len = len.min(room.len());
        let done = fill(&mut room[..len])?;
        self.len += done.min(len);
        Ok(())
    }

    /// Finishes the reply.
    pub(crate) fn done(&self) -> Reply {
        let mut head = [0; SIZE];
        head[..4].copy_from_slice(&((SIZE + self.len) as u32).to_ne_bytes());
        head[4..8].copy_from_slice(&(-self.error).to_ne_bytes());
        head[8..].copy_from_slice(&self.unique.to_ne_bytes());
        Reply {
            head,
            len: self.len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_does_not_fit_is_an_error_without_a_body() {
        let mut buffer = ReplyBuffer::new();
        let mut reply = ReplyBuilder::new(buffer.body(), 9);
        reply.u32(5);
        assert_eq!(reply.done().len, 4);
        reply.zeros(ONCE_MAX);
        reply.u32(5);
        let done = reply.done();
        assert_eq!(done.len, 0);
        let message = buffer.message(&done);
        assert_eq!(message.len(), SIZE);
        assert_eq!(message[4..8], (-Errno::EIO.raw()).to_ne_bytes());
        assert_eq!(message[8..], 9u64.to_ne_bytes());
    }

    #[test]
    fn fill_with_adds_what_was_filled() {
        let mut buffer = ReplyBuffer::new();
        let mut reply = ReplyBuilder::new(buffer.body(), 1);
        let fill_with = reply.fill_with(10, |room| {
            room[..3].copy_from_slice(b"abc");
            Ok(3)
        });
        assert_eq!(fill_with, Ok(()));
        assert_eq!(reply.fill_with(1, |_| Err(Errno::EIO)), Err(Errno::EIO));
        let done = reply.done();
        assert_eq!(buffer.message(&done)[SIZE..], *b"abc");
        let mut reply = ReplyBuilder::new(buffer.body(), 1);
        let all = reply.fill_with(usize::MAX, |room| Ok(room.len()));
        assert_eq!((all, reply.done().len), (Ok(()), ONCE_MAX));
    }
}
