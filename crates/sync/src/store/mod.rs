// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements two type-stable slabs, of mounts and of dentries, and the pins that keep their items
//! from being reclaimed.
//!
//! # Kernel analogue
//! `SLAB_TYPESAFE_BY_RCU` caches, and instead of reference counts the open file's own pointer. A
//! pin is one plain store of "this mount, this dentry" into a word that only the pinning task
//! writes. It writes no shared cache line, so any number of tasks pin the same dentry without
//! contention. The reclaimer pays: it scans the dense array of pin words.
//!
//! # States of an item
//! Free -> live ([`Store::new_dentry`]) -> dying (marked by [`Store::reclaim_dentries`]) -> free,
//! or live again if a pin was found. Slots are reused at once: the sequence in [`Life`]
//! distinguishes incarnations.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | item words | the item's `Change` | a sample of its `Life` |
//! | payload | set once while live; taken by the reclaimer | a [`Pin`] on the item |
//! | pin word | the owner of the [`PinSet`], or the thread that releases the pin | reclaimer |
//!
//! # Rules
//! R1. Pin: store the word, light fence, check `Life::is_unchanged`. Reclaim: mark dying, heavy
//!     fence, scan the words. PAIR(store.pin): if the pin's store is first, the scan sees it
//!     and the item stays. If the mark is first, the pin sees the mark and fails.
//! R2. To copy a pin ([`PinSet::dup`]) the source is held until the copy is confirmed, so a scan
//!     meets one of them.
//! R3. Pins and victims name an item by its own index, below the capacity. A pin reduces an index
//!     that wraps; a reclaimer refuses it.
//!
//! # Guarantees
//! G1. A payload is dropped only when no pin names its item.
//! G2. Pinning neither locks nor allocates as long as a slot is free in the set's blocks.
//!
//! # Limits
//! A scan costs about a nanosecond for each pin word ever in use: reclaim in batches.

mod files;
mod item;
mod pins;
mod slab;
mod table;

pub use files::{FileHead, FileItem, FileRef, LastRef, NoFile};
pub use item::{Item, PayloadCell};
pub use pins::{Pin, PinSet};
pub use table::FileSlots;

use crate::asymmetric_fence;
use crate::cache_padded::CachePadded;
use crate::life::{Change, Sample};
use crate::primitive::{AtomicU32, Mutex, Ordering, no_fault_injection};
use crate::region::{NoSpace, Region};
use crate::word::Word;
use slab::Slab;
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of pin words in a block of a [`PinSet`]: a pair of cache lines that no other set
/// writes. The files of four sets share one page of memory.
pub const PINS_PER_BLOCK: u32 = if cfg!(loom) { 2 } else { 16 };

/// Abandoned blocks that are checked before a fresh one is taken.
const ABANDONED_TRIES: usize = 4;

#[derive(Default)]
struct Blocks {
    free: Vec<u32>,
    /// Blocks of dropped sets in which a pin was still held.
    abandoned: VecDeque<u32>,
    fresh: u32,
    /// The number of the newest set.
    set_ids: u64,
}

/// Mounts, dentries and the pins on them. See the module head.
pub struct Store<M: Item, D: Item, F: FileItem = NoFile> {
    mounts: Slab<M>,
    dentries: Slab<D>,
    pins: Region<Word>,
    files: Region<F>,
    blocks: CachePadded<Mutex<Blocks>>,
    pin_limit: u32,
    id: u32,
}

fn pack(mount: u32, dentry: u32) -> u64 {
    u64::from(mount) << 32 | u64::from(dentry)
}

/// In a pin word: its holder writes there.
const WRITE: u64 = 1 << 63;
/// In a pin word: its holder has opened the file there, or is about to. A word with [`WRITE`] says
/// nothing about that.
const OPEN: u64 = 1 << 62;
/// Larger mount numbers do not fit into a pin word.
const MOUNTS_MAX: u32 = (1 << 30) - 1;
const _: () = assert!((MOUNTS_MAX as u64) << 32 & (WRITE | OPEN) == 0);

fn mount_of(word: u64) -> u32 {
    ((word & !(WRITE | OPEN)) >> 32) as u32
}

fn dentry_of(word: u64) -> u32 {
    word as u32
}

/// The result of [`Store::find_opens`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Opens {
    /// There is a writer, possibly the caller's own pin.
    pub writers: bool,
    /// There is an opener besides the caller.
    pub others: bool,
}

/// Store numbers, so that a pin of one store is never taken for a pin of another.
#[cfg(not(loom))]
fn next_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(id < u32::MAX, "a process makes fewer than 2^32 stores");
    id
}

#[cfg(loom)]
fn next_id() -> u32 {
    let _unused: Option<AtomicU32> = None;
    1
}

impl<M: Item, D: Item, F: FileItem> Store<M, D, F> {
    /// A store for at most `mounts` mounts, `dentries` dentries and `pins` pins (rounded up to
    /// whole blocks).
    ///
    /// # Errors
    /// [`NoSpace`] where the system refuses the address space.
    pub fn new(mounts: u32, dentries: u32, pins: u32) -> Result<Self, NoSpace> {
        let mounts = mounts.min(MOUNTS_MAX);
        let pin_limit = pins.next_multiple_of(PINS_PER_BLOCK) + PINS_PER_BLOCK;
        Ok(Self {
            mounts: Slab::new(mounts)?,
            dentries: Slab::new(dentries)?,
            pins: Region::new(pin_limit)?,
            files: Region::new(pin_limit)?,
            blocks: CachePadded::default(),
            pin_limit,
            id: next_id(),
        })
    }

    /// A number that no other store of the process has.
    pub fn id(&self) -> u64 {
        u64::from(self.id)
    }

    /// The dentry slot at `index`: always readable, whatever it holds now.
    #[inline(always)]
    pub fn dentry(&self, index: u32) -> &D {
        self.dentries.items.at(index)
    }

    /// The mount slot at `index`: always readable, whatever it holds now.
    #[inline(always)]
    pub fn mount(&self, index: u32) -> &M {
        self.mounts.items.at(index)
    }

    /// Makes a live dentry, set up by `init` before it is visible as live; `None` at the limit.
    ///
    /// `init` gets its index, may give it a payload and may make it reachable. Until `init`
    /// returns, a thread that finds the dentry sees a change going on, and a reclaimer waits.
    pub fn new_dentry(&self, init: impl FnOnce(u32, &D, &mut Change<'_>)) -> Option<(u32, Sample)> {
        let _step = no_fault_injection();
        self.dentries.alloc(init)
    }

    /// Makes a live mount, set up by `init` before it is visible as live; `None` at the limit.
    pub fn new_mount(&self, init: impl FnOnce(&M, &mut Change<'_>)) -> Option<(u32, Sample)> {
        let _step = no_fault_injection();
        self.mounts.alloc(|_, mount, change| init(mount, change))
    }

    /// Gives the dentry at `index` its payload.
    ///
    /// # Errors
    /// Hands the payload back if there is one already.
    pub fn set_dentry_payload(
        &self,
        index: u32,
        payload: Arc<D::Payload>,
    ) -> Result<(), Arc<D::Payload>> {
        self.dentry(index).payload().set(payload)
    }

    /// Gives the mount at `index` its payload.
    ///
    /// # Errors
    /// Hands the payload back if there is one already.
    pub fn set_mount_payload(
        &self,
        index: u32,
        payload: Arc<M::Payload>,
    ) -> Result<(), Arc<M::Payload>> {
        self.mount(index).payload().set(payload)
    }

    fn check(&self, pin: &Pin) {
        assert_eq!(
            pin.store(),
            self.id,
            "a pin is used with the store it was taken on"
        );
    }

    /// The payload of the pinned dentry, if it has one.
    #[inline(always)]
    pub fn dentry_payload<'a>(&'a self, pin: &'a Pin) -> Option<&'a D::Payload> {
        self.check(pin);
        let p = self
            .dentry(pin.dentry())
            .payload()
            .0
            .load(Ordering::Acquire);
        // SAFETY: the pin names this item and keeps its payload from being taken (G1). It may be
        // index 0: that slot never gets a payload. A payload is set once in a life, so the pointer
        // stays the same while `pin` is borrowed.
        unsafe { p.as_ref() }
    }

    /// The payload of the pinned mount, if it has one.
    #[inline(always)]
    pub fn mount_payload<'a>(&'a self, pin: &'a Pin) -> Option<&'a M::Payload> {
        self.check(pin);
        let p = self.mount(pin.mount()).payload().0.load(Ordering::Acquire);
        // SAFETY: as for `dentry_payload`.
        unsafe { p.as_ref() }
    }

    /// A new reference to the pinned dentry's payload.
    pub fn share_dentry_payload(&self, pin: &Pin) -> Option<Arc<D::Payload>> {
        self.dentry_payload(pin).map(clone_arc)
    }

    /// A new reference to the pinned mount's payload.
    pub fn share_mount_payload(&self, pin: &Pin) -> Option<Arc<M::Payload>> {
        self.mount_payload(pin).map(clone_arc)
    }

    /// Releases a pin. Any thread may.
    #[inline(always)]
    pub fn release(&self, pin: Pin) {
        self.check(&pin);
        let _step = no_fault_injection();
        self.pins.at(pin.slot()).set(0);
    }

    fn used_pins(&self) -> u32 {
        self.blocks.lock().fresh * PINS_PER_BLOCK
    }

    /// The victims that some pin names, sorted.
    fn scan(&self, victims: &[u32], index_of: impl Fn(u64) -> u32) -> Vec<u32> {
        let mut victims = victims.to_vec();
        victims.sort_unstable();
        let mut found = Vec::new();
        for slot in 0..self.used_pins() {
            let index = index_of(self.pins.at(slot).get());
            if index != 0 && victims.binary_search(&index).is_ok() {
                found.push(index);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Frees those of `victims` that no pin names; the pinned ones stay in `victims`, live as
    /// before.
    ///
    /// It touches only victims that `eligible` accepts, called with the item locked; the others
    /// leave `victims`. `in_use` decides whether an unpinned one must stay anyway. It runs while
    /// nothing can pin the item, and sees all that earlier holders of pins did. `freed` gets each
    /// item with its payload before its slot can be reused; drop payloads outside of locks. Both
    /// are called in the order of `victims`, so an item that keeps another alive may be freed
    /// before it.
    pub fn reclaim_dentries(
        &self,
        victims: &mut Vec<u32>,
        eligible: impl Fn(Sample) -> bool,
        in_use: impl Fn(u32) -> bool,
        freed: impl FnMut(u32, &D, Option<Arc<D::Payload>>),
    ) {
        let scan = |v: &[u32]| self.scan(v, dentry_of);
        let _step = no_fault_injection();
        self.dentries
            .reclaim(victims, eligible, scan, in_use, freed);
    }

    /// As [`Store::reclaim_dentries`], for mounts.
    pub fn reclaim_mounts(
        &self,
        victims: &mut Vec<u32>,
        freed: impl FnMut(u32, &M, Option<Arc<M::Payload>>),
    ) {
        let scan = |v: &[u32]| self.scan(v, mount_of);
        let _step = no_fault_injection();
        self.mounts
            .reclaim(victims, |_| true, scan, |_| false, freed);
    }

    /// Freezes `mounts` so that none can be pinned, if none of them is; `None` otherwise, with all
    /// unchanged. A thread that finds a frozen mount waits.
    pub fn freeze_mounts(&self, mounts: Vec<u32>) -> Option<FrozenMounts<'_, M, D, F>> {
        let _step = no_fault_injection();
        let frozen = self
            .mounts
            .freeze(&mounts, |v: &[u32]| self.scan(v, mount_of));
        frozen.then_some(FrozenMounts {
            store: self,
            mounts,
        })
    }

    /// Whether there is a writer where `there` says, which is called with the mount and dentry of
    /// each place that is written to. `None`: the system refused the fence, and nothing is known.
    ///
    /// PAIR(store.write): the caller has set the word that writers check. Either a writer's mark is
    /// visible before the scan and is found, or the writer sees what the caller set.
    pub fn has_writers(&self, there: impl Fn(u32, u32) -> bool) -> Option<bool> {
        if !asymmetric_fence::try_heavy() {
            return None;
        }
        let found = self
            .marked()
            .any(|(_, word)| word & WRITE != 0 && there(mount_of(word), dentry_of(word)));
        Some(found)
    }

    /// Which opens there are of dentries that `there` accepts, which is called with each dentry
    /// that is open; `own` does not count as another. `None`: the system refused the fence, and
    /// nothing is known.
    ///
    /// PAIR(store.open): the caller has set the word that openers check. Either an opener's mark is
    /// visible before the scan and is found, or the opener sees what the caller set.
    pub fn find_opens(&self, own: &Pin, there: impl Fn(u32) -> bool) -> Option<Opens> {
        self.check(own);
        if !asymmetric_fence::try_heavy() {
            return None;
        }
        let mut found = Opens::default();
        for (slot, word) in self.marked() {
            if there(dentry_of(word)) {
                found.writers |= word & WRITE != 0;
                found.others |= slot != own.slot();
            }
        }
        Some(found)
    }

    /// All pin words with a mark, in two passes: a mark moves to another word at most once, so one
    /// of two passes sees it. Each pass reads the number of words again, since a mark may move to
    /// one that was not in use before.
    fn marked(&self) -> impl Iterator<Item = (u32, u64)> {
        let words = (0..2).flat_map(|_| 0..self.used_pins());
        let words = words.map(|slot| (slot, self.pins.at(slot).get()));
        words.filter(|(_, word)| word & (WRITE | OPEN) != 0)
    }

    /// Whether the pin's mark says opened, not written to.
    pub fn is_opened(&self, pin: &Pin) -> bool {
        self.check(pin);
        self.pins.at(pin.slot()).get() & OPEN != 0
    }

    /// Whether the pin's mark says written to.
    pub fn is_writing(&self, pin: &Pin) -> bool {
        self.check(pin);
        self.pins.at(pin.slot()).get() & WRITE != 0
    }

    /// Whether this is the dentry's payload now.
    pub fn has_payload(&self, dentry: u32, payload: &D::Payload) -> bool {
        let p = self.dentry(dentry).payload().0.load(Ordering::Acquire);
        core::ptr::eq(p, payload)
    }

    /// The number of pins on the mount now.
    pub fn mount_pins(&self, mount: u32) -> usize {
        asymmetric_fence::heavy();
        (0..self.used_pins())
            .filter(|&s| mount_of(self.pins.at(s).get()) == mount)
            .count()
    }

    /// Gives whole free chunks of slots back to the system; returns the number of slots in them.
    ///
    /// Call it after a grace period of [`crate::rcu`], when no walk can still read a freed slot.
    /// `dentries` gets each range of dentry slots that goes, to release data that is kept beside
    /// them; none of them is reused until it returns.
    pub fn trim(&self, dentries: impl FnMut(u32, u32)) -> u32 {
        self.mounts.trim(|_, _| {}) + self.dentries.trim(dentries)
    }

    /// The number of pin words ever in use.
    pub fn pins_touched(&self) -> u32 {
        self.used_pins()
    }

    /// One more than the highest dentry index ever used.
    pub fn dentries_touched(&self) -> u32 {
        self.dentries.list.lock().fresh
    }

    /// Dentries and mounts that are not free.
    pub fn in_use(&self) -> (u32, u32) {
        (self.dentries.in_use(), self.mounts.in_use())
    }

    /// The number of pins held now.
    pub fn pins_held(&self) -> usize {
        (0..self.used_pins())
            .filter(|&s| self.pins.at(s).get() != 0)
            .count()
    }

    /// The address ranges of mounts and dentries, for tests that write-protect them.
    pub fn spans(&self) -> [(usize, usize); 2] {
        [self.mounts.items.span(), self.dentries.items.span()]
    }

    /// A number that no other set of this store has.
    fn next_set_id(&self) -> u64 {
        let mut blocks = self.blocks.lock();
        blocks.set_ids += 1;
        blocks.set_ids
    }

    fn take_block(&self) -> Option<u32> {
        let mut blocks = self.blocks.lock();
        if let Some(b) = blocks.free.pop() {
            return Some(b);
        }
        let all_free = |b: u32| (b..b + PINS_PER_BLOCK).all(|s| self.pins.at(s).get() == 0);
        let full = blocks.fresh * PINS_PER_BLOCK >= self.pin_limit;
        // Checks a few of them in turn, or all if nothing else is left.
        let tries = if full { usize::MAX } else { ABANDONED_TRIES };
        for _ in 0..tries.min(blocks.abandoned.len()) {
            let Some(b) = blocks.abandoned.pop_front() else {
                break;
            };
            if all_free(b) {
                return Some(b);
            }
            blocks.abandoned.push_back(b);
        }
        // The first block stays unused, so that no file has the number 0.
        blocks.fresh = blocks.fresh.max(1);
        let first = blocks.fresh * PINS_PER_BLOCK;
        (first < self.pin_limit).then(|| {
            blocks.fresh += 1;
            first
        })
    }
}

/// Mounts without pins that cannot be pinned; dropping this unfreezes them.
#[must_use]
pub struct FrozenMounts<'s, M: Item, D: Item, F: FileItem = NoFile> {
    store: &'s Store<M, D, F>,
    mounts: Vec<u32>,
}

impl<M: Item, D: Item, F: FileItem> FrozenMounts<'_, M, D, F> {
    /// Frees them; `freed` gets each with its payload before its slot can be reused.
    pub fn free(mut self, freed: impl FnMut(u32, Option<Arc<M::Payload>>)) {
        let _step = no_fault_injection();
        let mounts = core::mem::take(&mut self.mounts);
        self.store.mounts.free_frozen(mounts, freed);
    }
}

impl<M: Item, D: Item, F: FileItem> Drop for FrozenMounts<'_, M, D, F> {
    fn drop(&mut self) {
        let _step = no_fault_injection();
        self.store.mounts.unmark(&self.mounts);
    }
}

/// A new reference to a payload that a store owns.
fn clone_arc<P>(payload: &P) -> Arc<P> {
    let p: *const P = payload;
    // SAFETY: payloads in a store come from `Arc::into_raw` and the reference shows that an owner
    // is alive.
    unsafe {
        Arc::increment_strong_count(p);
        Arc::from_raw(p)
    }
}
