// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements RCU readers, their sections and grace periods. The protocol is in the head of
//! [`crate::rcu`].

use crate::asymmetric_fence::{self, Fence};
use crate::cache_padded::CachePadded;
use crate::lockdep;
use crate::primitive::{
    AtomicPtr, AtomicU64, Mutex, Ordering, global, no_fault_injection, relax, short_sleep,
};
use crate::word::Word;
use core::cell::Cell;
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// The section in which a scan found a reader, and when.
pub(super) struct Observation {
    pub(super) entered: u64,
    pub(super) at: Instant,
}

/// Used by diagnostics alone.
pub(super) struct Diagnostics {
    pub(super) name: Cow<'static, str>,
    pub(super) seen: Option<Observation>,
}

/// The number of counters that a reader keeps beside its section.
pub const READER_COUNTS: usize = 6;

/// Written by one reader alone.
struct OwnerWords {
    /// 0 outside of sections, else the epoch at entry.
    active: AtomicU64,
    counts: [Word; READER_COUNTS],
}

/// A reader's slot: says whether it is in a section. Never freed, reused by later readers.
pub(super) struct Slot {
    owned: CachePadded<OwnerWords>,
    next: *mut Slot,
    pub(super) diagnostics: Mutex<Diagnostics>,
}

// SAFETY: `next` is set before the slot is published and never changes; the rest is `Sync`.
unsafe impl Sync for Slot {}

impl Slot {
    /// The epoch at which its reader's section was entered, or 0. PAIR(rcu.leave): acquires what
    /// the reader released when it last entered or left.
    pub(super) fn entered(&self) -> u64 {
        self.owned.0.active.load(Ordering::Acquire)
    }
}

/// All readers of the process, and the current epoch.
pub(super) struct Registry {
    epoch: CachePadded<AtomicU64>,
    slots: AtomicPtr<Slot>,
    free: Mutex<Vec<&'static Slot>>,
}

global! {
    /// The domain of this process.
    pub(super) static READERS: Registry = Registry {
        epoch: CachePadded(AtomicU64::new(1)),
        slots: AtomicPtr::new(core::ptr::null_mut()),
        free: Mutex::new(Vec::new()),
    };
}

impl Registry {
    fn take_slot(&self, name: Cow<'static, str>) -> &'static Slot {
        let mut free = self.free.lock();
        if let Some(slot) = free.pop() {
            *slot.diagnostics.lock() = Diagnostics { name, seen: None };
            slot.owned.0.counts.iter().for_each(|count| count.poke(0));
            return slot;
        }
        let slot = Box::leak(Box::new(Slot {
            owned: CachePadded(OwnerWords {
                active: AtomicU64::new(0),
                counts: Default::default(),
            }),
            next: self.slots.load(Ordering::Relaxed),
            diagnostics: Mutex::new(Diagnostics { name, seen: None }),
        }));
        // Relaxed load above: `free` is held, so no other thread pushes. By R1 a scan may miss this
        // slot: the scan comes after a heavy fence that came before our first light one.
        self.slots.store(slot, Ordering::Release);
        slot
    }

    /// All slots.
    pub(super) fn slots(&self) -> impl Iterator<Item = &'static Slot> {
        let mut at = self.slots.load(Ordering::Acquire);
        core::iter::from_fn(move || {
            // SAFETY: the list holds leaked slots only, published by a release-store, and `next`
            // never changes.
            let slot: &'static Slot = unsafe { at.as_ref() }?;
            at = slot.next;
            Some(slot)
        })
    }

    /// Begins a grace period and returns its ticket, or `None` if the system refuses the fence.
    ///
    /// What was unlinked before, in this thread or in one that it synchronised with, can be freed
    /// once a later scan finds no section older than the ticket.
    pub(super) fn begin_grace(&self) -> Option<u64> {
        // Release: a reader that enters at this ticket acquires what was unlinked before it.
        let ticket = self.epoch.0.fetch_add(1, Ordering::AcqRel) + 1;
        // PAIR(rcu.enter): the unlinking is visible before any slot is scanned.
        asymmetric_fence::try_heavy().then_some(ticket)
    }

    /// The epoch of the oldest section, or `u64::MAX` if there is none.
    pub(super) fn oldest(&self) -> u64 {
        let sections = self.slots().map(Slot::entered).filter(|&e| e != 0);
        sections.min().unwrap_or(u64::MAX)
    }
}

/// A thread's permission to read, registered once and used for many sections.
///
/// It may move to another thread between sections, but serves one thread at a time. Dropping it
/// returns its slot.
///
/// Linux: a task, as far as `rcu_read_lock` is concerned.
pub struct Reader {
    slot: &'static Slot,
    fence: Fence,
    /// The number of live guards. 64 bits: forgetting guards never wraps it to 0.
    depth: Cell<u64>,
}

impl Reader {
    /// Registers a reader; [`stalled`](super::stalled) reports it by `name`.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self::with_fence(name, Fence::of_process())
    }

    /// As [`Reader::new`], with another light half than that of the process.
    pub fn with_fence(name: impl Into<Cow<'static, str>>, fence: Fence) -> Self {
        Self {
            slot: READERS.take_slot(name.into()),
            fence,
            depth: Cell::new(0),
        }
    }

    /// Enters a section: what is reachable now is not freed while the guard is alive.
    ///
    /// Sections nest; the outermost counts.
    ///
    /// Linux: `rcu_read_lock`.
    #[inline(always)]
    #[must_use]
    pub fn enter(&self) -> Guard<'_> {
        let depth = self.depth.get();
        if depth == 0 {
            let epoch = READERS.epoch.0.load(Ordering::Acquire);
            // Release: a thread that sees this section also sees that the ones before are over.
            self.slot.owned.0.active.store(epoch, Ordering::Release);
            // PAIR(rcu.enter): the slot is visible before anything is read in the section.
            self.fence.light();
        }
        self.depth.set(depth + 1);
        lockdep::enter_section();
        Guard { reader: self }
    }

    /// The owner's counters, 0 at first. They lie on the cache line that entering a section writes
    /// anyway, so counting in a section costs one instruction. Only the owner increments them. The
    /// reference stays valid for ever; after this reader's drop it shows the counters of the slot's
    /// next reader.
    #[inline(always)]
    pub fn counts(&self) -> &'static [Word; READER_COUNTS] {
        &self.slot.owned.0.counts
    }

    /// Whether a guard of this reader is alive.
    pub fn in_section(&self) -> bool {
        self.depth.get() != 0
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Guards borrow the reader, so one that is still counted was forgotten, and with it every
        // access to what it protected.
        self.slot.owned.0.active.store(0, Ordering::Release);
        *self.slot.diagnostics.lock() = Diagnostics {
            name: Cow::Borrowed(""),
            seen: None,
        };
        READERS.free.lock().push(self.slot);
    }
}

/// A section of a [`Reader`]; dropping it leaves the section.
///
/// ```compile_fail,E0277
/// # use openpath_sync::rcu::Reader;
/// let reader = Reader::new("doc");
/// let guard = reader.enter();
/// std::thread::spawn(move || drop(guard)); // a guard stays in its thread
/// ```
pub struct Guard<'r> {
    reader: &'r Reader,
}

impl Drop for Guard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        lockdep::leave_section();
        let depth = self.reader.depth.get() - 1;
        self.reader.depth.set(depth);
        if depth == 0 {
            // PAIR(rcu.leave): all reads of the section happen before a scan that sees it over.
            let _step = no_fault_injection();
            self.reader.slot.owned.0.active.store(0, Ordering::Release);
        }
    }
}

/// One turn of a wait for readers: spins at first, then sleeps.
pub(super) fn wait_turn(turn: &mut u32) {
    *turn += 1;
    if *turn < 64 { relax() } else { short_sleep() }
}

/// Waits for every section that is going on now.
///
/// Linux: `synchronize_rcu`.
///
/// # Panics
/// As [`asymmetric_fence::heavy`]; in debug builds also if called in a section, which would wait
/// for itself.
pub fn synchronize() {
    lockdep::assert_outside_section("rcu::synchronize");
    let ticket = READERS.begin_grace();
    assert!(
        ticket.is_some(),
        "membarrier was granted to this process and then taken away"
    );
    wait_for(ticket.unwrap_or(u64::MAX), None);
}

/// As [`synchronize`], for at most `patience`; returns whether those sections are over.
pub fn synchronize_within(patience: Duration) -> bool {
    match READERS.begin_grace() {
        Some(ticket) => wait_for(ticket, Some(Instant::now() + patience)),
        None => false,
    }
}

/// Waits until `deadline` for sections older than `ticket`.
fn wait_for(ticket: u64, deadline: Option<Instant>) -> bool {
    let mut turn = 0;
    for slot in READERS.slots() {
        while (1..ticket).contains(&slot.entered()) {
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return false;
            }
            wait_turn(&mut turn);
        }
    }
    true
}
