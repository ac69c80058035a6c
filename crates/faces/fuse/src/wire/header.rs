// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the header of a FUSE request (`fuse_in_header`).

use super::fields::{Fields, Malformed};
use super::numbers::op;

/// Its length.
pub(crate) const SIZE: usize = 40;

/// The caller, the operation and the node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) opcode: u32,
    /// The request's number, which its reply repeats.
    pub(crate) unique: u64,
    pub(crate) node: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The thread.
    pub(crate) pid: u32,
}

impl Header {
    /// Splits a message into header and body. If the length in the header is not that of the
    /// message, the header is still returned, because it says which request to answer.
    pub(crate) fn of(message: &[u8]) -> Result<(Self, Result<&[u8], Malformed>), Malformed> {
        let mut fields = Fields::new(message);
        let len = fields.u32()? as usize;
        let header = Self {
            opcode: fields.u32()?,
            unique: fields.u64()?,
            node: fields.u64()?,
            uid: fields.u32()?,
            gid: fields.u32()?,
            pid: fields.u32()?,
        };
        // The length of extensions, which no request here has.
        fields.skip(4)?;
        let body = if len == message.len() {
            fields.bytes(message.len() - SIZE)
        } else {
            Err(Malformed("another length than it says"))
        };
        Ok((header, body))
    }

    /// Whether it wants a reply.
    pub(crate) fn is_answered(&self) -> bool {
        !matches!(
            self.opcode,
            op::FORGET | op::BATCH_FORGET | op::INTERRUPT | op::NOTIFY_REPLY
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_length_still_identifies_the_request() {
        let mut message = [0; SIZE + 3];
        message[..4].copy_from_slice(&(SIZE as u32).to_ne_bytes());
        message[4..8].copy_from_slice(&op::LOOKUP.to_ne_bytes());
        message[8..16].copy_from_slice(&7u64.to_ne_bytes());
        let (header, body) = Header::of(&message).expect("a header");
        assert_eq!((header.unique, header.opcode), (7, op::LOOKUP));
        assert!(body.is_err());
        let (_, body) = Header::of(&message[..SIZE]).expect("a header");
        assert_eq!(body, Ok(&[][..]));
        assert!(Header::of(&message[..SIZE - 1]).is_err());
    }
}
