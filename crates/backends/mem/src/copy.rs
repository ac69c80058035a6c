// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies data from one file to another, or within one.
//!
//! # Kernel analogue
//! copy_file_range(2) on tmpfs, which has no implementation of its own: data is read through a pipe
//! of 16 pages into a write. So a hole arrives as data, and a failure leaves what was written
//! before.
//!
//! # Rules
//! R1. The two locks are never held together: a batch of pages is filled under one and moved in
//!     under the other. So a file can be copied to itself, and two files to each other.
//! R2. Each byte is copied once, into the page that the target keeps; only a partial page goes
//!     through a page of the batch.

use crate::data::{Data, WriteOutcome, offset_in_page};
use crate::file::{bytes_before, write_result};
use crate::node::Node;
use crate::page_map::{PAGE, PAGE_64};
use openpath_abi::{Errno, Timespec};
use openpath_sync::Page;
use openpath_vfs::Inode;
use std::ops::Range;

/// Pages of the source that are copied under one lock: the size of a pipe.
const BATCH: usize = 16;

/// Pages laid out as in the target, so one more if they straddle those of the source. Partial pages
/// of the target are completed next.
#[derive(Default)]
struct Batch {
    pages: [Option<Page>; BATCH + 1],
}

/// The pages that `len` bytes at `offset` touch: where each part begins in these bytes, and its
/// range in its page.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let begin = done;
        let from = offset_in_page(offset + begin as u64);
        let to = PAGE.min(from + (len - begin));
        done += to - from;
        (begin < len).then_some((begin, from..to))
    })
}

impl Batch {
    /// Reads up to `len` bytes at `from`, to be stored at `at`; returns how many there were.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn fill(
        &mut self,
        inode: &Inode,
        data: &Data,
        from: u64,
        at: u64,
        len: usize,
    ) -> Result<usize, Errno> {
        let len = bytes_before(
            inode.size(),
            from,
            len.min(BATCH * PAGE - offset_in_page(from)),
        );
        for (slot, (begin, part)) in self.pages.iter_mut().zip(parts(at, len)) {
            let page = match slot {
                Some(page) => page,
                None => slot.insert(data.new_page(&[], 0)?),
            };
            data.read(&mut page[part], from + begin as u64);
        }
        Ok(len)
    }

    /// Stores `len` bytes at `at`.
    fn store(&mut self, data: &mut Data, at: u64, len: usize) -> WriteOutcome {
        for (slot, (begin, part)) in self.pages.iter_mut().zip(parts(at, len)) {
            let offset = at + begin as u64;
            let Some(page) = slot else {
                return (begin, Ok(()));
            };
            let stored = if part.len() < PAGE {
                data.write(&page[part], offset).1
            } else {
                data.swap_page(offset / PAGE_64, slot)
            };
            if stored.is_err() {
                return (begin, stored);
            }
        }
        (len, Ok(()))
    }
}

impl Node {
    /// As `InodeOps::copy_range`: from an offset of one file to an offset of another.
    ///
    /// # Errors
    /// In this order: `EXDEV`, `EINVAL` (no regular file), `EFBIG`, `EPERM` (sealed), `ENOMEM`,
    /// `ENOSPC`, `EDQUOT`.
    pub(crate) fn copy_data(
        &self,
        (inode, from): (&Inode, u64),
        (to, at): (&Inode, u64),
        len: u64,
        now: Timespec,
    ) -> Result<usize, Errno> {
        let target = self.sibling(to)?.data().ok_or(Errno::EINVAL)?;
        let source = self.data().ok_or(Errno::EINVAL)?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let len = bytes_before(inode.size(), from, len);
        if len == 0 {
            return Ok(0);
        }
        let len = Data::writable_len(at, len)?;
        let mut batch = Batch::default();
        let mut done = 0;
        while done < len {
            let (from, at) = (from + done as u64, at + done as u64);
            let filled = match batch.fill(inode, &source.read(), from, at, len - done) {
                Ok(filled) => filled,
                Err(errno) => return write_result(done, Err(errno)),
            };
            if filled == 0 {
                // The source was truncated meanwhile.
                break;
            }
            let mut data = target.write();
            let admitted = data.seals.admitted(to.size(), at, filled);
            let (stored, refused) = batch.store(&mut data, at, admitted);
            data.update_attr(to, at, stored, now);
            drop(data);
            done += stored;
            if stored < filled {
                return write_result(done, refused);
            }
        }
        Ok(done)
    }
}
