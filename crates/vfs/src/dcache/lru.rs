// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the LRU lists of the dentry cache, one for each tenant: enters names, takes them off,
//! counts them, and limits how many a tenant keeps.
//!
//! To make room, a task goes round the queues of an LRU list. In each queue it looks at a share of
//! entries in proportion to the queue's length.
//!
//! # States
//! An LRU list is open as long as its tenant lives. Then it is left: its entries may go before any
//! others, and when all are gone its number is free.

use super::children::ColdSlot;
use super::{Dcache, Dentry};
use crate::lock_order::LruLists;
use crate::tenant_lru::{Kind, LruShard, TenantLru};
use openpath_sync::{Mutex, Shards, no_fault_injection};
use std::sync::Arc;

/// The account of an entry in one word: kind in bit 0, part, number of the LRU list; 0: on no LRU
/// list.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LruWord(u32);

const PART_BITS: u32 = 4;
const _: () = assert!(Shards::<LruShard>::COUNT <= 1 << PART_BITS);

impl LruWord {
    fn new(lru: &TenantLru, part: u32, kind: Kind) -> Self {
        Self((lru.number << PART_BITS | part) << 1 | kind as u32)
    }
    fn lru(self) -> u32 {
        self.0 >> (1 + PART_BITS)
    }
    fn part(self) -> u32 {
        self.0 >> 1 & ((1 << PART_BITS) - 1)
    }
    fn kind(self) -> Kind {
        Kind::ALL[self.0 as usize & 1]
    }
}

impl TenantLru {
    /// As [`Queue::sweep`], once round all parts: each part gets its share of `steps`. No lock is
    /// held for longer than a part takes. Held: `evicting`.
    pub(super) fn sweep(
        &self,
        dcache: &Dcache,
        kind: Kind,
        victims: &mut Vec<u32>,
        goal: usize,
        steps: u32,
    ) -> u32 {
        let all = u64::from(self.len(kind).max(1));
        let mut passed = 0;
        for _ in 0..Shards::<LruShard>::COUNT {
            if victims.len() >= goal {
                break;
            }
            let Some(part) = self.parts.of_if_any(self.next.add(1)) else {
                continue;
            };
            let queue = &mut part.queues.lock()[kind as usize];
            let share = (u64::from(queue.len) * u64::from(steps)).div_ceil(all);
            passed += queue.sweep(dcache, victims, goal, share.min(steps.into()) as u32);
        }
        passed
    }
}

/// All LRU lists of one `Vfs`.
#[derive(Default)]
pub(super) struct LruTable {
    slots: Mutex<LruSlots, LruLists>,
}

/// The LRU lists by number.
#[derive(Default)]
struct LruSlots {
    /// By number, from 1.
    lrus: Vec<Option<Arc<TenantLru>>>,
    /// Those that are empty.
    free: Vec<usize>,
}

impl LruSlots {
    /// Frees the slots of LRU lists that have ended.
    fn sweep(&mut self) {
        for (at, slot) in self.lrus.iter_mut().enumerate().rev() {
            let over = |lru: &Arc<TenantLru>| lru.is_left() && lru.is_empty();
            if slot.as_ref().is_some_and(over) {
                *slot = None;
                self.free.push(at);
            }
        }
    }

    /// An empty slot. Ended LRU lists are looked for where the table would grow otherwise: each
    /// look is paid for by the LRU lists that came since the last one.
    fn take(&mut self) -> usize {
        if self.free.is_empty() && self.lrus.len() == self.lrus.capacity() {
            self.sweep();
            let kept = self.lrus.len() - self.free.len();
            self.lrus
                .reserve((kept + 1).saturating_sub(self.free.len()));
        }
        self.free.pop().unwrap_or_else(|| {
            self.lrus.push(None);
            self.lrus.len() - 1
        })
    }
}

impl LruTable {
    /// A new LRU list with these limits.
    pub(super) fn open(&self, limits: [u32; 2]) -> Arc<TenantLru> {
        let entry = (size_of::<Dentry>() + size_of::<ColdSlot>()) as u64;
        let mut slots = self.slots.lock();
        let at = slots.take();
        let lru = Arc::new(TenantLru::new(at as u32 + 1, limits, entry));
        slots.lrus[at] = Some(Arc::clone(&lru));
        lru
    }

    pub(super) fn get(&self, number: u32) -> Option<Arc<TenantLru>> {
        let at = (number as usize).checked_sub(1)?;
        self.slots.lock().lrus.get(at)?.clone()
    }

    pub(super) fn all(&self) -> Vec<Arc<TenantLru>> {
        self.slots.lock().lrus.iter().flatten().cloned().collect()
    }
}

impl Dcache {
    /// Gives back ended LRU lists: their tenant and all of their names are gone.
    pub(crate) fn sweep_lrus(&self) {
        self.lrus.slots.lock().sweep();
    }

    /// An LRU list for a new tenant.
    pub(crate) fn open_lru(&self, limits: [u32; 2]) -> Arc<TenantLru> {
        self.lrus.open(limits)
    }

    /// Puts an entry on an LRU list. No other thread sees the entry yet, or it is pinned and on no
    /// LRU list.
    pub(super) fn lru_add(&self, lru: &TenantLru, index: u32, kind: Kind) {
        let _step = no_fault_injection();
        let part = lru.parts.here();
        lru.entries.force(kind as usize, 1);
        {
            let mut queues = lru.parts.of(part).queues.lock();
            let account = LruWord::new(lru, part, kind);
            self.cold(index).account.set(account.0);
            queues[kind as usize].push(self, index);
        }
        if kind == Kind::Negative {
            self.negatives.force(0, 1);
        }
        lru.count_names(self.names.bytes(self.at(index).block.get()), 0);
    }

    /// Takes an entry off the LRU list it is on. It is pinned or about to be freed.
    pub(super) fn lru_del(&self, slots: &mut LastLru, index: u32) {
        if let Some(lru) = slots.of(self, self.account(index)) {
            self.strike(lru, index);
        }
    }

    /// Moves an entry to an LRU list, as a name that exists. It is pinned.
    pub(super) fn lru_move(&self, lru: &TenantLru, index: u32) {
        let _step = no_fault_injection();
        if self.account(index).lru() == lru.number {
            // Does not look at the table, which all tenants share.
            self.strike(lru, index);
        } else {
            self.lru_del(&mut LastLru::default(), index);
        }
        self.lru_add(lru, index, Kind::Positive);
    }

    /// Takes an entry off this LRU list, which it is on.
    fn strike(&self, lru: &TenantLru, index: u32) {
        let _step = no_fault_injection();
        let account = self.account(index);
        let kind = account.kind();
        {
            let mut queues = lru.parts.of(account.part()).queues.lock();
            queues[kind as usize].remove(self, index);
            self.cold(index).account.set(0);
        }
        lru.entries.give(kind as usize, 1);
        if kind == Kind::Negative {
            self.negatives.give(0, 1);
        }
        lru.count_names(0, self.names.bytes(self.at(index).block.get()));
    }

    fn account(&self, index: u32) -> LruWord {
        LruWord(self.cold(index).account.get())
    }

    /// Whether two entries are on one LRU list, as the same kind.
    pub(super) fn same_lru(&self, one: u32, other: u32) -> bool {
        let [one, other] = [one, other].map(|index| self.account(index));
        (one.lru(), one.kind()) == (other.lru(), other.kind())
    }

    /// Moves the bytes of a name from what an entry had to what it gets.
    pub(super) fn recount_name(&self, index: u32, had: u32, gets: u32) {
        if had | gets == 0 {
            return;
        }
        if let Some(lru) = LastLru::default().of(self, self.account(index)) {
            lru.count_names(self.names.bytes(gets), self.names.bytes(had));
        }
    }
}

/// The LRU list that was asked for last: entries that go together are mostly on one.
#[derive(Default)]
pub(super) struct LastLru(Option<Arc<TenantLru>>);

impl LastLru {
    /// The LRU list of an account; none for entries that are on no LRU list.
    fn of(&mut self, dcache: &Dcache, account: LruWord) -> Option<&TenantLru> {
        let number = account.lru();
        if self.0.as_ref().is_none_or(|lru| lru.number != number) {
            self.0 = dcache.lrus.get(number);
        }
        self.0.as_deref()
    }
}
