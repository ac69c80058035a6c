// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a pool of memory pages that return to the system when they are dropped.
//!
//! A general allocator keeps freed memory, and cannot return a page between used ones. Here each
//! page is a page of the system, so it can be returned by itself.
//!
//! # States of a page
//! | state | resident | contents |
//! |---|---|---|
//! | cold | no | zeroes |
//! | used | yes | its owner's data |
//! | warm | yes | its last owner's data |
//!
//! A page is cold, used, warm, then used or cold again. Few pages stay warm, and none after
//! [`Pages::cool`]: they save the next owner a page fault.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | a chunk's header | the pool's lock | the same |
//! | a page's bytes | its [`Page`] | the same |
//!
//! # Rules
//! R1. Pages lie in chunks of 2 MiB that are aligned to their size. So a page's address gives its
//!     chunk, and the chunk's first page names the pool.
//! R2. A chunk with a used page holds one reference to the pool. So a page may outlive all handles
//!     of the pool, and no page is used when the pool is dropped.
//! R3. A chunk without a used page is unmapped, unless it has many warm ones ([`KEPT_MIN`]) or no
//!     other has room. So files that come and go one after the other find warm pages.
//!
//! # Guarantees
//! G1. A new page holds zeroes except for its initial data, whatever its last owner wrote.
//! G2. The number of warm pages is at most half that of used ones, or [`WARM_MIN`], plus one for
//!     each chunk.
//!
//! # Limits
//! One lock for all pages of a pool, held during system calls: a process with many threads uses
//! several pools.

mod chunk;

use crate::primitive::Mutex;
use crate::region::NoSpace;
use chunk::Chunk;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::sync::Arc;
use std::vec::Vec;

/// Bytes of a page.
pub const PAGE_SIZE: usize = 4096;
/// How many pages may stay warm while few or none are used: 1 MiB.
const WARM_MIN: usize = 256;
/// The number of warm pages for which a chunk without a used one is kept.
const KEPT_MIN: usize = 64;
/// At most this many chunks are searched for warm pages at a time.
const SEARCH_MAX: usize = 16;

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

/// Owned by handles and by chunks with a used page.
#[derive(Default)]
struct Pool {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The chunks that have room.
    open: Vec<NonNull<Chunk>>,
    /// Used pages of all chunks.
    used: usize,
    /// Warm pages of all chunks.
    warm: usize,
    /// Index of the open chunk to search next.
    next: usize,
}

// SAFETY: the chunks are reached only under the lock around the state.
unsafe impl Send for State {}

/// A page; dropping it returns it to its pool.
///
/// It dereferences to its bytes.
pub struct Page(NonNull<[u8; PAGE_SIZE]>);

// SAFETY: a page owns its bytes; its pool is reached only under a lock.
unsafe impl Send for Page {}
// SAFETY: as above; a shared page can only be read.
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
    /// A page that holds `part` from byte `from` on, and zeroes elsewhere.
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

    /// A free page, and whether it may hold anything but zeroes.
    fn take(&self) -> Result<(NonNull<[u8; PAGE_SIZE]>, bool), NoSpace> {
        let mut state = self.0.state.lock();
        let chunk = match state.open.last() {
            Some(chunk) => *chunk,
            None => {
                let chunk = Chunk::map(Arc::as_ptr(&self.0))?;
                state.open.push(chunk);
                chunk
            }
        };
        // SAFETY: an open chunk is mapped, and the lock is held.
        let chunk = unsafe { &mut *chunk.as_ptr() };
        if chunk.used == 0 {
            // SAFETY: the pointer came from a live `Arc`, the one in `self`.
            unsafe { Arc::increment_strong_count(chunk.pool) };
        }
        let (at, is_warm) = chunk.take();
        if chunk.is_full() {
            // It is the last one.
            state.open.pop();
        }
        state.warm -= usize::from(is_warm);
        state.used += 1;
        Ok((at, is_warm))
    }

    /// Returns the memory of all warm pages to the system.
    pub fn cool(&self) {
        let mut state = self.0.state.lock();
        let mut chunks = core::mem::take(&mut state.open);
        for chunk in chunks.drain(..) {
            // SAFETY: an open chunk is mapped, and the lock is held.
            let chunk = unsafe { &mut *chunk.as_ptr() };
            state.warm -= chunk.cool();
            if chunk.used == 0 {
                Chunk::unmap(NonNull::from(chunk));
            } else {
                state.list(chunk);
            }
        }
    }

    /// Free pages that are resident.
    #[cfg(test)]
    fn warm(&self) -> usize {
        self.0.state.lock().warm
    }
}

impl State {
    /// Adds a chunk to the list of open ones.
    fn list(&mut self, chunk: &mut Chunk) {
        chunk.list_index = self.open.len();
        self.open.push(NonNull::from(chunk));
    }

    /// Removes a chunk from the list.
    fn unlist(&mut self, chunk: &Chunk) {
        self.open.swap_remove(chunk.list_index);
        if let Some(moved) = self.open.get(chunk.list_index) {
            // SAFETY: an open chunk is mapped; the lock around the state is held, and this is not
            // the chunk that `chunk` refers to.
            unsafe { (*moved.as_ptr()).list_index = chunk.list_index };
        }
    }

    /// How many pages may be warm.
    fn warm_max(&self) -> usize {
        WARM_MIN.max(self.used / 2)
    }

    /// Whether an unused chunk with this many warm pages is kept.
    fn keeps(&self, warm: usize) -> bool {
        (warm >= KEPT_MIN || self.open.len() == 1) && self.warm <= self.warm_max()
    }

    /// Returns the memory of warm pages, one chunk after the other, until few are left.
    fn cool(&mut self) {
        for _ in 0..SEARCH_MAX {
            if self.warm <= self.warm_max() / 2 || self.open.is_empty() {
                return;
            }
            self.next = (self.next + 1) % self.open.len();
            let chunk = self.open[self.next];
            // SAFETY: an open chunk is mapped, and the lock around the state is held.
            let header = unsafe { &mut *chunk.as_ptr() };
            self.warm -= header.cool();
            if header.used == 0 {
                self.unlist(header);
                Chunk::unmap(chunk);
            }
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let chunk = Chunk::of(self.0);
        // SAFETY: the chunk of a used page is mapped; its pool does not change, and the chunk holds
        // a reference to it (R2) until the last page below.
        let pool = unsafe { (*chunk.as_ptr()).pool };
        // SAFETY: as above.
        let mut state = unsafe { &(*pool).state }.lock();
        // SAFETY: the lock is held.
        let header = unsafe { &mut *chunk.as_ptr() };
        if header.is_full() {
            state.list(header);
        }
        header.put(self.0);
        state.warm += 1;
        state.used -= 1;
        let is_empty = header.used == 0;
        let goes = is_empty && !state.keeps(header.warm());
        if goes {
            state.unlist(header);
            state.warm -= header.warm();
        } else if state.warm > state.warm_max() {
            state.warm -= header.cool();
            state.cool();
        }
        drop(state);
        if goes {
            Chunk::unmap(chunk);
        }
        if is_empty {
            // SAFETY: the reference that `take` added for this chunk; this was its last page.
            unsafe { Arc::decrement_strong_count(pool) };
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // No page is used (R2), so every chunk has room.
        self.state.get_mut().open.drain(..).for_each(Chunk::unmap);
    }
}

#[cfg(test)]
mod tests;
