// SPDX-License-Identifier: MIT OR Apache-2.0
//! Readers, their sections and grace periods. The protocol is in the head of [`crate::rcu`].

use crate::asym::{self, Fence};
use crate::lockdep;
use crate::prim::{AtomicPtr, AtomicU64, Mutex, Ordering, global, nap, relax, unfailing};
use crate::word::Word;
use core::cell::Cell;
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// A value alone on its pair of cache lines.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Line<T>(pub(super) T);

/// The section a reader was seen in, and when.
pub(super) struct Sighting {
    pub(super) entered: u64,
    pub(super) at: Instant,
}

/// What only diagnostics look at.
pub(super) struct Cold {
    pub(super) name: Cow<'static, str>,
    pub(super) seen: Option<Sighting>,
}

/// Counts that a reader keeps beside its section.
pub const READER_COUNTS: usize = 6;

/// What one reader alone writes.
struct Own {
    /// 0 outside, else the epoch at entry.
    active: AtomicU64,
    counts: [Word; READER_COUNTS],
}

/// Where one reader says whether it is in a section. Never freed, reused by later readers.
pub(super) struct Slot {
    own: Line<Own>,
    next: *mut Slot,
    pub(super) cold: Mutex<Cold>,
}

// SAFETY: `next` is set before the slot is published and never changes; the rest is `Sync`.
unsafe impl Sync for Slot {}

impl Slot {
    /// The epoch its reader's section was entered at, or 0. PAIR(rcu.leave): acquires what the
    /// reader released when it last entered or left.
    pub(super) fn entered(&self) -> u64 {
        self.own.0.active.load(Ordering::Acquire)
    }
}

/// All readers of the process, and the epoch they enter at.
pub(super) struct Registry {
    epoch: Line<AtomicU64>,
    slots: AtomicPtr<Slot>,
    free: Mutex<Vec<&'static Slot>>,
}

global! {
    /// The domain of this process.
    pub(super) static READERS: Registry = Registry {
        epoch: Line(AtomicU64::new(1)),
        slots: AtomicPtr::new(core::ptr::null_mut()),
        free: Mutex::new(Vec::new()),
    };
}

impl Registry {
    fn take_slot(&self, name: Cow<'static, str>) -> &'static Slot {
        let mut free = self.free.lock();
        if let Some(slot) = free.pop() {
            *slot.cold.lock() = Cold { name, seen: None };
            slot.own.0.counts.iter().for_each(|count| count.poke(0));
            return slot;
        }
        let slot = Box::leak(Box::new(Slot {
            own: Line(Own {
                active: AtomicU64::new(0),
                counts: Default::default(),
            }),
            next: self.slots.load(Ordering::Relaxed),
            cold: Mutex::new(Cold { name, seen: None }),
        }));
        // Relaxed load above: `free` is held, so nobody else pushes. A scan that misses this slot
        // is no matter, by R1: the scan comes after a heavy fence that came before our first light
        // one.
        self.slots.store(slot, Ordering::Release);
        slot
    }

    /// Every slot there is.
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
    /// What was unlinked before, here or in a thread that this one synchronised with, can be freed
    /// when a look made later finds no section older than the ticket.
    pub(super) fn begin_grace(&self) -> Option<u64> {
        // Release: a reader that enters at this ticket acquires what was unlinked before it.
        let ticket = self.epoch.0.fetch_add(1, Ordering::AcqRel) + 1;
        // PAIR(rcu.enter): what was unlinked is out before any slot is looked at.
        asym::try_heavy().then_some(ticket)
    }

    /// The epoch of the oldest section, or `u64::MAX` if there is none.
    pub(super) fn oldest(&self) -> u64 {
        let sections = self.slots().map(Slot::entered).filter(|&e| e != 0);
        sections.min().unwrap_or(u64::MAX)
    }
}

/// One thread's right to read, registered once and used for many sections.
///
/// It may move to another thread between sections, but serves one thread at a time. Dropping it
/// gives its slot back.
///
/// Linux: a task, as far as `rcu_read_lock` is concerned.
pub struct Reader {
    slot: &'static Slot,
    fence: Fence,
    /// Guards alive. 64 bits: forgetting guards never brings it round to 0.
    depth: Cell<u64>,
}

impl Reader {
    /// Registers a reader; `name` is what [`stalled`](super::stalled) calls it.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        Self::with_fence(name, Fence::of_process())
    }

    /// As [`Reader::new`], with another light half than the one of the process.
    pub fn with_fence(name: impl Into<Cow<'static, str>>, fence: Fence) -> Self {
        Self {
            slot: READERS.take_slot(name.into()),
            fence,
            depth: Cell::new(0),
        }
    }

    /// Enters a section: what is reachable now is not freed while the guard is held.
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
            // Release: whoever sees this section also sees that the ones before are over.
            self.slot.own.0.active.store(epoch, Ordering::Release);
            // PAIR(rcu.enter): the slot is out before anything is read in the section.
            self.fence.light();
        }
        self.depth.set(depth + 1);
        lockdep::enter_section();
        Guard { reader: self }
    }

    /// Counts of its owner, 0 at first. They lie on the line that entering a section writes anyway,
    /// so that counting in one costs an instruction. Only its owner bumps them; whoever asked may
    /// read them for ever, the next reader's when this one is gone.
    #[inline(always)]
    pub fn counts(&self) -> &'static [Word; READER_COUNTS] {
        &self.slot.own.0.counts
    }

    /// Whether a guard of this reader is alive.
    pub fn in_section(&self) -> bool {
        self.depth.get() != 0
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Guards borrow the reader, so one that is still counted was forgotten, and with it went
        // every right to what it protected.
        self.slot.own.0.active.store(0, Ordering::Release);
        *self.slot.cold.lock() = Cold {
            name: Cow::Borrowed(""),
            seen: None,
        };
        READERS.free.lock().push(self.slot);
    }
}

/// A section of a [`Reader`]; leaving it is dropping the guard.
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
            // PAIR(rcu.leave): all reads of the section come before whoever sees it over.
            let _step = unfailing();
            self.reader.slot.own.0.active.store(0, Ordering::Release);
        }
    }
}

/// One turn of a wait for readers: short at first, then asleep.
pub(super) fn wait_turn(turn: &mut u32) {
    *turn += 1;
    if *turn < 64 { relax() } else { nap() }
}

/// Waits until every section that was going on is over.
///
/// Linux: `synchronize_rcu`.
///
/// # Panics
/// As [`asym::heavy`]; in debug builds also when called in a section, which would wait for itself.
pub fn synchronize() {
    lockdep::assert_outside_section("rcu::synchronize");
    let ticket = READERS.begin_grace();
    assert!(
        ticket.is_some(),
        "membarrier was granted to this process and then taken away"
    );
    wait_for(ticket.unwrap_or(u64::MAX), None);
}

/// As [`synchronize`], for `patience` at most; whether every section is over.
pub fn synchronize_within(patience: Duration) -> bool {
    match READERS.begin_grace() {
        Some(ticket) => wait_for(ticket, Some(Instant::now() + patience)),
        None => false,
    }
}

/// Waits for sections older than `ticket`, until `deadline`.
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
