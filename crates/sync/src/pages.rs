// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages of memory that go back to the system when they are dropped.
//!
//! An allocator keeps what it is given back, and cannot give a page away whose neighbours are in
//! use. Here a page is a page of the system, so each can be given back by itself.
//!
//! # States of a page
//! | state | memory | holds |
//! |---|---|---|
//! | cold | none | zeroes |
//! | used | yes | what its owner wrote |
//! | warm | yes | what it held last |
//!
//! A page is cold, used, warm, and used or cold again. Not many are warm, and none after
//! [`Pages::cool`]: they spare the next owner the system's work.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | a chunk's books | the pool's lock | the same |
//! | a page's bytes | its [`Page`] | the same |
//!
//! # Rules
//! R1. Pages lie in chunks of 2 MiB, each at a multiple of its size, so that a page's address tells
//!     its chunk, whose first page names the pool.
//! R2. A chunk with a used page counts as one owner of the pool. So a page may outlive all handles
//!     of the pool, and when the pool goes no page is used.
//! R3. A chunk without a used page is unmapped, unless it has many warm ones ([`KEPT_MIN`]) or no
//!     other has room: files that come and go one after the other find their pages warm.
//!
//! # Guarantees
//! G1. A new page holds zeroes but for what it is made with, whoever had it before.
//! G2. Pages that nobody uses and that take memory are at most half as many as used ones, or
//!     [`WARM_MIN`], and one for each chunk.
//!
//! # Limits
//! One lock for all pages of a pool: who has many threads takes several pools. The system's work is
//! done with it held.

mod chunk;

use crate::prim::Mutex;
use crate::region::NoSpace;
use chunk::Chunk;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::sync::Arc;
use std::vec::Vec;

/// Bytes of a page.
pub const PAGE_SIZE: usize = 4096;
/// How many pages may stay warm when few or none are used: 1 MiB.
const WARM_MIN: usize = 256;
/// Warm pages for which a chunk without a used one is kept.
const KEPT_MIN: usize = 64;
/// Chunks that are looked at when there are more.
const LOOK_MAX: usize = 16;

/// A pool of pages. See the module head.
///
/// ```
/// use openpath_sync::Pages;
/// let pool = Pages::default();
/// let mut page = pool.page(b"abc", 1)?;
/// assert_eq!(page[..5], *b"\0abc\0");
/// page[4095] = 7;
/// drop(pool);
/// assert_eq!(page[4095], 7);
/// # Ok::<(), openpath_sync::NoSpace>(())
/// ```
#[derive(Default)]
pub struct Pages(Arc<Pool>);

/// What handles, and chunks with a used page, own together.
#[derive(Default)]
struct Pool {
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    /// The chunks that have room.
    open: Vec<NonNull<Chunk>>,
    /// Used pages of all chunks.
    used: usize,
    /// Warm pages of all chunks.
    warm: usize,
    /// Which of the open chunks is looked at next.
    next: usize,
}

// SAFETY: the chunks are reached through the lock around the books.
unsafe impl Send for Books {}

/// A page; dropped, it goes back to its pool.
///
/// Its bytes are reached as an array.
pub struct Page(NonNull<[u8; PAGE_SIZE]>);

// SAFETY: a page owns its bytes; the pool it goes back to is reached through a lock.
unsafe impl Send for Page {}
// SAFETY: as above; what is shared can only be read.
unsafe impl Sync for Page {}

impl Deref for Page {
    type Target = [u8; PAGE_SIZE];
    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        // SAFETY: mapped while the page is used (R3), and no other page has these bytes.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Page {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        // SAFETY: as for `deref`, through the only reference to the page.
        unsafe { self.0.as_mut() }
    }
}

impl Pages {
    /// A page that holds `part` from byte `from` on, and zeroes else.
    ///
    /// # Errors
    /// [`NoSpace`] where the system has no address space.
    ///
    /// # Panics
    /// If `part` does not fit.
    pub fn page(&self, part: &[u8], from: usize) -> Result<Page, NoSpace> {
        let (at, is_warm) = self.take()?;
        let mut page = Page(at);
        let to = from + part.len();
        if is_warm {
            page[..from].fill(0);
            page[to..].fill(0);
        }
        page[from..to].copy_from_slice(part);
        Ok(page)
    }

    /// A page that nobody uses, and whether it may hold anything but zeroes.
    fn take(&self) -> Result<(NonNull<[u8; PAGE_SIZE]>, bool), NoSpace> {
        let mut books = self.0.books.lock();
        let chunk = match books.open.last() {
            Some(chunk) => *chunk,
            None => {
                let chunk = Chunk::map(Arc::as_ptr(&self.0))?;
                books.open.push(chunk);
                chunk
            }
        };
        // SAFETY: an open chunk is mapped, and the lock is held.
        let chunk = unsafe { &mut *chunk.as_ptr() };
        if chunk.used == 0 {
            // SAFETY: the pointer is of a live `Arc`, the one in `self`.
            unsafe { Arc::increment_strong_count(chunk.pool) };
        }
        let (at, is_warm) = chunk.take();
        if chunk.is_full() {
            // It was the last.
            books.open.pop();
        }
        books.warm -= usize::from(is_warm);
        books.used += 1;
        Ok((at, is_warm))
    }

    /// Gives the memory of all warm pages back.
    pub fn cool(&self) {
        let mut books = self.0.books.lock();
        let mut chunks = core::mem::take(&mut books.open);
        for chunk in chunks.drain(..) {
            // SAFETY: an open chunk is mapped, and the lock is held.
            let chunk = unsafe { &mut *chunk.as_ptr() };
            books.warm -= chunk.cool();
            if chunk.used == 0 {
                Chunk::unmap(NonNull::from(chunk));
            } else {
                books.put(chunk);
            }
        }
    }

    /// Pages that take memory although nobody uses them.
    #[cfg(test)]
    fn warm(&self) -> usize {
        self.0.books.lock().warm
    }
}

impl Books {
    /// Notes that an open chunk has a place in the list.
    fn put(&mut self, chunk: &mut Chunk) {
        chunk.place = self.open.len();
        self.open.push(NonNull::from(chunk));
    }

    /// Takes a chunk off the list.
    fn strike(&mut self, chunk: &Chunk) {
        self.open.swap_remove(chunk.place);
        if let Some(moved) = self.open.get(chunk.place) {
            // SAFETY: an open chunk is mapped; the lock around the books is held, and this is
            // another chunk than the one that `chunk` refers to.
            unsafe { (*moved.as_ptr()).place = chunk.place };
        }
    }

    /// How many pages may be warm.
    fn warm_max(&self) -> usize {
        WARM_MIN.max(self.used / 2)
    }

    /// Whether a chunk with this many warm pages stays although none is used.
    fn wants(&self, warm: usize) -> bool {
        (warm >= KEPT_MIN || self.open.len() == 1) && self.warm <= self.warm_max()
    }

    /// Gives the memory of warm pages back, of one chunk after the other, until there are few.
    fn cool(&mut self) {
        for _ in 0..LOOK_MAX {
            if self.warm <= self.warm_max() / 2 || self.open.is_empty() {
                return;
            }
            self.next = (self.next + 1) % self.open.len();
            let chunk = self.open[self.next];
            // SAFETY: an open chunk is mapped, and the lock around the books is held.
            let state = unsafe { &mut *chunk.as_ptr() };
            self.warm -= state.cool();
            if state.used == 0 {
                self.strike(state);
                Chunk::unmap(chunk);
            }
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let chunk = Chunk::of(self.0);
        // SAFETY: the chunk of a used page is mapped; its pool does not change, and the chunk owns
        // it (R2) until the last page below.
        let pool = unsafe { (*chunk.as_ptr()).pool };
        // SAFETY: as above.
        let mut books = unsafe { &(*pool).books }.lock();
        // SAFETY: the lock is held.
        let state = unsafe { &mut *chunk.as_ptr() };
        if state.is_full() {
            books.put(state);
        }
        state.put(self.0);
        books.warm += 1;
        books.used -= 1;
        let is_empty = state.used == 0;
        let goes = is_empty && !books.wants(state.warm());
        if goes {
            books.strike(state);
            books.warm -= state.warm();
        } else if books.warm > books.warm_max() {
            books.warm -= state.cool();
            books.cool();
        }
        drop(books);
        if goes {
            Chunk::unmap(chunk);
        }
        if is_empty {
            // SAFETY: the count that `take` added for this chunk, whose last page this was.
            unsafe { Arc::decrement_strong_count(pool) };
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // No page is used (R2), so every chunk has room.
        self.books.get_mut().open.drain(..).for_each(Chunk::unmap);
    }
}

#[cfg(test)]
mod tests;
