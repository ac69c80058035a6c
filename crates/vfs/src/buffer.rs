// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the byte buffer in which a walk keeps the rest of a path once a link's body was put in
//! front of it. The buffer begins on a cache line of its own.
//!
//! So tasks that walk side by side write no common cache line, as long as the text fits in a page.
//! A longer text may share its first and last line with other data.

/// Room for bytes.
#[derive(Default)]
pub(crate) struct Buffer {
    /// Unused up to `from`.
    bytes: Vec<u8>,
    from: usize,
}

/// Lines that processors fetch together.
const ALIGN: usize = 128;
/// Room of a new one.
const ROOM: usize = 4096;

impl Buffer {
    /// An empty one with room for a page.
    pub(crate) fn new() -> Self {
        let mut bytes: Vec<u8> = Vec::with_capacity(ROOM + 2 * ALIGN);
        let from = bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        bytes.resize(from, 0);
        Self { bytes, from }
    }

    /// Whether it is a place for one only.
    pub(crate) fn is_none(&self) -> bool {
        self.bytes.capacity() == 0
    }

    /// How much it holds at most before it grows.
    pub(crate) fn room(&self) -> usize {
        self.bytes.capacity() - self.from
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.truncate(self.from);
    }

    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.from..).unwrap_or_default()
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_on_a_line_of_its_own_and_keeps_what_is_put_in() {
        let mut buffers: Vec<Buffer> = (0..9).map(|_| Buffer::new()).collect();
        for buffer in &mut buffers {
            assert!(buffer.room() >= ROOM && !buffer.is_none());
            buffer.push(b"ab");
            buffer.push(b"c");
            assert_eq!(buffer.bytes(), b"abc");
            assert_eq!(buffer.bytes().as_ptr().addr() % ALIGN, 0);
            buffer.clear();
            assert_eq!(buffer.bytes(), b"");
            buffer.push(&[7; 3 * ROOM]);
            assert_eq!(buffer.bytes(), [7; 3 * ROOM]);
        }
        assert!(Buffer::default().is_none() && Buffer::default().bytes().is_empty());
    }
}
