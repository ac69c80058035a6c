// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a slab: slots of one type that are allocated, reclaimed in batches, and given back to
//! the system in chunks.
//!
//! Free slots are in one list and, some of them, in magazines, one for each group of threads. A
//! thread takes slots from its group's magazine and returns them there, so threads seldom meet at
//! the list.
//!
//! # Kernel analogue
//! `struct kmem_cache` with per-CPU sheaves, or the magazines of Bonwick's allocator.
//!
//! # Locks
//! A magazine, then the list. No thread holds two magazines.

use super::item::Item;
use crate::asymmetric_fence;
use crate::cache_padded::CachePadded;
use crate::life::{Change, Sample};
use crate::primitive::Mutex;
use crate::region::{NoSpace, Region};
use crate::shards::Shards;
use std::sync::Arc;

/// The free slots of a slab.
#[derive(Default)]
pub(super) struct FreeList {
    free: Vec<u32>,
    /// Slots from this one on were never used.
    pub(super) fresh: u32,
    /// New incarnations start above this sequence, so that a slot does not repeat one after its
    /// memory was given back.
    floor: u64,
}

/// Free slots of one group of threads.
#[derive(Default)]
struct Magazine {
    free: Vec<u32>,
    /// The list's floor when slots last came from there.
    floor: u64,
}

/// Slots moved from the list to a magazine at a time. Unused ones begin at a multiple of it, so
/// that no two magazines get adjacent slots.
const BATCH: u32 = if cfg!(loom) { 1 } else { 64 };
/// A magazine with more keeps half as many.
const MAGAZINE_MAX: usize = 4 * BATCH as usize;

pub(super) struct Slab<T: Item> {
    pub(super) items: Region<T>,
    magazines: Shards<Mutex<Magazine>>,
    pub(super) list: CachePadded<Mutex<FreeList>>,
    /// Slot 0 is never used: index 0 means "none" everywhere.
    limit: u32,
}

impl<T: Item> Slab<T> {
    pub(super) fn new(limit: u32) -> Result<Self, NoSpace> {
        let items = Region::new(limit.saturating_add(1))?;
        Ok(Self {
            items,
            magazines: Shards::default(),
            list: CachePadded(Mutex::new(FreeList {
                fresh: 1,
                ..FreeList::default()
            })),
            limit,
        })
    }

    pub(super) fn alloc(
        &self,
        init: impl FnOnce(u32, &T, &mut Change<'_>),
    ) -> Option<(u32, Sample)> {
        let (index, floor) = self.take()?;
        let item = self.items.at(index);
        drop(item.payload().take());
        let mut change = item.life().change();
        change.set_live(floor);
        init(index, item, &mut change);
        Some((index, change.finish()))
    }

    /// A free slot, and the sequence above which its next incarnation starts.
    fn take(&self) -> Option<(u32, u64)> {
        let pop =
            |magazine: &mut Magazine| magazine.free.pop().map(|index| (index, magazine.floor));
        {
            let mut magazine = self.magazines.mine().lock();
            if magazine.free.is_empty() {
                self.refill(&mut magazine);
            }
            if let Some(slot) = pop(&mut magazine) {
                return Some(slot);
            }
        }
        self.magazines
            .all()
            .find_map(|magazine| pop(&mut magazine.lock()))
    }

    /// Refills a magazine from the list, used slots first.
    fn refill(&self, magazine: &mut Magazine) {
        let mut list = self.list.lock();
        magazine.floor = list.floor;
        let from = list.free.len().saturating_sub(BATCH as usize);
        magazine.free.extend(list.free.drain(from..));
        if magazine.free.is_empty() {
            let end = (list.fresh / BATCH + 1).saturating_mul(BATCH);
            let end = end.min(self.limit.saturating_add(1));
            magazine.free.extend((list.fresh..end).rev());
            list.fresh = end;
        }
    }

    /// Returns free slots to this thread's magazine; the excess goes to the list.
    fn give(&self, free: &mut Vec<u32>) {
        let mut magazine = self.magazines.mine().lock();
        magazine.free.append(free);
        if magazine.free.len() > MAGAZINE_MAX {
            let more = magazine.free.len() - MAGAZINE_MAX / 2;
            self.list.lock().free.extend(magazine.free.drain(..more));
        }
    }

    /// Marks the victims, calls `scan` after the heavy fence, frees those neither pinned nor kept
    /// by `in_use`, and leaves the rest in `victims`. The rest includes victims that another
    /// reclaimer has marked, which may yet find them pinned.
    pub(super) fn reclaim(
        &self,
        victims: &mut Vec<u32>,
        eligible: impl Fn(Sample) -> bool,
        scan: impl FnOnce(&[u32]) -> Vec<u32>,
        in_use: impl Fn(u32) -> bool,
        mut freed: impl FnMut(u32, &T, Option<Arc<T::Payload>>),
    ) {
        let mut marked_by_others = Vec::new();
        victims.retain(|&i| {
            // R3: pins name an item by its own index, so a victim must be named by it too.
            if self.items.wrap(i) != i {
                return false;
            }
            let mut change = self.items.at(i).life().change();
            let now = change.now();
            let ours = now.is_live() && eligible(now);
            if ours && now.is_dying() {
                marked_by_others.push(i);
                return false;
            }
            if ours {
                change.set_dying(true);
            }
            ours
        });
        if victims.is_empty() {
            victims.append(&mut marked_by_others);
            return;
        }
        // PAIR(store.pin): the marks are visible before any pin word is read.
        let fenced = asymmetric_fence::try_heavy();
        let pinned = scan(victims);
        let mut free = Vec::with_capacity(victims.len());
        victims.retain(|&i| {
            let item = self.items.at(i);
            // Without the fence the scan proves nothing, and nothing is freed.
            if !fenced || pinned.binary_search(&i).is_ok() || in_use(i) {
                item.life().change().set_dying(false);
                return true;
            }
            let payload = item.payload().take();
            freed(i, item, payload);
            item.life().change().set_free();
            free.push(i);
            false
        });
        self.give(&mut free);
        victims.append(&mut marked_by_others);
    }

    /// Marks the victims and calls `scan` after the heavy fence. If none is pinned all stay marked;
    /// otherwise none does. Returns whether they are marked.
    pub(super) fn freeze(&self, victims: &[u32], scan: impl FnOnce(&[u32]) -> Vec<u32>) -> bool {
        let mut marked = 0;
        for &i in victims {
            let mut change = self.items.at(i).life().change();
            let now = change.now();
            if self.items.wrap(i) != i || !now.is_live() || now.is_dying() {
                break;
            }
            change.set_dying(true);
            marked += 1;
        }
        // PAIR(store.pin): the marks are visible before any pin word is read.
        let free = marked == victims.len() && asymmetric_fence::try_heavy() && {
            let mut sorted = victims.to_vec();
            scan(&mut sorted).is_empty()
        };
        if !free {
            self.unmark(&victims[..marked]);
        }
        free
    }

    /// Clears the marks of [`Slab::freeze`].
    pub(super) fn unmark(&self, frozen: &[u32]) {
        for &i in frozen {
            self.items.at(i).life().change().set_dying(false);
        }
    }

    /// Frees the items that were seized.
    pub(super) fn free_frozen(
        &self,
        mut frozen: Vec<u32>,
        mut freed: impl FnMut(u32, Option<Arc<T::Payload>>),
    ) {
        for &i in &frozen {
            let item = self.items.at(i);
            freed(i, item.payload().take());
            item.life().change().set_free();
        }
        self.list.lock().free.append(&mut frozen);
    }

    /// Gives whole free chunks of memory back; returns the number of slots in them.
    pub(super) fn trim(&self, mut released: impl FnMut(u32, u32)) -> u32 {
        const CHUNK: u32 = 1024;
        for magazine in self.magazines.all() {
            let mut magazine = magazine.lock();
            self.list.lock().free.append(&mut magazine.free);
        }
        let mut list = self.list.lock();
        let mut per_chunk = vec![0u32; (list.fresh / CHUNK) as usize];
        for &i in &list.free {
            if let Some(n) = per_chunk.get_mut((i / CHUNK) as usize) {
                *n += 1;
            }
        }
        let mut given = 0;
        for (chunk, &n) in (0u32..).zip(per_chunk.iter()) {
            // Chunk 0 holds the slot that means "none", so it is never all free.
            if n == CHUNK {
                let top = (chunk * CHUNK..(chunk + 1) * CHUNK)
                    .map(|i| self.items.at(i).life().sample().raw())
                    .max()
                    .unwrap_or(0);
                list.floor = list.floor.max(top);
                self.items.release(chunk * CHUNK, CHUNK);
                released(chunk * CHUNK, CHUNK);
                given += CHUNK;
            }
        }
        given
    }

    pub(super) fn in_use(&self) -> u32 {
        // A slot on its way from a magazine to the list counts twice.
        let in_magazines: usize = self
            .magazines
            .all()
            .map(|magazine| magazine.lock().free.len())
            .sum();
        let list = self.list.lock();
        let free = u32::try_from(in_magazines + list.free.len()).unwrap_or(u32::MAX);
        (list.fresh - 1).saturating_sub(free)
    }
}

impl<T: Item> Drop for Slab<T> {
    fn drop(&mut self) {
        for i in 1..self.list.lock().fresh {
            drop(self.items.at(i).payload().take());
        }
    }
}
