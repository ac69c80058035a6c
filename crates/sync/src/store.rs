// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two type-stable slabs, of mounts and of dentries, and the pins that keep their items from being
//! reclaimed.
//!
//! # Kernel analogue
//! `SLAB_TYPESAFE_BY_RCU` caches, and in place of reference counts the open file's own pointer: a
//! pin is one plain
//! store of "this mount, this dentry" into a word that only the pinning task writes. Nothing shared
//! is written, so
//! any number of tasks pin the same dentry without a cache line moving. The price is paid by the
//! reclaimer, which
//! scans the dense array of pin words.
//!
//! # States of an item
//! Free -> live ([`Store::new_dentry`]) -> dying (asked for by [`Store::reclaim_dentries`]) ->
//! free, or live again if
//! a pin was found. Slots are reused at once: the sequence in [`Life`] tells incarnations apart.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | item words | the item's `Change` | a sample of its `Life` |
//! | payload | set once while live; taken by the reclaimer | a [`Pin`] on the item |
//! | pin word | the owner of the [`PinSet`], or who releases the pin | reclaimer |
//!
//! # Rules
//! R1. Pin: store the word, light fence, ask `Life::still`. Reclaim: mark dying, heavy fence, scan
//!     the words.
//!     PAIR(store.pin): if the pin's store is first, the scan sees it and the item stays; if the
//!     mark is first, the
//!     pin sees the mark and gives up.
//! R2. A pin is copied ([`PinSet::dup`]) while the source is held until the copy is confirmed, so a
//!     scan meets one of
//!     them.
//! R3. Pins and victims name an item by its own index, below the capacity: one that wraps is
//!     brought down by the pin and refused by the reclaimer.
//!
//! # Guarantees
//! G1. A payload is dropped only when no pin names its item.
//! G2. Pinning neither locks nor allocates, as long as a slot is free in the set's blocks.
//!
//! # Limits
//! A scan costs about a nanosecond for each pin word ever in use; reclaim in batches.

use crate::asym;
use crate::life::{Life, Sample};
use crate::prim::{AtomicPtr, AtomicU32, Mutex, Ordering, relax};
use crate::region::{NoSpace, Region};
use crate::word::Word;
use crate::zero::ZeroValid;
use core::cell::{Cell, RefCell};
use std::sync::Arc;

/// A slot for an owned, shared payload; all zero: empty.
pub struct PayloadCell<P>(AtomicPtr<P>);

impl<P> Default for PayloadCell<P> {
    fn default() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }
}

// SAFETY: a null pointer is all zero and means empty; the payload is released by the store, not by
// a drop of the
// cell; the cell is only an atomic word.
unsafe impl<P: Send + Sync + 'static> ZeroValid for PayloadCell<P> {}

impl<P> PayloadCell<P> {
    fn take(&self) -> Option<Arc<P>> {
        let p = self.0.swap(core::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: a non-null pointer came from `Arc::into_raw` in `set`, and the swap makes us its
        // only taker.
        (!p.is_null()).then(|| unsafe { Arc::from_raw(p) })
    }
    fn set(&self, payload: Arc<P>) -> Result<(), Arc<P>> {
        let p = Arc::into_raw(payload).cast_mut();
        match self.0.compare_exchange(
            core::ptr::null_mut(),
            p,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => Ok(()),
            // SAFETY: `p` came from `Arc::into_raw` just above and was not published.
            Err(_) => Err(unsafe { Arc::from_raw(p) }),
        }
    }
}

/// An item of a [`Store`]; made by [`crate::slab_item!`] only.
///
/// # Safety
/// `life` and `payload` must return the item's own fields, always the same ones.
pub unsafe trait Item: ZeroValid {
    /// What a pin on the item gives access to.
    type Payload: Send + Sync + 'static;
    /// The item's own life word.
    fn life(&self) -> &Life;
    /// The item's own payload slot.
    fn payload(&self) -> &PayloadCell<Self::Payload>;
}

/// Declares a slab item: a 64-byte-aligned struct of shared words with a life word and a payload
/// slot in front.
///
/// ```
/// use openpath_sync::{Word, slab_item};
/// slab_item! {
///     /// A thing with one word.
///     pub struct Thing: String {
///         /// The word.
///         pub word: Word,
///     }
/// }
/// ```
#[macro_export]
macro_rules! slab_item {
    ($(#[$m:meta])* $v:vis struct $name:ident : $payload:ty { $($(#[$fm:meta])* $fv:vis $field:ident : $ty:ty),* $(,)? }) => {
        $(#[$m])*
        #[derive(Default)]
        #[repr(C, align(64))]
        $v struct $name {
            life: $crate::Life,
            payload: $crate::PayloadCell<$payload>,
            $($(#[$fm])* $fv $field: $ty,)*
        }
        // SAFETY: every field is zero-valid (checked by the bound), and the struct adds nothing to
        // them.
        unsafe impl $crate::ZeroValid for $name where $($ty: $crate::ZeroValid),* {}
        // SAFETY: the two fields above are the item's own.
        unsafe impl $crate::Item for $name {
            type Payload = $payload;
            #[inline(always)]
            fn life(&self) -> &$crate::Life {
                &self.life
            }
            #[inline(always)]
            fn payload(&self) -> &$crate::PayloadCell<$payload> {
                &self.payload
            }
        }
    };
}

/// The free slots of a slab.
#[derive(Default)]
struct FreeList {
    free: Vec<u32>,
    /// Slots from here on were never used.
    fresh: u32,
    /// New incarnations start above this sequence, so that a slot whose memory went back to the
    /// system does not
    /// repeat one.
    floor: u64,
}

struct Slab<T: Item> {
    items: Region<T>,
    list: Mutex<FreeList>,
    /// Slot 0 is never used: index 0 means "none" everywhere.
    limit: u32,
}

impl<T: Item> Slab<T> {
    fn new(limit: u32) -> Result<Self, NoSpace> {
        let items = Region::new(limit.saturating_add(1))?;
        Ok(Self {
            items,
            list: Mutex::new(FreeList {
                fresh: 1,
                ..FreeList::default()
            }),
            limit,
        })
    }

    fn alloc(&self, init: impl FnOnce(&T, &mut crate::life::Change<'_>)) -> Option<(u32, Sample)> {
        let (index, floor) = {
            let mut list = self.list.lock();
            let index = match list.free.pop() {
                Some(i) => i,
                None if list.fresh <= self.limit => {
                    list.fresh += 1;
                    list.fresh - 1
                }
                None => return None,
            };
            (index, list.floor)
        };
        let item = self.items.at(index);
        drop(item.payload().take());
        let mut change = item.life().change();
        change.set_live(floor);
        init(item, &mut change);
        Some((index, change.finish()))
    }

    /// Marks the victims, asks `pinned` after the heavy fence, frees what is not pinned and leaves
    /// the rest in `victims`.
    fn reclaim(
        &self,
        victims: &mut Vec<u32>,
        eligible: impl Fn(Sample) -> bool,
        scan: impl FnOnce(&mut Vec<u32>) -> Vec<u32>,
        mut freed: impl FnMut(u32, &T, Option<Arc<T::Payload>>),
    ) {
        victims.retain(|&i| {
            // R3: pins name items by their own index, so a victim must be named so too.
            if self.items.wrap(i) != i {
                return false;
            }
            let mut change = self.items.at(i).life().change();
            let now = change.now();
            let ours = now.live() && !now.dying() && eligible(now);
            if ours {
                change.set_dying(true);
            }
            ours
        });
        if victims.is_empty() {
            return;
        }
        // PAIR(store.pin): the marks are out before any pin word is read.
        let fenced = asym::try_heavy();
        let pinned = scan(victims);
        let mut free = Vec::with_capacity(victims.len());
        victims.retain(|&i| {
            let item = self.items.at(i);
            // Without the fence the scan proves nothing, and nothing is freed.
            if !fenced || pinned.binary_search(&i).is_ok() {
                item.life().change().set_dying(false);
                return true;
            }
            let payload = item.payload().take();
            freed(i, item, payload);
            item.life().change().set_free();
            free.push(i);
            false
        });
        self.list.lock().free.append(&mut free);
    }

    /// Gives whole free chunks of memory back; returns how many slots they held.
    fn trim(&self) -> u32 {
        const CHUNK: u32 = 1024;
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
                given += CHUNK;
            }
        }
        given
    }

    fn in_use(&self) -> u32 {
        let list = self.list.lock();
        list.fresh - 1 - u32::try_from(list.free.len()).unwrap_or(u32::MAX)
    }
}

impl<T: Item> Drop for Slab<T> {
    fn drop(&mut self) {
        for i in 1..self.list.lock().fresh {
            drop(self.items.at(i).payload().take());
        }
    }
}

/// How many pin words one block of a [`PinSet`] has: eight cache lines that no other set writes.
pub const PINS_PER_BLOCK: u32 = if cfg!(loom) { 2 } else { 64 };

#[derive(Default)]
struct Blocks {
    free: Vec<u32>,
    /// Blocks of dropped sets in which a pin was still held.
    left: Vec<u32>,
    fresh: u32,
}

/// Mounts, dentries and the pins on them. See the module head.
pub struct Store<M: Item, D: Item> {
    mounts: Slab<M>,
    dentries: Slab<D>,
    pins: Region<Word>,
    blocks: Mutex<Blocks>,
    pin_limit: u32,
    id: u32,
}

fn pack(mount: u32, dentry: u32) -> u64 {
    u64::from(mount) << 32 | u64::from(dentry)
}

fn mount_of(word: u64) -> u32 {
    (word >> 32) as u32
}

fn dentry_of(word: u64) -> u32 {
    word as u32
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

impl<M: Item, D: Item> Store<M, D> {
    /// A store for at most `mounts` mounts, `dentries` dentries and `pins` pins (rounded up to
    /// whole blocks).
    ///
    /// # Errors
    /// [`NoSpace`] where the system refuses the address space.
    pub fn new(mounts: u32, dentries: u32, pins: u32) -> Result<Self, NoSpace> {
        let pin_limit = pins.next_multiple_of(PINS_PER_BLOCK);
        Ok(Self {
            mounts: Slab::new(mounts)?,
            dentries: Slab::new(dentries)?,
            pins: Region::new(pin_limit)?,
            blocks: Mutex::new(Blocks::default()),
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

    /// A new live dentry, set up by `init` before anyone can see it as live; `None` at the limit.
    pub fn new_dentry(
        &self,
        init: impl FnOnce(&D, &mut crate::life::Change<'_>),
    ) -> Option<(u32, Sample)> {
        self.dentries.alloc(init)
    }

    /// A new live mount, set up by `init` before anyone can see it as live; `None` at the limit.
    pub fn new_mount(
        &self,
        init: impl FnOnce(&M, &mut crate::life::Change<'_>),
    ) -> Option<(u32, Sample)> {
        self.mounts.alloc(init)
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
            pin.store, self.id,
            "a pin is used with the store it was taken on"
        );
    }

    /// The payload of the pinned dentry, if it has one.
    #[inline(always)]
    pub fn dentry_payload<'a>(&'a self, pin: &'a Pin) -> Option<&'a D::Payload> {
        self.check(pin);
        let p = self.dentry(pin.dentry).payload().0.load(Ordering::Acquire);
        // SAFETY: the pin names this item (or index 0, whose slot is never given a payload) and
        // keeps its payload from
        // being taken (G1); a payload is set once in a life, so the pointer stays the same while
        // `pin` is borrowed.
        unsafe { p.as_ref() }
    }

    /// The payload of the pinned mount, if it has one.
    #[inline(always)]
    pub fn mount_payload<'a>(&'a self, pin: &'a Pin) -> Option<&'a M::Payload> {
        self.check(pin);
        let p = self.mount(pin.mount).payload().0.load(Ordering::Acquire);
        // SAFETY: as for `dentry_payload`.
        unsafe { p.as_ref() }
    }

    /// Another owner of the pinned dentry's payload.
    pub fn share_dentry_payload(&self, pin: &Pin) -> Option<Arc<D::Payload>> {
        self.dentry_payload(pin).map(share)
    }

    /// Another owner of the pinned mount's payload.
    pub fn share_mount_payload(&self, pin: &Pin) -> Option<Arc<M::Payload>> {
        self.mount_payload(pin).map(share)
    }

    /// Lets a pin go. Any thread may.
    #[inline(always)]
    pub fn release(&self, pin: Pin) {
        self.check(&pin);
        self.pins.at(pin.slot).set(0);
    }

    fn used_pins(&self) -> u32 {
        self.blocks.lock().fresh * PINS_PER_BLOCK
    }

    /// The victims that some pin names, sorted.
    fn scan(&self, victims: &mut [u32], half: impl Fn(u64) -> u32) -> Vec<u32> {
        victims.sort_unstable();
        let mut found = Vec::new();
        for slot in 0..self.used_pins() {
            let index = half(self.pins.at(slot).get());
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
    /// Only those that `eligible` accepts, asked with the item held still, are touched; the others
    /// leave `victims`.
    /// `freed` gets each with its payload before its slot can
    /// be used again;
    /// drop payloads outside of locks.
    pub fn reclaim_dentries(
        &self,
        victims: &mut Vec<u32>,
        eligible: impl Fn(Sample) -> bool,
        freed: impl FnMut(u32, &D, Option<Arc<D::Payload>>),
    ) {
        self.dentries
            .reclaim(victims, eligible, |v| self.scan(v, dentry_of), freed);
    }

    /// As [`Store::reclaim_dentries`], for mounts.
    pub fn reclaim_mounts(
        &self,
        victims: &mut Vec<u32>,
        freed: impl FnMut(u32, &M, Option<Arc<M::Payload>>),
    ) {
        self.mounts
            .reclaim(victims, |_| true, |v| self.scan(v, mount_of), freed);
    }

    /// How many pins name the mount at this moment.
    pub fn mount_pins(&self, mount: u32) -> usize {
        asym::heavy();
        (0..self.used_pins())
            .filter(|&s| mount_of(self.pins.at(s).get()) == mount)
            .count()
    }

    /// Gives whole free chunks of slots back to the system; returns how many slots they held.
    ///
    /// Call it after a grace period of [`crate::rcu`], when no walk can still look at a freed
    /// slot's past.
    pub fn trim(&self) -> u32 {
        self.mounts.trim() + self.dentries.trim()
    }

    /// How many pin words were ever in use.
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

    /// Pins held now.
    pub fn pins_held(&self) -> usize {
        (0..self.used_pins())
            .filter(|&s| self.pins.at(s).get() != 0)
            .count()
    }

    /// The address ranges of mounts and dentries, for tests that write-protect them.
    pub fn spans(&self) -> [(usize, usize); 2] {
        [self.mounts.items.span(), self.dentries.items.span()]
    }

    fn take_block(&self) -> Option<u32> {
        let mut blocks = self.blocks.lock();
        if let Some(b) = blocks.free.pop() {
            return Some(b);
        }
        let all_free = |b: u32| (b..b + PINS_PER_BLOCK).all(|s| self.pins.at(s).get() == 0);
        if let Some(at) = blocks.left.iter().position(|&b| all_free(b)) {
            return Some(blocks.left.swap_remove(at));
        }
        let first = blocks.fresh * PINS_PER_BLOCK;
        (first < self.pin_limit).then(|| {
            blocks.fresh += 1;
            first
        })
    }
}

/// Another owner of a payload that a store owns.
fn share<P>(payload: &P) -> Arc<P> {
    let p: *const P = payload;
    // SAFETY: payloads in a store come from `Arc::into_raw` and the reference shows that an owner
    // is alive.
    unsafe {
        Arc::increment_strong_count(p);
        Arc::from_raw(p)
    }
}

/// Proof that a mount and a dentry (either may be none, index 0) stay what they are. Release it to
/// its store.
#[derive(Debug)]
#[must_use = "a pin that is not released keeps its dentry for ever"]
pub struct Pin {
    slot: u32,
    store: u32,
    mount: u32,
    dentry: u32,
}

impl Pin {
    /// The pinned mount, or 0.
    #[inline(always)]
    pub fn mount(&self) -> u32 {
        self.mount
    }
    /// The pinned dentry, or 0.
    #[inline(always)]
    pub fn dentry(&self) -> u32 {
        self.dentry
    }
}

/// The pin words of one task. One thread uses it at a time; pins taken through it may be released
/// anywhere.
pub struct PinSet<M: Item, D: Item> {
    store: Arc<Store<M, D>>,
    blocks: RefCell<Vec<u32>>,
    hint: Cell<u32>,
    fence: asym::Fence,
}

impl<M: Item, D: Item> PinSet<M, D> {
    /// A set with room for [`PINS_PER_BLOCK`] pins before it takes another block; `None` at the
    /// store's limit.
    pub fn new(store: Arc<Store<M, D>>) -> Option<Self> {
        let block = store.take_block()?;
        Some(Self {
            store,
            blocks: RefCell::new(vec![block]),
            hint: Cell::new(block),
            fence: asym::Fence::of_process(),
        })
    }

    /// The store it pins in.
    #[inline(always)]
    pub fn store(&self) -> &Store<M, D> {
        &self.store
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
        // The newest block is the likeliest to have room; the others are looked at before one more
        // is taken.
        let slot = match blocks.iter().rev().find_map(free) {
            Some(slot) => slot,
            None => {
                let block = self.store.take_block()?;
                blocks.push(block);
                block
            }
        };
        self.hint.set(slot);
        Some(slot)
    }

    /// Pins `mount` and `dentry` (0: none) if they are steadily as the samples said; `None`
    /// otherwise or when the
    /// store is out of pins.
    #[inline(always)]
    pub fn try_pin(
        &self,
        mount: u32,
        mount_was: Sample,
        dentry: u32,
        dentry_was: Sample,
    ) -> Option<Pin> {
        let slot = self.free_slot()?;
        let word = self.store.pins.at(slot);
        // R3: indices wrap, and the scan compares whole ones.
        let mount = self.store.mounts.items.wrap(mount);
        let dentry = self.store.dentries.items.wrap(dentry);
        word.set(pack(mount, dentry));
        // PAIR(store.pin): the word is out before the life words are asked.
        self.fence.light();
        let mount_ok =
            mount == 0 || mount_was.steady() && self.store.mount(mount).life().still(mount_was);
        let dentry_ok = dentry == 0
            || dentry_was.steady() && self.store.dentry(dentry).life().still(dentry_was);
        if mount_ok && dentry_ok {
            return Some(Pin {
                slot,
                store: self.store.id,
                mount,
                dentry,
            });
        }
        word.set(0);
        None
    }

    /// Whether another pin can be had; takes one more block of slots if need be.
    pub fn has_room(&self) -> bool {
        self.free_slot().is_some()
    }

    /// Pins `mount` and `dentry` as they are now, waiting out changes; `None` if one is not live.
    pub fn pin_now(&self, mount: u32, dentry: u32) -> Option<Pin> {
        loop {
            let m = self.store.mount(mount).life().sample_steady();
            let d = self.store.dentry(dentry).life().sample_steady();
            if mount != 0 && !m.live() || dentry != 0 && !d.live() || !self.has_room() {
                return None;
            }
            if let Some(pin) = self.try_pin(mount, m, dentry, d) {
                return Some(pin);
            }
            relax();
        }
    }

    /// A second pin on what `pin` holds; `None` only when the store is out of pins.
    pub fn dup(&self, pin: &Pin) -> Option<Pin> {
        self.store.check(pin);
        // R2: what `pin` names stays live while it is held, so this waits only for a reclaimer to
        // notice that.
        self.pin_now(pin.mount, pin.dentry)
    }

    /// Lets a pin go.
    #[inline(always)]
    pub fn release(&self, pin: Pin) {
        let slot = pin.slot;
        self.store.release(pin);
        // Only into a block of this set: another set's slot is another thread's to fill.
        if slot / PINS_PER_BLOCK == self.hint.get() / PINS_PER_BLOCK {
            self.hint.set(slot);
        }
    }
}

impl<M: Item, D: Item> Drop for PinSet<M, D> {
    fn drop(&mut self) {
        let mut shared = self.store.blocks.lock();
        for b in self.blocks.get_mut().drain(..) {
            let free = (b..b + PINS_PER_BLOCK).all(|s| self.store.pins.at(s).get() == 0);
            if free {
                shared.free.push(b)
            } else {
                shared.left.push(b)
            }
        }
    }
}
