// SPDX-License-Identifier: MIT OR Apache-2.0
//! A slab: slots of one type, handed out, reclaimed in batches, and given back to the system in
//! chunks.
//!
//! Free slots lie in one list and, a few of them, in trays, one for each group of threads: whoever
//! makes and frees items takes slots from its tray and puts them back there, so that threads meet
//! at the list only once in many times.
//!
//! # Locks
//! A tray, then the list. Nobody holds two trays.

use super::item::Item;
use crate::apart::Apart;
use crate::asym;
use crate::life::{Change, Sample};
use crate::prim::Mutex;
use crate::region::{NoSpace, Region};
use crate::shards::Shards;
use std::sync::Arc;

/// The free slots of a slab.
#[derive(Default)]
pub(super) struct FreeList {
    free: Vec<u32>,
    /// Slots from here on were never used.
    pub(super) fresh: u32,
    /// New incarnations start above this sequence, so that a slot whose memory went back to the
    /// system does not repeat one.
    floor: u64,
}

/// Free slots for one group of threads.
#[derive(Default)]
struct Tray {
    free: Vec<u32>,
    /// The list's floor when slots last came from there.
    floor: u64,
}

/// Slots that go from the list to a tray at a time; unused ones begin at a multiple of it, so that
/// no two trays get neighbours.
const BATCH: u32 = if cfg!(loom) { 1 } else { 64 };
/// A tray with more keeps half as many.
const TRAY_MAX: usize = 4 * BATCH as usize;

pub(super) struct Slab<T: Item> {
    pub(super) items: Region<T>,
    trays: Shards<Mutex<Tray>>,
    pub(super) list: Apart<Mutex<FreeList>>,
    /// Slot 0 is never used: index 0 means "none" everywhere.
    limit: u32,
}

impl<T: Item> Slab<T> {
    pub(super) fn new(limit: u32) -> Result<Self, NoSpace> {
        let items = Region::new(limit.saturating_add(1))?;
        Ok(Self {
            items,
            trays: Shards::default(),
            list: Apart(Mutex::new(FreeList {
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

    /// A free slot, and what its new sequence has to be above.
    fn take(&self) -> Option<(u32, u64)> {
        let pop = |tray: &mut Tray| tray.free.pop().map(|index| (index, tray.floor));
        {
            let mut tray = self.trays.mine().lock();
            if tray.free.is_empty() {
                self.refill(&mut tray);
            }
            if let Some(slot) = pop(&mut tray) {
                return Some(slot);
            }
        }
        self.trays.all().find_map(|tray| pop(&mut tray.lock()))
    }

    /// Brings slots from the list, used ones first.
    fn refill(&self, tray: &mut Tray) {
        let mut list = self.list.lock();
        tray.floor = list.floor;
        let from = list.free.len().saturating_sub(BATCH as usize);
        tray.free.extend(list.free.drain(from..));
        if tray.free.is_empty() {
            let end = (list.fresh / BATCH + 1).saturating_mul(BATCH);
            let end = end.min(self.limit.saturating_add(1));
            tray.free.extend((list.fresh..end).rev());
            list.fresh = end;
        }
    }

    /// Puts free slots into this thread's tray; what is too much there goes to the list.
    fn give(&self, free: &mut Vec<u32>) {
        let mut tray = self.trays.mine().lock();
        tray.free.append(free);
        if tray.free.len() > TRAY_MAX {
            let more = tray.free.len() - TRAY_MAX / 2;
            self.list.lock().free.extend(tray.free.drain(..more));
        }
    }

    /// Marks the victims, asks `pinned` after the heavy fence, frees what is neither pinned nor by
    /// `in_use` kept, and leaves the rest in `victims`. So it does with what somebody else has
    /// marked, who may yet find it pinned.
    pub(super) fn reclaim(
        &self,
        victims: &mut Vec<u32>,
        eligible: impl Fn(Sample) -> bool,
        scan: impl FnOnce(&[u32]) -> Vec<u32>,
        in_use: impl Fn(u32) -> bool,
        mut freed: impl FnMut(u32, &T, Option<Arc<T::Payload>>),
    ) {
        let mut asked_of = Vec::new();
        victims.retain(|&i| {
            // R3: pins name items by their own index, so a victim must be named so too.
            if self.items.wrap(i) != i {
                return false;
            }
            let mut change = self.items.at(i).life().change();
            let now = change.now();
            let ours = now.live() && eligible(now);
            if ours && now.dying() {
                asked_of.push(i);
                return false;
            }
            if ours {
                change.set_dying(true);
            }
            ours
        });
        if victims.is_empty() {
            victims.append(&mut asked_of);
            return;
        }
        // PAIR(store.pin): the marks are out before any pin word is read.
        let fenced = asym::try_heavy();
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
        victims.append(&mut asked_of);
    }

    /// Marks the victims and asks `pinned` after the heavy fence. All of them stay marked if none
    /// is pinned; otherwise none does. Whether they are marked.
    pub(super) fn seize(&self, victims: &[u32], scan: impl FnOnce(&[u32]) -> Vec<u32>) -> bool {
        let mut marked = 0;
        for &i in victims {
            let mut change = self.items.at(i).life().change();
            let now = change.now();
            if self.items.wrap(i) != i || !now.live() || now.dying() {
                break;
            }
            change.set_dying(true);
            marked += 1;
        }
        // PAIR(store.pin): the marks are out before any pin word is read.
        let free = marked == victims.len() && asym::try_heavy() && {
            let mut sorted = victims.to_vec();
            scan(&mut sorted).is_empty()
        };
        if !free {
            self.unmark(&victims[..marked]);
        }
        free
    }

    /// Takes the marks of [`Slab::seize`] back.
    pub(super) fn unmark(&self, seized: &[u32]) {
        for &i in seized {
            self.items.at(i).life().change().set_dying(false);
        }
    }

    /// Frees what was seized.
    pub(super) fn free_seized(
        &self,
        mut seized: Vec<u32>,
        mut freed: impl FnMut(u32, Option<Arc<T::Payload>>),
    ) {
        for &i in &seized {
            let item = self.items.at(i);
            freed(i, item.payload().take());
            item.life().change().set_free();
        }
        self.list.lock().free.append(&mut seized);
    }

    /// Gives whole free chunks of memory back; returns how many slots they held.
    pub(super) fn trim(&self, mut also: impl FnMut(u32, u32)) -> u32 {
        const CHUNK: u32 = 1024;
        for tray in self.trays.all() {
            let mut tray = tray.lock();
            self.list.lock().free.append(&mut tray.free);
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
            // Chunk 0 holds the slot that means "none", so it never fills up.
            if n == CHUNK {
                let top = (chunk * CHUNK..(chunk + 1) * CHUNK)
                    .map(|i| self.items.at(i).life().sample().raw())
                    .max()
                    .unwrap_or(0);
                list.floor = list.floor.max(top);
                self.items.release(chunk * CHUNK, CHUNK);
                also(chunk * CHUNK, CHUNK);
                given += CHUNK;
            }
        }
        given
    }

    pub(super) fn in_use(&self) -> u32 {
        // A slot on its way from a tray to the list counts twice.
        let in_trays: usize = self.trays.all().map(|tray| tray.lock().free.len()).sum();
        let list = self.list.lock();
        let free = u32::try_from(in_trays + list.free.len()).unwrap_or(u32::MAX);
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
