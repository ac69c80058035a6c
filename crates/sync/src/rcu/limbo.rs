// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collects retired values in bags, drops a bag once no read section can see its values, and makes
//! threads that retire wait when too much is retired.
//!
//! A fence is expensive, so values are collected in bags and one fence serves a bag. Bags are
//! sharded by thread. The protocol is in the head of [`crate::rcu`].

use super::reader::{READERS, wait_turn};
use super::stall;
use crate::primitive::{AtomicBool, AtomicUsize, Mutex, Ordering, global, local};
use crate::shards::Shards;
use core::cell::Cell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How much retired memory may wait, and for how long a retiring thread may be delayed.
///
/// One setting for the process, since there is one domain ([`configure`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Values in a bag before it is sealed.
    pub batch: usize,
    /// Bytes in a bag before it is sealed.
    pub batch_bytes: usize,
    /// Values waiting in sealed bags before [`retire`] waits.
    pub max: usize,
    /// Bytes waiting in sealed bags before [`retire`] waits.
    pub max_bytes: usize,
    /// How long the thread that fills a bag waits while a limit is exceeded.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            batch: 64,
            batch_bytes: 256 << 10,
            max: 1 << 17,
            max_bytes: 64 << 20,
            patience: Duration::from_millis(2),
        }
    }
}

/// Whether retired memory is within its limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pressure {
    /// Within the limits.
    Normal,
    /// Past the limits, even after a wait: a reader is stalled. Nothing is lost or freed early. The
    /// caller should avoid all that retires memory until this is over.
    Over,
}

impl Pressure {
    pub(super) fn of_now() -> Self {
        if admit() { Self::Normal } else { Self::Over }
    }
}

/// What waits now, and what happened so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Values not dropped yet.
    pub objects: usize,
    /// Their bytes, as passed to [`retire`].
    pub bytes: usize,
    /// Those in bags for which the system refused the fence; every new bag retries it.
    pub unfenced: usize,
    /// How often a wait for room ended without room.
    pub overruns: u64,
}

/// A ticket that no scan of the readers reaches: the bag has no fence yet.
const UNFENCED: u64 = u64::MAX;

#[derive(Default)]
struct Bag {
    /// Kept only to be dropped.
    items: Vec<Box<dyn Send>>,
    bytes: usize,
}

struct Sealed {
    bag: Bag,
    ticket: u64,
    number: u64,
}

/// The sealed bags, oldest first as far as threads sealed them in order.
#[derive(Default)]
struct Waiting {
    bags: VecDeque<Sealed>,
    /// The number of bags sealed so far.
    sealed: u64,
    /// Numbers of the bags that threads are dropping now.
    dropping: Vec<u64>,
    /// Values and bytes, including those being dropped.
    objects: usize,
    bytes: usize,
    overruns: u64,
}

impl Waiting {
    /// Retries the fence for the bags that got none.
    fn fence_again(&mut self) {
        let left = |b: &Sealed| b.ticket == UNFENCED;
        if self.bags.iter().any(left)
            && let Some(ticket) = READERS.begin_grace()
        {
            self.bags
                .iter_mut()
                .filter(|b| left(b))
                .for_each(|b| b.ticket = ticket);
        }
    }
}

local! {
    static DROPPING: Cell<bool> = Cell::new(false);
}

/// Marks this thread as dropping retired values.
struct Dropping;

impl Dropping {
    /// `None` if it is dropping already, or exiting.
    fn begin() -> Option<Self> {
        let was = DROPPING.try_with(|d| d.replace(true));
        matches!(was, Ok(false)).then_some(Self)
    }
    fn now() -> bool {
        DROPPING.try_with(Cell::get).unwrap_or(true)
    }
}

impl Drop for Dropping {
    fn drop(&mut self) {
        let _exiting = DROPPING.try_with(|d| d.set(false));
    }
}

struct Limbo {
    open: Shards<Mutex<Bag>>,
    waiting: Mutex<Waiting>,
    limits: Mutex<Limits>,
    /// The two limits that every `retire` reads, outside of their lock. Relaxed: only numbers.
    batch: AtomicUsize,
    batch_bytes: AtomicUsize,
    over: AtomicBool,
}

global! {
    lazy static LIMBO: Limbo = Limbo::new(Limits::default());
}

impl Limbo {
    fn new(limits: Limits) -> Self {
        Self {
            open: Shards::default(),
            waiting: Mutex::new(Waiting::default()),
            batch: AtomicUsize::new(limits.batch),
            batch_bytes: AtomicUsize::new(limits.batch_bytes),
            limits: Mutex::new(limits),
            over: AtomicBool::new(false),
        }
    }

    fn put(&self, value: Box<dyn Send>, bytes: usize) {
        let full = {
            let mut open = self.open.mine().lock();
            open.items.push(value);
            open.bytes = open.bytes.saturating_add(bytes);
            let full = open.items.len() >= self.batch.load(Ordering::Relaxed)
                || open.bytes >= self.batch_bytes.load(Ordering::Relaxed);
            full.then(|| core::mem::take(&mut *open))
        };
        if let Some(bag) = full {
            self.seal(bag);
            self.drop_ready();
            if self.is_full() && !Dropping::now() {
                self.wait_for_room();
            }
        }
    }

    /// Gives a bag its ticket. No lock is held.
    fn seal(&self, bag: Bag) {
        if bag.items.is_empty() {
            return;
        }
        // R3: the fence comes before the bag enters the limbo.
        let ticket = READERS.begin_grace().unwrap_or(UNFENCED);
        let mut waiting = self.waiting.lock();
        waiting.objects += bag.items.len();
        waiting.bytes = waiting.bytes.saturating_add(bag.bytes);
        let number = waiting.sealed;
        waiting.sealed += 1;
        waiting.bags.push_back(Sealed {
            bag,
            ticket,
            number,
        });
    }

    /// Drops the bags that no section can see any more, without holding a lock.
    ///
    /// Does nothing inside a value's drop, so that values which retire values do not recurse.
    fn drop_ready(&self) {
        let Some(_dropping) = Dropping::begin() else {
            return;
        };
        let mut ready = Vec::new();
        {
            let mut waiting = self.waiting.lock();
            waiting.fence_again();
            // R3: scanned under the limbo's lock.
            let oldest = READERS.oldest().min(UNFENCED - 1);
            while waiting.bags.front().is_some_and(|b| b.ticket <= oldest)
                && let Some(Sealed { bag, number, .. }) = waiting.bags.pop_front()
            {
                waiting.dropping.push(number);
                let uncount = UncountOnDrop {
                    limbo: self,
                    objects: bag.items.len(),
                    bytes: bag.bytes,
                    number,
                };
                ready.push((bag, uncount));
            }
        }
        drop(ready);
    }

    fn is_full(&self) -> bool {
        let limits = *self.limits.lock();
        let waiting = self.waiting.lock();
        waiting.objects > limits.max || waiting.bytes > limits.max_bytes
    }

    /// G4: a bounded wait for readers.
    fn wait_for_room(&self) {
        let deadline = Instant::now() + self.limits.lock().patience;
        let mut turn = 0;
        while self.is_full() {
            if Instant::now() >= deadline {
                self.waiting.lock().overruns += 1;
                self.over.store(true, Ordering::Relaxed);
                // Lets `stalled` say since when.
                stall::record();
                return;
            }
            wait_turn(&mut turn);
            self.drop_ready();
        }
    }

    /// Seals the open bags and returns the number of the next bag.
    fn seal_open(&self) -> u64 {
        for open in self.open.all() {
            let bag = core::mem::take(&mut *open.lock());
            self.seal(bag);
        }
        self.waiting.lock().sealed
    }
}

/// Uncounts a bag after its drop, even if a value's drop panicked: it follows the bag in one tuple.
struct UncountOnDrop<'a> {
    limbo: &'a Limbo,
    objects: usize,
    bytes: usize,
    number: u64,
}

impl Drop for UncountOnDrop<'_> {
    fn drop(&mut self) {
        let mut waiting = self.limbo.waiting.lock();
        waiting.objects -= self.objects;
        waiting.bytes = waiting.bytes.saturating_sub(self.bytes);
        waiting.dropping.retain(|&n| n != self.number);
        drop(waiting);
        if !admit() && !self.limbo.is_full() {
            self.limbo.over.store(false, Ordering::Relaxed);
        }
    }
}

/// Drops `value` after every section that may have seen it.
///
/// The caller has made it unreachable for sections that begin now. The thread that fills or flushes
/// a bag runs the drop, holding no lock of this crate; a panic of the drop is that thread's. Past
/// the limits that thread waits for [`Limits::patience`] at most, so it must not be in a section.
///
/// Linux: `kfree_rcu`.
pub fn retire<T: Send + 'static>(value: Box<T>) -> Pressure {
    let bytes = size_of::<T>();
    retire_sized(value, bytes)
}

/// As [`retire`], for a value that owns more than its own size: `bytes` in all.
pub fn retire_sized<T: Send + 'static>(value: Box<T>, bytes: usize) -> Pressure {
    LIMBO.put(value, bytes);
    Pressure::of_now()
}

/// Calls `f` after every section that is going on now; `bytes` is what it will free.
///
/// Linux: `call_rcu`.
pub fn defer(bytes: usize, f: impl FnOnce() + Send + 'static) -> Pressure {
    retire_sized(Box::new(Call(Some(f))), bytes)
}

/// A closure that is called when it is dropped.
struct Call<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for Call<F> {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

/// Whether retired memory is within its limits: one load. A caller that would retire more asks
/// first, so that memory stays bounded while a reader is stalled.
#[inline]
pub fn admit() -> bool {
    !LIMBO.over.load(Ordering::Relaxed)
}

/// Begins a grace period for everything retired so far and drops what is ready; never waits.
pub fn flush() {
    LIMBO.seal_open();
    LIMBO.drop_ready();
}

/// Flushes, then waits for at most `patience` until all that was retired before the call is
/// dropped; returns whether it is.
///
/// Linux: `rcu_barrier`.
pub fn drain(patience: Duration) -> bool {
    let before = LIMBO.seal_open();
    let deadline = Instant::now() + patience;
    let mut turn = 0;
    loop {
        LIMBO.drop_ready();
        {
            let waiting = LIMBO.waiting.lock();
            let left = waiting
                .bags
                .iter()
                .map(|b| b.number)
                .chain(waiting.dropping.iter().copied());
            if left.min().is_none_or(|n| n >= before) {
                return true;
            }
        }
        if Instant::now() >= deadline {
            return false;
        }
        wait_turn(&mut turn);
    }
}

/// What waits now.
pub fn backlog() -> Backlog {
    let (mut objects, mut bytes) = (0, 0);
    for open in LIMBO.open.all() {
        let open = open.lock();
        objects += open.items.len();
        bytes += open.bytes;
    }
    let waiting = LIMBO.waiting.lock();
    let unfenced = waiting.bags.iter().filter(|b| b.ticket == UNFENCED);
    Backlog {
        objects: objects + waiting.objects,
        bytes: bytes + waiting.bytes,
        unfenced: unfenced.map(|b| b.bag.items.len()).sum(),
        overruns: waiting.overruns,
    }
}

/// Sets the limits of this process and returns the old ones. A batch of 0 counts as 1.
pub fn configure(limits: Limits) -> Limits {
    LIMBO.batch.store(limits.batch, Ordering::Relaxed);
    LIMBO
        .batch_bytes
        .store(limits.batch_bytes, Ordering::Relaxed);
    let before = core::mem::replace(&mut *LIMBO.limits.lock(), limits);
    LIMBO.over.store(LIMBO.is_full(), Ordering::Relaxed);
    before
}
