// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the data of a regular file: its pages, its preallocated pages, and their charge.
//!
//! # Fields
//! All fields, and the inode's size and blocks, change together under the file's `MemData` lock
//! held for writing. Readers hold it shared, so a read sees each write whole or not at all.
//!
//! # Rules
//! R1. No page lies wholly past the end, and the bytes past the end in the last page are zero.
//!     Preallocated pages may lie past the end (`FALLOC_FL_KEEP_SIZE`).
//! R2. A number has a page, or is preallocated, or is a hole; all but holes are charged as a block.
//! R3. Holes and preallocated pages take no memory and are read from [`ZEROES`].

use crate::page_map::{PAGE, PAGE_64, PageMap, RemovedPages};
use crate::preallocated::{Preallocated, State};
use crate::seal::Seals;
use crate::space::{Block, Charge, Payer};
use openpath_abi::Errno;
use openpath_sync::Page;
use std::ops::Range;

/// `stat`'s blocks are of 512 bytes.
pub(crate) const SECTORS: u64 = PAGE_64 / 512;

const _: () = assert!(PAGE_64 == SECTORS * 512);

/// The content of a page that is not there.
static ZEROES: [u8; PAGE] = [0; PAGE];

/// How many bytes were stored, and the error that prevented more.
pub(crate) type WriteOutcome = (usize, Result<(), Errno>);

/// The data of one file.
pub(crate) struct Data {
    pages: PageMap,
    preallocated: Preallocated,
    charge: Charge<Block>,
    /// The file's number, which chooses the pool of its pages.
    ino: u64,
    /// The seals, which refuse changes.
    pub(crate) seals: Seals,
}

/// The offset within its page.
pub(crate) fn offset_in_page(offset: u64) -> usize {
    // Less than the size of a page, so the conversion keeps the value.
    (offset % PAGE_64) as usize
}

impl Data {
    /// No data yet.
    pub(crate) fn new(payer: &Payer, ino: u64, seals: Seals) -> Self {
        Self {
            pages: PageMap::default(),
            preallocated: Preallocated::default(),
            charge: Charge::none(payer),
            ino,
            seals,
        }
    }

    /// Blocks of 512 bytes in use.
    pub(crate) fn sectors(&self) -> u64 {
        self.charge.held() * SECTORS
    }

    /// Lends `len` bytes from `offset` on in place and in order, in pieces of one page at most.
    pub(crate) fn for_each_piece(&self, offset: u64, len: usize, mut lend: impl FnMut(&[u8])) {
        let mut at = offset;
        let end = offset + len as u64;
        while at < end {
            let (group, next) = self.pages.group(at / PAGE_64);
            let stop = end.min(next * PAGE_64);
            while at < stop {
                let from = offset_in_page(at);
                // At most a page.
                let to = PAGE_64.min(from as u64 + (stop - at)) as usize;
                let page = group.and_then(|g| g.get(at / PAGE_64));
                lend(&page.map_or(&ZEROES, |page| &**page)[from..to]);
                at += (to - from) as u64;
            }
        }
    }

    /// Fills `buf` from `offset` on; it ends at or before the end of the file.
    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) {
        let mut done = 0;
        self.for_each_piece(offset, buf.len(), |piece| {
            buf[done..done + piece.len()].copy_from_slice(piece);
            done += piece.len();
        });
    }

    /// Stores `data` at `offset`, page by page.
    pub(crate) fn write(&mut self, data: &[u8], offset: u64) -> WriteOutcome {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let from = offset_in_page(at);
            let len = (PAGE - from).min(data.len() - done);
            let number = at / PAGE_64;
            let part = &data[done..done + len];
            if let Some(page) = self.pages.get_mut(number) {
                page[from..from + len].copy_from_slice(part);
            } else if let Err(errno) = self.add_page(number, part, from) {
                return (done, Err(errno));
            }
            done += len;
        }
        (done, Ok(()))
    }

    /// Adds the page `number`, which is not there.
    fn add_page(&mut self, number: u64, part: &[u8], from: usize) -> Result<(), Errno> {
        let page = self.new_page(part, from)?;
        self.charge_page(number)?;
        self.pages.set(number, page);
        Ok(())
    }

    /// A page that holds `part` from byte `from` on.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub(crate) fn new_page(&self, part: &[u8], from: usize) -> Result<Page, Errno> {
        self.charge.payer.space.page(self.ino, part, from)
    }

    /// Swaps the page `number` and the one in `slot`.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`.
    pub(crate) fn swap_page(&mut self, number: u64, slot: &mut Option<Page>) -> Result<(), Errno> {
        if self.pages.get_mut(number).is_none() {
            self.charge_page(number)?;
        }
        *slot = slot.take().and_then(|page| self.pages.set(number, page));
        Ok(())
    }

    /// Charges a block for the page `number`, unless it was preallocated.
    fn charge_page(&mut self, number: u64) -> Result<(), Errno> {
        if self.preallocated.take(number..number + 1) == 0 {
            self.charge.take(1)?;
        }
        Ok(())
    }

    /// Makes `bytes` zero. Whole pages become a hole; the caller drops them without the lock.
    pub(crate) fn zero_range(&mut self, bytes: Range<u64>) -> RemovedPages {
        let whole = bytes.start.div_ceil(PAGE_64)..bytes.end / PAGE_64;
        if whole.start > whole.end {
            // Within one page, touching neither end.
            self.zero_part(
                whole.end,
                offset_in_page(bytes.start)..offset_in_page(bytes.end),
            );
            return RemovedPages::default();
        }
        if offset_in_page(bytes.start) != 0 {
            self.zero_part(whole.start - 1, offset_in_page(bytes.start)..PAGE);
        }
        self.zero_part(whole.end, 0..offset_in_page(bytes.end));
        let gone = self.pages.take(whole.clone());
        self.charge.give(gone.len() + self.preallocated.take(whole));
        gone
    }

    /// Makes a part of page `number` zero, if there is one.
    fn zero_part(&mut self, number: u64, part: Range<usize>) {
        if let Some(page) = self.pages.get_mut(number) {
            page[part].fill(0);
        }
    }

    /// Preallocates the holes in `numbers`, in order, and makes earlier preallocations firm.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`: holes stay holes; what became firm before stays firm, as in the kernel.
    pub(crate) fn preallocate(&mut self, numbers: Range<u64>) -> Result<(), Errno> {
        let mut at = numbers.start;
        while at < numbers.end {
            if let Some((_, end)) = self.preallocated.at(at) {
                let end = end.min(numbers.end);
                self.preallocated.firm(at..end);
                at = end;
                continue;
            }
            let gap = self.pages.next_gap(at);
            if gap != at {
                at = gap;
                continue;
            }
            let page = self.pages.next_page(at).unwrap_or(numbers.end);
            let run = self.preallocated.next(at).unwrap_or(numbers.end);
            let end = page.min(run).min(numbers.end);
            if let Err(errno) = self.charge.take(end - at) {
                let undone = self.preallocated.take_fresh(numbers.start..at);
                self.charge.give(undone);
                return Err(errno);
            }
            self.preallocated.add(at..end, State::Fresh);
            at = end;
        }
        Ok(())
    }

    /// The first number from `number` on that `SEEK_DATA` finds.
    pub(crate) fn next_data(&self, number: u64) -> Option<u64> {
        let page = self.pages.next_page(number);
        let firm = self.preallocated.next_firm(number);
        page.into_iter().chain(firm).min()
    }

    /// The first number from `number` on that `SEEK_HOLE` finds.
    pub(crate) fn next_hole(&self, number: u64) -> u64 {
        let mut at = number;
        loop {
            let gap = self.pages.next_gap(at);
            match self.preallocated.at(gap) {
                Some((State::Firm, end)) => at = end,
                _ => return gap,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(limit: u64) -> Data {
        let options = crate::MemOptions {
            size: limit * PAGE_64,
            ..Default::default()
        };
        let space = crate::space::Space::new(&options);
        Data::new(&Payer::new(&space, None), 1, Seals::default())
    }

    #[test]
    fn gaps_read_as_zeroes() {
        let mut d = data(0);
        assert_eq!(d.write(b"abc", 4095), (3, Ok(())));
        assert_eq!(d.write(b"z", 5 * PAGE_64), (1, Ok(())));
        assert_eq!(d.sectors(), 3 * SECTORS);
        let mut buf = vec![7; 6 * PAGE];
        d.read(&mut buf, 0);
        assert_eq!(&buf[4094..4099], b"\0abc\0");
        assert_eq!(buf[5 * PAGE], b'z');
        assert_eq!(buf.iter().filter(|b| **b != 0).count(), 4);
        let mut one = [9];
        d.read(&mut one, 4 * PAGE_64 + 17);
        assert_eq!(one, [0]);
    }

    #[test]
    fn zeroed_range_reads_as_zeroes() {
        let mut d = data(4);
        assert_eq!(d.write(&[1; 4 * PAGE], 0), (4 * PAGE, Ok(())));
        assert_eq!(d.write(&[1], 4 * PAGE_64), (0, Err(Errno::ENOSPC)));
        let ones = |d: &Data| {
            let mut buf = vec![7; 4 * PAGE];
            d.read(&mut buf, 0);
            buf.iter().map(|b| usize::from(*b)).sum::<usize>()
        };
        for (bytes, pages, left) in [
            (100..100, 0, 4 * PAGE),
            (100..110, 0, 4 * PAGE - 10),
            (4090..4096, 0, 4 * PAGE - 16),
            (4096..4106, 0, 4 * PAGE - 26),
            (4000..4200, 0, 4 * PAGE - 26 - 90 - 94),
            (
                2 * PAGE_64 - 1..3 * PAGE_64 + 1,
                1,
                3 * PAGE - 26 - 90 - 94 - 2,
            ),
            (PAGE_64 + 10..u64::MAX, 1, PAGE - 10 - 96),
            (0..PAGE_64, 1, 0),
        ] {
            assert_eq!(d.zero_range(bytes.clone()).len(), pages, "{bytes:?}");
            assert_eq!(ones(&d), left, "{bytes:?}");
        }
        assert_eq!(d.sectors(), SECTORS);
    }

    #[test]
    fn preallocated_page_is_charged_once() {
        let mut d = data(8);
        assert_eq!(d.write(&[1; 2 * PAGE], 2 * PAGE_64), (2 * PAGE, Ok(())));
        d.preallocate(1..6).expect("room for 3");
        assert_eq!(d.sectors(), 5 * SECTORS);
        let refused = Err(Errno::ENOSPC);
        assert_eq!(d.write(&[1; 9 * PAGE], 0), (8 * PAGE, refused));
        assert_eq!(d.sectors(), 8 * SECTORS);
        assert_eq!(d.zero_range(0..u64::MAX).len(), 8);
        assert_eq!(d.sectors(), 0);
    }

    #[test]
    fn failed_preallocation_keeps_earlier_ones() {
        let mut d = data(5);
        d.preallocate(0..2).expect("room for 2");
        d.preallocate(4..6).expect("room for 2");
        assert_eq!(d.preallocate(0..8), Err(Errno::ENOSPC));
        assert_eq!(d.sectors(), 4 * SECTORS);
        assert_eq!((d.next_data(0), d.next_hole(0)), (Some(0), 2));
        assert_eq!((d.next_data(2), d.next_hole(2)), (None, 2));
    }
}
