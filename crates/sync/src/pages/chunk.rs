// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a chunk of a page pool: 512 adjacent pages, the first of which holds the header of
//! the others.

use super::{PAGE_SIZE, Pool};
use crate::region::NoSpace;
use core::ptr::{NonNull, null_mut};

/// Bytes of a chunk, and its alignment.
const SIZE: usize = 2 << 20;
const PAGES: usize = SIZE / PAGE_SIZE;
const WORDS: usize = PAGES / 64;

/// The header of a chunk, at its start.
pub(super) struct Chunk {
    /// The start of the chunk, as a pointer to all of it.
    base: NonNull<u8>,
    /// The pool: an owning pointer while a page is used.
    pub(super) pool: *const Pool,
    /// The number of used pages.
    pub(super) used: usize,
    /// Its index in the list of open chunks, if it is there.
    pub(super) list_index: usize,
    /// Bit n: page n is cold or warm.
    free: [u64; WORDS],
    /// Bit n: page n is warm.
    warm: [u64; WORDS],
}

const _: () = assert!(size_of::<Chunk>() <= PAGE_SIZE);

/// The number of the first bit that is set.
fn first(bits: &[u64; WORDS]) -> Option<usize> {
    let word = bits.iter().position(|word| *word != 0)?;
    Some(word * 64 + bits[word].trailing_zeros() as usize)
}

impl Chunk {
    /// Maps a chunk of `pool` with all pages cold, for an empty list of open chunks.
    ///
    /// # Errors
    /// [`NoSpace`] where the system refuses.
    pub(super) fn map(pool: *const Pool) -> Result<NonNull<Self>, NoSpace> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh anonymous mapping; no existing memory is touched.
        let whole = unsafe { libc::mmap(null_mut(), 2 * SIZE, access, flags, -1, 0) };
        if whole == libc::MAP_FAILED {
            return Err(NoSpace);
        }
        let before = whole.addr().next_multiple_of(SIZE) - whole.addr();
        let chunk = whole.wrapping_byte_add(before);
        unmap(whole, before);
        unmap(chunk.wrapping_byte_add(SIZE), SIZE - before);
        let mut free = [u64::MAX; WORDS];
        free[0] -= 1;
        let base = NonNull::new(chunk.cast::<u8>()).ok_or(NoSpace)?;
        let chunk = base.cast::<Self>();
        let header = Self {
            base,
            pool,
            used: 0,
            list_index: 0,
            free,
            warm: [0; WORDS],
        };
        // SAFETY: the start of the mapping just made, which is longer and aligned to more.
        unsafe { chunk.write(header) };
        Ok(chunk)
    }

    /// Unmaps a chunk without a used page.
    pub(super) fn unmap(chunk: NonNull<Self>) {
        unmap(chunk.as_ptr().cast(), SIZE);
    }

    /// The chunk that a page lies in.
    pub(super) fn of(page: NonNull<[u8; PAGE_SIZE]>) -> NonNull<Self> {
        let page = page.cast::<u8>();
        let within = page.as_ptr().addr() % SIZE;
        // SAFETY: a page lies in the mapping of its chunk, which starts at a multiple of its size.
        unsafe { page.byte_sub(within) }.cast()
    }

    pub(super) fn is_full(&self) -> bool {
        self.used == PAGES - 1
    }

    /// The number of warm pages.
    pub(super) fn warm(&self) -> usize {
        self.warm.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// Takes a page into use, a warm one if there is any; the chunk must not be full.
    pub(super) fn take(&mut self) -> (NonNull<[u8; PAGE_SIZE]>, bool) {
        let warm = first(&self.warm);
        let Some(number) = warm.or_else(|| first(&self.free)) else {
            unreachable!("a chunk with room has a free page");
        };
        let (word, bit) = (number / 64, 1 << (number % 64));
        self.free[word] &= !bit;
        self.warm[word] &= !bit;
        self.used += 1;
        // SAFETY: below the number of pages, so within the mapping.
        let at = unsafe { self.base.add(number * PAGE_SIZE) };
        (at.cast(), warm.is_some())
    }

    /// Marks a page as no longer used, but warm.
    pub(super) fn put(&mut self, page: NonNull<[u8; PAGE_SIZE]>) {
        let number = page.as_ptr().addr() % SIZE / PAGE_SIZE;
        let (word, bit) = (number / 64, 1 << (number % 64));
        self.free[word] |= bit;
        self.warm[word] |= bit;
        self.used -= 1;
    }

    /// Returns the memory of the warm pages to the system, adjacent ones at once; returns how many
    /// there were.
    pub(super) fn cool(&mut self) -> usize {
        let mut cooled = 0;
        while let Some(start) = first(&self.warm) {
            let mut end = start;
            while end < PAGES && self.warm[end / 64] & 1 << (end % 64) != 0 {
                self.warm[end / 64] &= !(1 << (end % 64));
                end += 1;
            }
            cooled += end - start;
            let at = self.base.as_ptr().wrapping_add(start * PAGE_SIZE).cast();
            // SAFETY: unused pages of this private anonymous mapping; zeroes are as good as what
            // they hold.
            unsafe { libc::madvise(at, (end - start) * PAGE_SIZE, libc::MADV_DONTNEED) };
        }
        cooled
    }
}

/// Unmaps an unused part of a mapping of this module.
fn unmap(at: *mut libc::c_void, len: usize) {
    if len != 0 {
        // SAFETY: whole pages of a mapping made in `Chunk::map`; nothing in them is used.
        unsafe { libc::munmap(at, len) };
    }
}
