// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the data in a pipe: a ring of slots of a page each.
//!
//! # Kernel analogue
//! The ring of `struct pipe_buffer`, and what `anon_pipe_read` and `anon_pipe_write` do to it.
//!
//! # Rules
//! R1. A slot holds data of one write, a page at most. Only the part of a write beyond whole pages
//!     may go on in the last slot, if it fits there and the slot is neither a packet nor a file's
//!     page. So a write of a page or less is never split.
//! R2. The fill of a pipe is counted in slots, not bytes.
//! R3. A slot's memory is taken when it is written, and freed when it is read.

use openpath_abi::Errno;
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};

/// The most bytes of a slot.
pub(crate) const SLOT: usize = 4096;

/// The kind of a slot's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// Bytes, to which more can be added.
    Bytes,
    /// A packet (`O_DIRECT`): the rest after a read is dropped.
    Packet,
    /// A file's page (sendfile(2)), to which nothing is added.
    Page,
}

struct Slot {
    content: Content,
    data: Vec<u8>,
    /// How much of it was read.
    read: usize,
}

/// Slots in the order they are read.
#[derive(Default)]
pub(super) struct Ring(VecDeque<Slot>);

/// The pieces of a call that are still to be moved.
pub(super) struct RemainingPieces<'a, 'b> {
    pieces: &'a [IoSlice<'b>],
    /// How much of the first one is done.
    done: usize,
    left: usize,
}

impl<'a, 'b> RemainingPieces<'a, 'b> {
    /// Up to `limit` bytes of the pieces.
    pub(super) fn new(pieces: &'a [IoSlice<'b>], limit: usize) -> Self {
        let all = pieces
            .iter()
            .fold(0usize, |sum, p| sum.saturating_add(p.len()));
        Self {
            pieces,
            done: 0,
            left: all.min(limit),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Appends the next `len` bytes to `data`, which has the room; there are so many.
    fn put(&mut self, data: &mut Vec<u8>, len: usize) {
        let mut wanted = len;
        while let Some(piece) = self.pieces.first().filter(|_| wanted > 0) {
            let next = &piece[self.done..];
            let some = next.len().min(wanted);
            data.extend_from_slice(&next[..some]);
            wanted -= some;
            self.done += some;
            if some == next.len() {
                self.pieces = &self.pieces[1..];
                self.done = 0;
            }
        }
        self.left -= len;
    }
}

impl Ring {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many slots are in use.
    pub(super) fn slots(&self) -> usize {
        self.0.len()
    }

    /// How many bytes there are to read (`FIONREAD`).
    pub(super) fn bytes(&self) -> usize {
        let left = |slot: &Slot| slot.data.len() - slot.read;
        self.0.iter().map(left).sum()
    }

    /// Goes on in the last slot (R1); how much was written.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn merge(&mut self, rest: &mut RemainingPieces<'_, '_>) -> Result<usize, Errno> {
        let odd = rest.left % SLOT;
        let Some(last) = self.0.back_mut().filter(|_| odd > 0) else {
            return Ok(0);
        };
        if last.content != Content::Bytes || last.data.len() + odd > SLOT {
            return Ok(0);
        }
        last.data.try_reserve(odd).map_err(|_| Errno::ENOMEM)?;
        rest.put(&mut last.data, odd);
        Ok(odd)
    }

    /// Writes a new slot; how much.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(super) fn push(
        &mut self,
        rest: &mut RemainingPieces<'_, '_>,
        content: Content,
    ) -> Result<usize, Errno> {
        let len = rest.left.min(SLOT);
        let mut data = Vec::new();
        data.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
        self.0.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        rest.put(&mut data, len);
        self.0.push_back(Slot {
            content,
            data,
            read: 0,
        });
        Ok(len)
    }

    /// Adds data of a file's page as a slot of its own.
    pub(super) fn push_page(&mut self, data: Vec<u8>) {
        self.0.push_back(Slot {
            content: Content::Page,
            data,
            read: 0,
        });
    }

    /// Reads as much as fits, up to the end of the first packet; how much.
    pub(super) fn pop(&mut self, bufs: &mut [IoSliceMut<'_>], limit: usize) -> usize {
        let (mut done, mut filled) = (0, 0);
        let mut bufs = bufs.iter_mut().filter(|buf| !buf.is_empty());
        let Some(mut buf) = bufs.next() else { return 0 };
        while let Some(slot) = self.0.front_mut() {
            let next = &slot.data[slot.read..];
            let some = next.len().min(buf.len() - filled).min(limit - done);
            buf[filled..filled + some].copy_from_slice(&next[..some]);
            slot.read += some;
            (done, filled) = (done + some, filled + some);
            let full = filled == buf.len();
            let last = if full { bufs.next() } else { None };
            let no_more = done == limit || full && last.is_none();
            let packet = slot.content == Content::Packet;
            if slot.read == slot.data.len() || packet && no_more {
                self.0.pop_front();
                if packet {
                    break;
                }
            }
            if no_more {
                break;
            }
            if let Some(after) = last {
                (buf, filled) = (after, 0);
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(ring: &mut Ring, pieces: &[&[u8]], content: Content) -> usize {
        let pieces: Vec<IoSlice<'_>> = pieces.iter().map(|p| IoSlice::new(p)).collect();
        let mut rest = RemainingPieces::new(&pieces, usize::MAX);
        let mut done = ring.merge(&mut rest).expect("memory");
        while !rest.is_empty() {
            done += ring.push(&mut rest, content).expect("memory");
        }
        done
    }

    fn read(ring: &mut Ring, lens: &[usize]) -> Vec<Vec<u8>> {
        let mut bufs: Vec<Vec<u8>> = lens.iter().map(|&len| vec![0; len]).collect();
        let mut slices: Vec<IoSliceMut<'_>> = bufs.iter_mut().map(|b| IoSliceMut::new(b)).collect();
        let mut left = ring.pop(&mut slices, usize::MAX);
        for buf in &mut bufs {
            let some = left.min(buf.len());
            buf.truncate(some);
            left -= some;
        }
        bufs
    }

    #[test]
    fn small_writes_share_a_slot_and_none_is_split() {
        let mut ring = Ring::default();
        assert_eq!(write(&mut ring, &[b"ab", b"", b"c"], Content::Bytes), 3);
        assert_eq!(write(&mut ring, &[b"d"], Content::Bytes), 1);
        assert_eq!((ring.slots(), ring.bytes()), (1, 4));
        // The part beyond whole pages comes first.
        assert_eq!(
            write(&mut ring, &[&[7; SLOT + 5]], Content::Bytes),
            SLOT + 5
        );
        assert_eq!((ring.slots(), ring.bytes()), (2, SLOT + 9));
        assert_eq!(write(&mut ring, &[&[8; 1]], Content::Bytes), 1);
        assert_eq!(ring.slots(), 3);
        // Read bytes leave no room in their slot.
        assert_eq!(
            read(&mut ring, &[1, 0, 4]),
            [b"a".to_vec(), vec![], b"bcd\x07".to_vec()]
        );
        assert_eq!(read(&mut ring, &[2 * SLOT])[0].len(), SLOT + 5);
        assert_eq!((ring.slots(), ring.bytes()), (0, 0));
        assert!(read(&mut ring, &[5])[0].is_empty());
    }

    #[test]
    fn a_packet_is_read_alone_and_pages_take_nothing() {
        let mut ring = Ring::default();
        for packet in [b"one", b"two"] {
            write(&mut ring, &[packet], Content::Packet);
        }
        assert_eq!(ring.slots(), 2);
        assert_eq!(read(&mut ring, &[2]), [b"on"]);
        assert_eq!(read(&mut ring, &[9]), [b"two"]);
        write(&mut ring, &[b"six"], Content::Packet);
        assert_eq!(read(&mut ring, &[3]), [b"six"]);
        assert!(ring.is_empty());
        ring.push_page(b"page".to_vec());
        write(&mut ring, &[b"more"], Content::Bytes);
        assert_eq!(ring.slots(), 2);
        assert_eq!(read(&mut ring, &[3, 2, 9]), [&b"pag"[..], b"em", b"ore"]);
    }
}
