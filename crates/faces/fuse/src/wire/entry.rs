// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a request from an entry of a ring, which has three parts, and writes its reply, which has
//! two.
//!
//! # Kernel analogue
//! `fuse_uring_req_header`: the header, the header of the operation (its length follows from the
//! header's length), and the length of the payload, which has the rest.
//!
//! # Rules
//! R1. A request becomes one message here too. A short one is copied out, and its reply goes
//!     straight into the payload. In front of a long one, which has data to write, the headers are
//!     copied to the bytes before the payload; its reply, which is short, is copied into the
//!     payload.
//! R2. If the lengths do not add up, the request becomes a message without a body and with a wrong
//!     length: it is answered like one that came by read(2).

use super::{Reply, header};
use openpath_uring::fuse::HEAD;

/// The offset of the operation's header.
const OP_HEADER: usize = 128;
/// The most bytes of it.
const OP_HEADER_MAX: usize = 128;
/// The offset of the length of the payload.
const PAYLOAD_LEN_AT: usize = 272;
/// Room before the payload for the headers of a message.
pub(crate) const PREFIX_MAX: usize = header::SIZE + OP_HEADER_MAX;
/// Room for a short request, and for the reply to a long one.
pub(crate) const SHORT_MAX: usize = 8192;

/// A request, and the room for its reply.
pub(crate) struct RingEntry<'a> {
    head: &'a mut [u8; HEAD],
    room: &'a mut [u8],
    short: &'a mut [u8],
    /// The bytes before the payload in the message.
    prefix: usize,
    payload: usize,
}

impl<'a> RingEntry<'a> {
    /// The request with this head and room, of which the first [`PREFIX_MAX`] bytes are ours;
    /// `short` has [`SHORT_MAX`].
    pub(crate) fn of(head: &'a mut [u8; HEAD], room: &'a mut [u8], short: &'a mut [u8]) -> Self {
        let word = |at: usize| {
            let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
            u32::from_ne_bytes(bytes) as usize
        };
        let (len, payload) = (word(0), word(PAYLOAD_LEN_AT));
        let prefix = len.checked_sub(payload);
        let fits = prefix.filter(|prefix| (header::SIZE..=PREFIX_MAX).contains(prefix));
        let fits = fits.filter(|_| payload <= room.len() - PREFIX_MAX);
        if fits.is_none() {
            // R2
            head[..4].copy_from_slice(&0u32.to_ne_bytes());
        }
        let (prefix, payload) = fits.map_or((header::SIZE, 0), |prefix| (prefix, payload));
        Self {
            head,
            room,
            short,
            prefix,
            payload,
        }
    }

    fn is_short(&self) -> bool {
        self.prefix + self.payload <= self.short.len()
    }

    /// The message, and the room for the body of its reply.
    pub(crate) fn parts(&mut self) -> (&[u8], &mut [u8]) {
        let (prefix, payload) = (self.prefix, self.payload);
        let op_header = prefix - header::SIZE;
        let copy_prefix = |to: &mut [u8]| {
            to[..header::SIZE].copy_from_slice(&self.head[..header::SIZE]);
            to[header::SIZE..].copy_from_slice(&self.head[OP_HEADER..][..op_header]);
        };
        // R1
        if prefix + payload <= self.short.len() {
            copy_prefix(&mut self.short[..prefix]);
            let data = &self.room[PREFIX_MAX..][..payload];
            self.short[prefix..][..payload].copy_from_slice(data);
            (
                &self.short[..prefix + payload],
                &mut self.room[PREFIX_MAX..],
            )
        } else {
            copy_prefix(&mut self.room[PREFIX_MAX - prefix..PREFIX_MAX]);
            let message = PREFIX_MAX - prefix..PREFIX_MAX + payload;
            (&self.room[message], &mut *self.short)
        }
    }

    /// Stores the reply; its body is in the room from [`RingEntry::parts`].
    pub(crate) fn store(self, reply: &Reply) {
        if !self.is_short() {
            self.room[PREFIX_MAX..][..reply.len].copy_from_slice(&self.short[..reply.len]);
        }
        self.head[..reply.head.len()].copy_from_slice(&reply.head);
        self.head[PAYLOAD_LEN_AT..][..4].copy_from_slice(&(reply.len as u32).to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::init::Negotiated;
    use crate::wire::numbers::op;
    use crate::wire::{Header, ReplyBuilder, Request};

    /// An entry as the kernel fills it.
    fn filled(opcode: u32, op_header: &[u8], payload: &[u8]) -> (Box<[u8; HEAD]>, Vec<u8>) {
        let (mut head, mut room) = (Box::new([0; HEAD]), vec![0; PREFIX_MAX + 20_000]);
        let len = header::SIZE + op_header.len() + payload.len();
        head[..4].copy_from_slice(&(len as u32).to_ne_bytes());
        head[4..8].copy_from_slice(&opcode.to_ne_bytes());
        head[8..16].copy_from_slice(&7u64.to_ne_bytes());
        head[OP_HEADER..][..op_header.len()].copy_from_slice(op_header);
        head[PAYLOAD_LEN_AT..][..4].copy_from_slice(&(payload.len() as u32).to_ne_bytes());
        room[PREFIX_MAX..][..payload.len()].copy_from_slice(payload);
        (head, room)
    }

    #[test]
    fn short_and_long_requests_become_messages_and_get_their_replies() {
        for size in [3, 10_000, 20_000] {
            let data: Vec<u8> = (0..size).map(|n| n as u8).collect();
            let mut op_header = [0; 40];
            op_header[16..20].copy_from_slice(&(size as u32).to_ne_bytes());
            let (mut head, mut room) = filled(op::WRITE, &op_header, &data);
            let mut short = [0; SHORT_MAX];
            let mut entry = RingEntry::of(&mut head, &mut room, &mut short);
            let (message, body) = entry.parts();
            let (header, rest) = Header::of(message).expect("a header");
            let request = Request::of(&header, rest.expect("a body"), Negotiated::default());
            assert!(matches!(request, Ok(Request::Write { data: it, .. }) if it == data));
            let mut reply = ReplyBuilder::new(body, header.unique);
            reply.u64(4711);
            let done = reply.done();
            entry.store(&done);
            assert_eq!(head[..16], done.head);
            assert_eq!(head[PAYLOAD_LEN_AT..][..4], 8u32.to_ne_bytes());
            assert_eq!(room[PREFIX_MAX..][..8], 4711u64.to_ne_bytes(), "{size}");
        }
    }

    #[test]
    fn wrong_lengths_give_a_message_without_a_body() {
        let lies = [
            (0, 0),
            (39, 0),
            (40, 9),
            (300, 0),
            (u32::MAX, 0),
            (50_000, 49_990),
            (9, u32::MAX),
        ];
        for (len, payload) in lies {
            let (mut head, mut room) = filled(op::LOOKUP, b"", b"name\0");
            head[..4].copy_from_slice(&len.to_ne_bytes());
            head[PAYLOAD_LEN_AT..][..4].copy_from_slice(&payload.to_ne_bytes());
            let mut short = [0; SHORT_MAX];
            let mut entry = RingEntry::of(&mut head, &mut room, &mut short);
            let (message, _) = entry.parts();
            assert_eq!(message.len(), header::SIZE);
            let (header, body) = Header::of(message).expect("a header");
            assert_eq!((header.unique, body.is_err()), (7, true), "{len} {payload}");
        }
    }
}
