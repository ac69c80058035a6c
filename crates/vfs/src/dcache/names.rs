// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stores names of more than 16 bytes in blocks: words that never change their type, so that a
//! reader may compare a block that is being reused.
//!
//! A block has a number: class in the top two bits (32, 64, 128, 256 bytes), index below. A
//! comparison with a reused block is wrong, and the entry's sequence shows that afterwards.

use crate::lock_order::NameBlocks;
use openpath_sync::{Mutex, NoSpace, Region, Word};

const CLASSES: usize = 4;
const CLASS_SHIFT: u32 = 30;
const INDEX: u32 = (1 << CLASS_SHIFT) - 1;

/// Words in a block of `class`.
const fn words(class: usize) -> u32 {
    4 << class
}

/// All blocks of one `Vfs`.
pub(crate) struct Names {
    blocks: [Region<Word>; CLASSES],
    free: Mutex<[FreeBlocks; CLASSES], NameBlocks>,
    limit: u32,
}

#[derive(Default)]
struct FreeBlocks {
    free: Vec<u32>,
    fresh: u32,
}

impl Names {
    pub(crate) fn new(limit: u32) -> Result<Self, NoSpace> {
        let region = |class: usize| Region::new(limit.saturating_mul(words(class)).max(1 << 12));
        Ok(Self {
            blocks: [region(0)?, region(1)?, region(2)?, region(3)?],
            free: Mutex::new(Default::default()),
            limit,
        })
    }

    fn word(&self, block: u32, at: u32) -> &Word {
        let class = (block >> CLASS_SHIFT) as usize;
        self.blocks[class].at((block & INDEX).wrapping_mul(words(class)).wrapping_add(at))
    }

    /// Stores `name` and returns its block; `None` at the limit.
    pub(crate) fn store(&self, name: &[u8]) -> Option<u32> {
        let class = (0..CLASSES).find(|&c| name.len() <= words(c) as usize * 8)?;
        let index = {
            let list = &mut self.free.lock()[class];
            match list.free.pop() {
                Some(i) => i,
                // Number 0 of class 0 would be the block number that means "none".
                None if list.fresh < self.limit => {
                    list.fresh += 1;
                    list.fresh
                }
                None => return None,
            }
        };
        let block = (class as u32) << CLASS_SHIFT | index;
        for (at, chunk) in (0u32..).zip(name.chunks(8)) {
            self.word(block, at).set(word_of(chunk));
        }
        Some(block)
    }

    /// The address ranges of the blocks.
    pub(crate) fn spans(&self) -> [(usize, usize); CLASSES] {
        self.blocks.each_ref().map(Region::span)
    }

    /// Bytes that a block takes; 0 is none.
    pub(crate) fn bytes(&self, block: u32) -> u64 {
        if block == 0 {
            return 0;
        }
        u64::from(words((block >> CLASS_SHIFT) as usize)) * 8
    }

    /// Lets a block go; 0 is none.
    pub(crate) fn free(&self, block: u32) {
        if block != 0 {
            self.free.lock()[(block >> CLASS_SHIFT) as usize]
                .free
                .push(block & INDEX);
        }
    }

    /// Gives the memory of free blocks back to the system, a run of them at a time.
    pub(crate) fn trim(&self) {
        const RUN: u32 = 1024;
        let lists = self.free.lock();
        for (class, list) in lists.iter().enumerate() {
            let mut free = vec![0u32; (list.fresh / RUN) as usize];
            for &block in &list.free {
                if let Some(n) = free.get_mut((block / RUN) as usize) {
                    *n += 1;
                }
            }
            let words = words(class);
            for (run, _) in (0u32..).zip(free).filter(|&(_, n)| n == RUN) {
                self.blocks[class].release(run * RUN * words, RUN * words);
            }
        }
    }

    /// Whether the block begins with `name`; the length is part of the key and compared there.
    pub(crate) fn matches(&self, block: u32, name: &[u8]) -> bool {
        (0u32..)
            .zip(name.chunks(8))
            .all(|(at, chunk)| self.word(block, at).get() == word_of(chunk))
    }

    /// The first `len` bytes of the block.
    pub(crate) fn read(&self, block: u32, len: usize) -> Vec<u8> {
        let mut name: Vec<u8> = (0..len.div_ceil(8) as u32)
            .flat_map(|at| self.word(block, at).get().to_le_bytes())
            .collect();
        name.truncate(len);
        name
    }
}

fn word_of(chunk: &[u8]) -> u64 {
    let mut bytes = [0u8; 8];
    bytes[..chunk.len()].copy_from_slice(chunk);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_lengths_come_back_and_blocks_are_reused() {
        let n = Names::new(64).unwrap();
        for len in [17usize, 32, 33, 64, 65, 128, 129, 255] {
            let name = vec![b'n'; len];
            let b = n.store(&name).unwrap();
            assert!(n.matches(b, &name) && n.read(b, len) == name);
            n.free(b);
            assert_eq!(n.store(&name), Some(b));
        }
        assert_eq!(n.store(&[b'x'; 257]), None);
    }
}
