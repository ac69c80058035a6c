// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that random calls on one file in memory leave what a simple model of tmpfs holds: a byte
//! vector, and the state of each page. The model follows answers of tmpfs on Linux 6.18.

mod bytes;
mod common;

use bytes::*;
use common::*;
use openpath_abi::Errno;
use openpath_mem::MemOptions;
use openpath_vfs::Inode;

/// How many pages the model has; no call goes past them.
const PAGES: u64 = 160;
/// How many blocks the tree has.
const BLOCKS: usize = 100;

#[derive(Clone, Copy, PartialEq)]
enum Page {
    Hole,
    Fresh,
    Data,
}

struct Model {
    bytes: Vec<u8>,
    size: u64,
    pages: Vec<Page>,
}

/// The numbers of the pages that the bytes touch.
fn touched(offset: u64, len: u64) -> std::ops::Range<usize> {
    (offset / P) as usize..(offset + len).div_ceil(P) as usize
}

impl Model {
    fn new() -> Self {
        Self {
            bytes: pages(0, PAGES),
            size: 0,
            pages: vec![Page::Hole; PAGES as usize],
        }
    }

    fn blocks(&self) -> usize {
        self.pages.iter().filter(|p| **p != Page::Hole).count()
    }

    fn write(&mut self, byte: u8, offset: u64, len: u64) -> Result<usize, Errno> {
        if len == 0 {
            return Ok(0);
        }
        let mut end = offset;
        for number in touched(offset, len) {
            if self.pages[number] == Page::Hole && self.blocks() == BLOCKS {
                break;
            }
            self.pages[number] = Page::Data;
            let to = (offset + len).min((number as u64 + 1) * P);
            self.bytes[end as usize..to as usize].fill(byte);
            end = to;
        }
        if end == offset {
            return Err(Errno::ENOSPC);
        }
        self.size = self.size.max(end);
        Ok((end - offset) as usize)
    }

    fn clear(&mut self, offset: u64, end: u64) {
        self.bytes[offset as usize..end as usize].fill(0);
        for number in offset.div_ceil(P)..end / P {
            self.pages[number as usize] = Page::Hole;
        }
    }

    fn truncate(&mut self, size: u64) {
        if size <= self.size {
            self.clear(size, PAGES * P);
        }
        self.size = size;
    }

    fn set_aside(&mut self, keep: bool, offset: u64, len: u64) -> Result<(), Errno> {
        let numbers = touched(offset, len);
        if numbers.len() > BLOCKS {
            return Err(Errno::ENOSPC);
        }
        let mut added = Vec::new();
        for number in numbers {
            if self.pages[number] != Page::Hole {
                self.pages[number] = Page::Data;
                continue;
            }
            if self.blocks() == BLOCKS {
                added
                    .into_iter()
                    .for_each(|n: usize| self.pages[n] = Page::Hole);
                return Err(Errno::ENOSPC);
            }
            self.pages[number] = Page::Fresh;
            added.push(number);
        }
        if !keep {
            self.size = self.size.max(offset + len);
        }
        Ok(())
    }

    fn layout(&self) -> String {
        let shown = &self.pages[..self.size.div_ceil(P) as usize];
        let letter = |page: &Page| if *page == Page::Data { 'D' } else { 'H' };
        shown.iter().map(letter).collect()
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
    /// An offset, often at or beside a page boundary.
    fn place(&mut self, pages: u64) -> u64 {
        let border = self.below(pages) * P;
        match self.below(4) {
            0 => border + self.below(P),
            1 => border + 1,
            _ => border,
        }
    }
}

fn step(file: &Inode, model: &mut Model, random: &mut Random) -> String {
    let (offset, mut len) = (random.place(110), random.place(45));
    let what = random.below(6);
    if what >= 3 {
        len += 1;
    }
    let byte = random.below(256) as u8;
    match what {
        0 | 1 => {
            let data = vec![byte; len as usize];
            let answer = write(file, &data, offset, 3);
            assert_eq!(answer, model.write(byte, offset, len));
        }
        2 => {
            model.truncate(offset);
            assert_eq!(truncate(file, offset, 3), Ok(()));
        }
        3 => {
            model.clear(offset, offset + len);
            assert_eq!(fallocate(file, PUNCH, offset, len), Ok(()));
        }
        _ => {
            let keep = what == 4;
            let answer = fallocate(file, if keep { KEEP } else { 0 }, offset, len);
            assert_eq!(answer, model.set_aside(keep, offset, len));
        }
    }
    format!("{what} at {offset} for {len}")
}

#[test]
fn file_matches_model() {
    for seed in 0..40 {
        let fs = with(MemOptions::default().size(BLOCKS as u64 * P));
        let file = fs.root().file("f", 2);
        let mut model = Model::new();
        let mut random = Random(seed);
        for count in 0..100 {
            let what = step(&file, &mut model, &mut random);
            let label = format!("seed {seed}, step {count}: {what}");
            let blocks = model.blocks() as u64;
            assert_eq!(extent(&file), (model.size, blocks), "{label}");
            assert_eq!(fs.free().0, BLOCKS as u64 - blocks, "{label}");
            assert_eq!(layout(&file), model.layout(), "{label}");
            let size = model.size as usize;
            assert!(read(&file, size + 1, 0) == model.bytes[..size], "{label}");
        }
    }
}
