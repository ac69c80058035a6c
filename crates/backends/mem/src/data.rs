// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data of a regular file: pages of 4 KiB by number; a page that is not there reads as zeroes.
//!
//! # Fields
//! Pages and the inode's size and blocks change together, under the file's `MemData` lock held for
//! writing; reading holds it shared, so that a read sees each write whole or not at all.
//!
//! # Rules
//! R1. No page lies wholly past the end, and the bytes past the end in the last page are zero.
//! R2. A page that exists is charged as a block.

use crate::node::Node;
use crate::space::{Charge, Pool};
use openpath_abi::limits::MAX_LFS_FILESIZE;
use openpath_abi::{Errno, Timespec};
use openpath_vfs::{Extent, Inode, SetAttr};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a page and of a block.
pub(crate) const PAGE: usize = 4096;
const PAGE_64: u64 = PAGE as u64;
/// `stat`'s blocks are of 512 bytes.
pub(crate) const SECTORS: u64 = PAGE_64 / 512;
/// The largest size.
const SIZE_MAX: u64 = MAX_LFS_FILESIZE.cast_unsigned();

type Page = Box<[u8; PAGE]>;

/// The pages of one file.
pub(crate) struct Pages {
    pages: BTreeMap<u64, Page>,
    charge: Charge,
}

/// Where a byte of the file is in its page.
fn within(offset: u64) -> usize {
    // Below the size of a page, so the conversion keeps the value.
    (offset % PAGE_64) as usize
}

/// A page that holds `part` from byte `from` on, and zeroes else.
fn page_with(part: &[u8], from: usize) -> Page {
    // Built in place: a boxed array expression would be built on the stack and copied.
    let page: Box<[u8]> = if part.len() == PAGE {
        part.into()
    } else {
        let mut page = vec![0; PAGE].into_boxed_slice();
        page[from..from + part.len()].copy_from_slice(part);
        page
    };
    page.try_into().unwrap_or_else(|_| Box::new([0; PAGE]))
}

impl Pages {
    /// No data yet.
    pub(crate) fn new(blocks: &Arc<Pool>) -> Self {
        Self {
            pages: BTreeMap::new(),
            charge: Charge::none(blocks),
        }
    }

    /// Blocks of 512 bytes in use.
    fn sectors(&self) -> u64 {
        self.pages.len() as u64 * SECTORS
    }

    /// Fills `buf`, which ends at or before the end of the file, from `offset` on.
    fn read(&self, buf: &mut [u8], offset: u64) {
        let end = offset + buf.len() as u64;
        let mut done = 0;
        for (number, page) in self.pages.range(offset / PAGE_64..end.div_ceil(PAGE_64)) {
            let start = (number * PAGE_64).max(offset);
            // At most the length of `buf`.
            let at = (start - offset) as usize;
            let from = within(start);
            let len = (PAGE - from).min(buf.len() - at);
            buf[done..at].fill(0);
            buf[at..at + len].copy_from_slice(&page[from..from + len]);
            done = at + len;
        }
        buf[done..].fill(0);
    }

    /// Stores `data` at `offset`, page by page; how much was stored before the blocks ran out.
    fn write(&mut self, data: &[u8], offset: u64) -> usize {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let from = within(at);
            let len = (PAGE - from).min(data.len() - done);
            let number = at / PAGE_64;
            let part = &data[done..done + len];
            if let Some(page) = self.pages.get_mut(&number) {
                page[from..from + len].copy_from_slice(part);
            } else {
                if self.charge.take(1).is_err() {
                    break;
                }
                self.pages.insert(number, page_with(part, from));
            }
            done += len;
        }
        done
    }

    /// Makes the file end at `size`; the pages that were past it, to be dropped without the lock.
    fn cut(&mut self, size: u64) -> BTreeMap<u64, Page> {
        let gone = self.pages.split_off(&size.div_ceil(PAGE_64));
        self.charge.give(gone.len() as u64);
        let from = within(size);
        if from != 0
            && let Some(page) = self.pages.get_mut(&(size / PAGE_64))
        {
            page[from..].fill(0);
        }
        gone
    }

    /// The first page from `number` on.
    fn next_page(&self, number: u64) -> Option<u64> {
        self.pages.range(number..).next().map(|(n, _)| *n)
    }

    /// The first number from `number` on that has no page.
    fn next_gap(&self, number: u64) -> u64 {
        let mut gap = number;
        for (n, _) in self.pages.range(number..) {
            if *n != gap {
                break;
            }
            gap += 1;
        }
        gap
    }
}

impl Node {
    /// As `InodeOps::read_at`.
    pub(crate) fn read_data(
        &self,
        inode: &Inode,
        buf: &mut [u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        let pages = self.pages().ok_or(Errno::EINVAL)?.read();
        let left = inode.size().saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        pages.read(&mut buf[..len], offset);
        Ok(len)
    }

    /// As `InodeOps::write_at`. Times change even when there is no room, as in the kernel.
    pub(crate) fn write_data(
        &self,
        inode: &Inode,
        data: &[u8],
        offset: u64,
        now: Timespec,
    ) -> Result<usize, Errno> {
        let pages = self.pages().ok_or(Errno::EINVAL)?;
        if data.is_empty() {
            return Ok(0);
        }
        let room = SIZE_MAX.saturating_sub(offset);
        if room == 0 {
            return Err(Errno::EFBIG);
        }
        let len = usize::try_from(room).unwrap_or(usize::MAX).min(data.len());
        let mut pages = pages.write();
        let written = pages.write(&data[..len], offset);
        let end = offset + written as u64;
        let sectors = pages.sectors();
        inode.update(|a| {
            a.mtime = now;
            a.ctime = now;
            a.blocks = sectors;
            if written != 0 {
                a.size = a.size.max(end);
            }
        });
        if written == 0 {
            Err(Errno::ENOSPC)
        } else {
            Ok(written)
        }
    }

    /// As `InodeOps::setattr`.
    pub(crate) fn set_attributes(&self, inode: &Inode, change: &SetAttr) -> Result<(), Errno> {
        let Some(size) = change.size else {
            inode.apply(change);
            return Ok(());
        };
        let pages = self.pages().ok_or(Errno::EINVAL)?;
        if size > SIZE_MAX {
            return Err(Errno::EFBIG);
        }
        let mut pages = pages.write();
        let gone = pages.cut(size);
        let sectors = pages.sectors();
        inode.update(|a| {
            a.size = size;
            a.blocks = sectors;
        });
        inode.apply(change);
        drop(pages);
        drop(gone);
        Ok(())
    }

    /// As `InodeOps::seek_extent`.
    pub(crate) fn seek_data(
        &self,
        inode: &Inode,
        offset: u64,
        extent: Extent,
    ) -> Result<u64, Errno> {
        let pages = self.pages().ok_or(Errno::EINVAL)?.read();
        let size = inode.size();
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        let number = offset / PAGE_64;
        match extent {
            Extent::Data => {
                let page = pages.next_page(number).ok_or(Errno::ENXIO)?;
                Ok((page * PAGE_64).max(offset))
            }
            Extent::Hole => Ok((pages.next_gap(number) * PAGE_64).clamp(offset, size)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(limit: u64) -> Pages {
        let options = crate::MemOptions {
            size: limit * PAGE_64,
            ..Default::default()
        };
        Pages::new(&crate::space::Space::new(&options).blocks)
    }

    #[test]
    fn gaps_read_as_zeroes() {
        let mut p = pages(0);
        assert_eq!(p.write(b"abc", 4095), 3);
        assert_eq!(p.write(b"z", 5 * PAGE_64), 1);
        assert_eq!(p.sectors(), 3 * SECTORS);
        let mut buf = vec![7; 6 * PAGE];
        p.read(&mut buf, 0);
        assert_eq!(&buf[4094..4099], b"\0abc\0");
        assert_eq!(buf[5 * PAGE], b'z');
        assert_eq!(buf.iter().filter(|b| **b != 0).count(), 4);
        let mut one = [9];
        p.read(&mut one, 4 * PAGE_64 + 17);
        assert_eq!(one, [0]);
    }

    #[test]
    fn a_cut_clears_the_rest_of_the_last_page() {
        let mut p = pages(4);
        assert_eq!(p.write(&[1; 4 * PAGE], 0), 4 * PAGE);
        assert_eq!(p.write(&[1], 4 * PAGE_64), 0);
        assert_eq!(p.cut(PAGE_64 + 10).len(), 2);
        let mut buf = vec![7; 2 * PAGE];
        p.read(&mut buf, 0);
        assert_eq!(
            buf.iter().map(|b| usize::from(*b)).sum::<usize>(),
            PAGE + 10
        );
        assert_eq!(p.write(&[1; 4 * PAGE], 2 * PAGE_64), 2 * PAGE);
    }

    #[test]
    fn gaps_and_pages_are_found() {
        let mut p = pages(0);
        p.write(&[1; 2 * PAGE], 3 * PAGE_64);
        assert_eq!(
            (p.next_page(0), p.next_page(4), p.next_page(5)),
            (Some(3), Some(4), None)
        );
        assert_eq!(
            (p.next_gap(0), p.next_gap(3), p.next_gap(4), p.next_gap(5)),
            (0, 5, 5, 5)
        );
    }
}
