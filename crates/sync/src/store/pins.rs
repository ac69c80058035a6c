// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements pins: a task stores a mount and a dentry in a word of its own, and neither is
//! reclaimed while they are there. No reference is counted.

use super::files::{FileItem, NoFile};
use super::item::Item;
use super::{OPEN, PINS_PER_BLOCK, Store, WRITE, dentry_of, mount_of, pack};
use crate::asymmetric_fence;
use crate::life::Sample;
use crate::primitive::{no_fault_injection, relax};
use core::cell::{Cell, RefCell};
use core::num::NonZeroU64;
use std::sync::Arc;

/// Proof that a mount and a dentry (either may be none, index 0) are not reclaimed. Release it to
/// its store.
///
/// Two words, so that it travels in registers: the slot of the pin word and the store, and what it
/// pins.
#[derive(Debug)]
#[must_use = "a pin that is not released keeps its dentry for ever"]
pub struct Pin {
    location: NonZeroU64,
    held: u64,
}

impl Pin {
    #[inline(always)]
    pub(super) fn new(slot: u32, store: u32, held: u64) -> Self {
        let location = u64::from(store) << 32 | u64::from(slot);
        // A store's number is never 0.
        let location = NonZeroU64::new(location).unwrap_or(NonZeroU64::MIN);
        Self { location, held }
    }
    /// A pin of no store, in a slot that no file has.
    #[inline(always)]
    pub(super) fn none() -> Self {
        Self::new(0, u32::MAX, 0)
    }
    /// A copy of the pin, for one more reference to the file in its slot.
    pub(super) fn copy(&self) -> Self {
        Self { ..*self }
    }
    #[inline(always)]
    pub(super) fn slot(&self) -> u32 {
        self.location.get() as u32
    }
    #[inline(always)]
    pub(super) fn store(&self) -> u32 {
        (self.location.get() >> 32) as u32
    }
    /// The pinned mount, or 0.
    #[inline(always)]
    pub fn mount(&self) -> u32 {
        mount_of(self.held)
    }
    /// The pinned dentry, or 0.
    #[inline(always)]
    pub fn dentry(&self) -> u32 {
        dentry_of(self.held)
    }
}

/// The number of blocks searched for a free word before another one is taken.
const BLOCKS_SEARCHED: usize = 4;

/// The pin words of one task. One thread at a time uses it; any thread may release its pins.
pub struct PinSet<M: Item, D: Item, F: FileItem = NoFile> {
    store: Arc<Store<M, D, F>>,
    id: u64,
    blocks: RefCell<Vec<u32>>,
    hint: Cell<u32>,
    /// The index in `blocks` at which the search for a free word continues.
    cursor: Cell<usize>,
    fence: asymmetric_fence::Fence,
}

impl<M: Item, D: Item, F: FileItem> PinSet<M, D, F> {
    /// A set with room for [`PINS_PER_BLOCK`] pins before it takes another block; `None` at the
    /// store's limit.
    pub fn new(store: Arc<Store<M, D, F>>) -> Option<Self> {
        let block = store.take_block()?;
        Some(Self {
            id: store.next_set_id(),
            store,
            blocks: RefCell::new(vec![block]),
            hint: Cell::new(block),
            cursor: Cell::new(0),
            fence: asymmetric_fence::Fence::of_process(),
        })
    }

    /// The store it pins in.
    #[inline(always)]
    pub fn store(&self) -> &Store<M, D, F> {
        &self.store
    }

    /// A number that no other set of the store has.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Whether the word at `slot` is one of this set's.
    #[inline(always)]
    pub(super) fn owns(&self, slot: u32) -> bool {
        let block = slot / PINS_PER_BLOCK;
        block == self.hint.get() / PINS_PER_BLOCK || self.owns_block(block * PINS_PER_BLOCK)
    }

    /// A pin that becomes a file is nearly always the newest, and that is in the block of the hint.
    #[cold]
    fn owns_block(&self, first: u32) -> bool {
        self.blocks.borrow().contains(&first)
    }

    /// Makes the next search begin at `slot`, which belongs to this set.
    #[inline(always)]
    pub(super) fn look_first_at(&self, slot: u32) {
        self.hint.set(slot);
    }

    #[inline(always)]
    fn free_slot(&self) -> Option<u32> {
        let hint = self.hint.get();
        if self.store.pins.at(hint).get() == 0 {
            return Some(hint);
        }
        self.search_slot()
    }

    #[cold]
    fn search_slot(&self) -> Option<u32> {
        let mut blocks = self.blocks.borrow_mut();
        let free = |b: &u32| (*b..*b + PINS_PER_BLOCK).find(|&s| self.store.pins.at(s).get() == 0);
        // The hint's block is the likeliest to have room. Of the others a few are searched, in
        // turn, before another one is taken. So a search is short whatever the number of blocks,
        // and words that other threads released are found before the blocks grow by half.
        let block = self.hint.get() / PINS_PER_BLOCK * PINS_PER_BLOCK;
        let next_block = |_| {
            let at = self.cursor.get();
            self.cursor
                .set(if at + 1 < blocks.len() { at + 1 } else { 0 });
            free(&blocks[at])
        };
        let mut found = free(&block).or_else(|| (0..BLOCKS_SEARCHED).find_map(next_block));
        if found.is_none() {
            found = match self.store.take_block() {
                Some(block) => {
                    blocks.push(block);
                    Some(block)
                }
                None => blocks.iter().find_map(free),
            };
        }
        let slot = found?;
        self.hint.set(slot);
        Some(slot)
    }

    /// Pins `mount` and `dentry` (0: none) if they still are as sampled, and steadily live; `None`
    /// otherwise, or if the store is out of pins.
    #[inline(always)]
    pub fn try_pin(
        &self,
        mount: u32,
        mount_was: Sample,
        dentry: u32,
        dentry_was: Sample,
    ) -> Option<Pin> {
        self.try_pin_as(0, (mount, mount_was), (dentry, dentry_was))
    }

    /// As [`PinSet::try_pin`], marked as opened from the start ([`PinSet::mark_opened`]).
    #[inline(always)]
    pub fn try_pin_opened(
        &self,
        mount: u32,
        mount_was: Sample,
        dentry: u32,
        dentry_was: Sample,
    ) -> Option<Pin> {
        self.try_pin_as(OPEN, (mount, mount_was), (dentry, dentry_was))
    }

    #[inline(always)]
    fn try_pin_as(
        &self,
        mark: u64,
        (mount, mount_was): (u32, Sample),
        (dentry, dentry_was): (u32, Sample),
    ) -> Option<Pin> {
        let _step = no_fault_injection();
        let slot = self.free_slot()?;
        let word = self.store.pins.at(slot);
        // R3: indices wrap, and the scan compares whole ones.
        let mount = self.store.mounts.items.wrap(mount);
        let dentry = self.store.dentries.items.wrap(dentry);
        word.set(pack(mount, dentry) | mark);
        // PAIR(store.pin): the word is visible before the life words are checked.
        // PAIR(store.open): and before the words that takers of leases set are read.
        self.fence.light();
        let mount_ok = mount == 0
            || mount_was.is_steady() && self.store.mount(mount).life().is_unchanged(mount_was);
        let dentry_ok = dentry == 0
            || dentry_was.is_steady() && self.store.dentry(dentry).life().is_unchanged(dentry_was);
        if mount_ok && dentry_ok {
            return Some(Pin::new(slot, self.store.id, pack(mount, dentry)));
        }
        word.set(0);
        None
    }

    /// Whether another pin is available; takes another block of slots if needed.
    pub fn has_room(&self) -> bool {
        self.free_slot().is_some()
    }

    /// Pins `mount` and `dentry` as they are now, waiting for changes to end; `None` if one is not
    /// live.
    pub fn pin_now(&self, mount: u32, dentry: u32) -> Option<Pin> {
        loop {
            let m = self.store.mount(mount).life().sample_steady();
            let d = self.store.dentry(dentry).life().sample_steady();
            if mount != 0 && !m.is_live() || dentry != 0 && !d.is_live() || !self.has_room() {
                return None;
            }
            if let Some(pin) = self.try_pin(mount, m, dentry, d) {
                return Some(pin);
            }
            relax();
        }
    }

    /// Marks the pinned file as written to, before the caller checks whether writing is denied
    /// ([`Store::has_writers`]).
    #[inline(always)]
    pub fn mark_writing(&self, pin: &Pin) {
        // PAIR(store.write): the mark is visible before the words that deniers set are read.
        self.mark(pin, WRITE);
    }

    /// Marks the pinned file as opened, before the caller checks for conflicting leases
    /// ([`Store::find_opens`]). This clears the write mark.
    #[inline(always)]
    pub fn mark_opened(&self, pin: &Pin) {
        // PAIR(store.open): the mark is visible before the words that takers of leases set are
        // read.
        self.mark(pin, OPEN);
    }

    /// Makes `mark` the pin's only one, visible before the caller's next read.
    #[inline(always)]
    fn mark(&self, pin: &Pin, mark: u64) {
        self.store.check(pin);
        self.store.pins.at(pin.slot()).set(pin.held | mark);
        self.fence.light();
    }

    /// A word in use that pins nothing; `None` if the store is out of pins.
    pub fn reserve(&self) -> Option<Pin> {
        let slot = self.free_slot()?;
        self.store.pins.at(slot).set(WRITE);
        Some(Pin::new(slot, self.store.id, 0))
    }

    /// Clears the mark.
    pub fn unmark_writing(&self, pin: &Pin) {
        self.store.check(pin);
        self.store.pins.at(pin.slot()).set(pin.held);
    }

    /// A second pin on what `pin` holds; `None` only if the store is out of pins.
    pub fn dup(&self, pin: &Pin) -> Option<Pin> {
        self.store.check(pin);
        // R2: the pinned items stay live while `pin` is held, so this waits only for a reclaimer to
        // notice it.
        self.pin_now(pin.mount(), pin.dentry())
    }

    /// Releases a pin.
    #[inline(always)]
    pub fn release(&self, pin: Pin) {
        let slot = pin.slot();
        self.store.release(pin);
        // Only within a block of this set: another thread fills the slots of another set.
        if slot / PINS_PER_BLOCK == self.hint.get() / PINS_PER_BLOCK {
            self.hint.set(slot);
        }
    }
}

impl<M: Item, D: Item, F: FileItem> Drop for PinSet<M, D, F> {
    fn drop(&mut self) {
        let mut shared = self.store.blocks.lock();
        for b in self.blocks.get_mut().drain(..) {
            let free = (b..b + PINS_PER_BLOCK).all(|s| self.store.pins.at(s).get() == 0);
            if free {
                shared.free.push(b)
            } else {
                shared.abandoned.push_back(b)
            }
        }
    }
}
