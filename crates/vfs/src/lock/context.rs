// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the locks and waiters of one inode (`LockContext`), and the state that all locks of a
//! `Vfs` share (`Locks`).
//!
//! # Kernel analogue
//! `struct file_lock_context`, `locks_get_lock_context`, `locks_inode_context`. The inode's flag is
//! `IOP_FLCTX`: an open or a close sees by it that there is no context, without reading the
//! pointer.

use super::graph::Graph;
use super::queue::{Queue, QueuePosition, QueuedLock};
use super::ranges::{HeldLock, LockRequest, Ranges};
use super::wait::{Wakes, WhenBlocked};
use super::waiter_charge::WaiterCharge;
use crate::config::Profile;
use crate::lease::Table;
use crate::lock_call::{LockKind, LockOwner, Range};
use crate::lock_order::{LeaseTable, LockFiles, LockGraph, LockState};
use crate::weak_list::{remember, sweep};
use openpath_abi::Errno;
use openpath_sync::{Mutex, Word};
use std::sync::{Arc, Weak};

/// The lock state of a `Vfs`, besides the locks.
pub(crate) struct Locks {
    /// How many owners a circle of waits is followed by.
    hops: u32,
    pub(super) graph: Mutex<Graph, LockGraph>,
    /// Every context, for reports.
    files: Mutex<Vec<Weak<LockContext>>, LockFiles>,
    next_line: Word,
    next_table: Word,
    next_pid: Word,
    next_face: Word,
}

impl Locks {
    /// None yet, in a kernel of this version.
    pub(crate) fn new(profile: Profile) -> Self {
        Self {
            hops: profile.deadlock_hops(),
            graph: Mutex::default(),
            files: Mutex::default(),
            next_line: Word::default(),
            next_table: Word::default(),
            next_pid: Word::default(),
            next_face: Word::default(),
        }
    }

    /// A number that no other descriptor table of the `Vfs` has.
    pub(crate) fn new_table(&self) -> u64 {
        self.next_table.add(1) + 1
    }

    /// A number that no other face of the `Vfs` has.
    pub(crate) fn new_face(&self) -> u32 {
        self.next_face.add(1) as u32
    }

    /// The default pid of a task: 1, 2 and so on.
    pub(crate) fn new_pid(&self) -> i32 {
        (self.next_pid.add(1) % (i32::MAX as u64 - 1)) as i32 + 1
    }

    /// Every context there is, in the order they came.
    pub(crate) fn contexts(&self) -> Vec<Arc<LockContext>> {
        let files = self.files.lock();
        files.iter().filter_map(Weak::upgrade).collect()
    }

    /// Lists one for reports.
    pub(crate) fn enter(&self, context: &Arc<LockContext>) {
        remember(&mut self.files.lock(), Arc::downgrade(context));
    }

    /// Frees the entries of contexts that are gone.
    pub(crate) fn sweep(&self) {
        sweep(&mut self.files.lock());
    }
}

/// Locks of one sort: of ranges, or of flock(2).
#[derive(Default)]
pub(super) struct LockList {
    pub(super) ranges: Ranges,
    pub(super) queue: Queue,
}

impl LockList {
    /// Whether it has neither locks nor waiters.
    fn is_idle(&self) -> bool {
        self.ranges.is_empty() && self.queue.is_empty()
    }

    /// As [`LockContext::ask`]; adds the waiters to wake.
    ///
    /// # Errors
    /// `EAGAIN`; `EDEADLK`; `ENOLCK`.
    #[inline(never)]
    fn ask(
        &mut self,
        locks: &Locks,
        ask: LockRequest,
        wish: WhenBlocked<'_>,
        wakes: &mut Wakes,
    ) -> Result<Option<QueuePosition>, Errno> {
        let (owner, range, kind) = (ask.owner, ask.range, ask.kind);
        let mut frees = false;
        if matches!(owner, LockOwner::Flock(_)) {
            let had = self.ranges.own(owner, range).map(|held| held.kind);
            if had == Some(kind) {
                return Ok(None);
            }
            frees = self.ranges.free_all(owner).is_some();
        }
        let placed = match (self.ranges.conflict(Some(owner), range, kind), wish) {
            (None, _) => self.ranges.set(ask).map(|lowers| {
                frees |= lowers;
                None
            }),
            (Some(_), WhenBlocked::Now) => Err(Errno::EAGAIN),
            (Some(_), WhenBlocked::Asleep(_) | WhenBlocked::Later) => {
                self.line_up(locks, ask, wish, wakes).map(Some)
            }
        };
        if frees {
            self.settle(locks, range, wakes);
        }
        placed
    }

    /// Puts a request in line; a waiter without a thread pays for that.
    ///
    /// # Errors
    /// `EDEADLK`; `ENOLCK`.
    fn line_up(
        &mut self,
        locks: &Locks,
        mut ask: LockRequest,
        wish: WhenBlocked<'_>,
        wakes: &mut Wakes,
    ) -> Result<QueuePosition, Errno> {
        if matches!(wish, WhenBlocked::Later) {
            ask.charge = WaiterCharge::pay(&ask.tenant)?;
        }
        let Self { ranges, queue } = self;
        let mut graph = locks.graph.lock();
        let new_line = || locks.next_line.add(1);
        let hops = locks.hops;
        queue.enter(ask, ranges, &mut graph, hops, new_line, wakes)
    }

    /// Grants what was freed to waiters, and adds those to wake.
    fn settle(&mut self, locks: &Locks, freed: Range, wakes: &mut Wakes) {
        if self.queue.is_empty() {
            return;
        }
        let Self { ranges, queue } = self;
        let hops = locks.hops;
        queue.settle(freed, ranges, &mut locks.graph.lock(), hops, wakes);
    }
}

/// What the context's lock protects.
#[derive(Default)]
pub(super) struct State {
    records: LockList,
    flocks: LockList,
    /// A backend keeps some of them.
    pub(super) foreign: bool,
}

impl State {
    fn list_of(&mut self, owner: LockOwner) -> &mut LockList {
        match owner {
            LockOwner::Table(_) | LockOwner::File(_) | LockOwner::Face(..) => &mut self.records,
            LockOwner::Flock(_) => &mut self.flocks,
        }
    }

    /// The owners of range locks that `which` selects.
    pub(super) fn record_owners(&self, which: impl Fn(LockOwner) -> bool) -> Vec<LockOwner> {
        let owners = self.records.ranges.owners();
        owners.filter(|owner| which(*owner)).collect()
    }

    /// Both sorts.
    pub(super) fn lists(&self) -> [&LockList; 2] {
        [&self.records, &self.flocks]
    }
}

/// The locks of one inode.
pub(crate) struct LockContext {
    /// Device and inode number, for reports.
    pub(super) place: (u64, u64),
    pub(super) state: Mutex<State, LockState>,
    pub(crate) leases: Mutex<Table, LeaseTable>,
}

impl LockContext {
    /// One without locks, of a file on this device with this inode number.
    pub(crate) fn new(place: (u64, u64)) -> Self {
        Self {
            place,
            state: Mutex::default(),
            leases: Mutex::default(),
        }
    }

    /// A backend keeps some of them.
    pub(crate) fn note_foreign(&self) {
        self.state.lock().foreign = true;
    }

    /// The owners of range locks that `which` selects.
    pub(crate) fn record_owners(&self, which: impl Fn(LockOwner) -> bool) -> Vec<LockOwner> {
        self.state.lock().record_owners(which)
    }

    /// Device number of the file.
    pub(crate) fn dev(&self) -> u64 {
        self.place.0
    }

    /// Inode number of the file.
    pub(crate) fn ino(&self) -> u64 {
        self.place.1
    }

    /// Gives the owner what it asks for, or a place in line. A lock of flock(2) replaces the
    /// owner's other one first, whatever comes of it.
    ///
    /// # Errors
    /// `EAGAIN`; `EDEADLK`; `ENOLCK`.
    #[inline]
    pub(crate) fn ask(
        &self,
        locks: &Locks,
        ask: LockRequest,
        wish: WhenBlocked<'_>,
    ) -> Result<Option<QueuePosition>, Errno> {
        let mut state = self.state.lock();
        let list = state.list_of(ask.owner);
        if list.is_idle() {
            return list.ranges.set(ask).map(|_| None);
        }
        let mut wakes = Wakes::new();
        let placed = list.ask(locks, ask, wish, &mut wakes);
        drop(state);
        drop(wakes);
        placed
    }

    /// Ends what the owner has of a range.
    ///
    /// # Errors
    /// `ENOLCK`: a lock would become two, and there may be no more.
    #[inline]
    pub(crate) fn free(&self, locks: &Locks, owner: LockOwner, range: Range) -> Result<(), Errno> {
        let mut state = self.state.lock();
        let list = state.list_of(owner);
        if list.ranges.free(owner, range)? && !list.queue.is_empty() {
            let mut wakes = Wakes::new();
            list.settle(locks, range, &mut wakes);
            drop(state);
            drop(wakes);
        }
        Ok(())
    }

    /// Changes the locks, and then wakes the waiters that may go on.
    fn change<R>(&self, act: impl FnOnce(&mut State, &mut Wakes) -> R) -> R {
        let mut wakes = Wakes::new();
        let mut state = self.state.lock();
        let done = act(&mut state, &mut wakes);
        drop(state);
        drop(wakes);
        done
    }

    /// Ends all that the owner has; whether a backend may keep some of it.
    pub(crate) fn free_all(&self, locks: &Locks, owner: LockOwner) -> bool {
        self.change(|state, wakes| {
            let list = state.list_of(owner);
            if let Some(freed) = list.ranges.free_all(owner) {
                list.settle(locks, freed, wakes);
            }
            state.foreign
        })
    }

    /// The first lock in the way of one; of the owner's own, without a kind.
    pub(crate) fn test(
        &self,
        owner: LockOwner,
        range: Range,
        kind: Option<LockKind>,
    ) -> Option<HeldLock> {
        let mut state = self.state.lock();
        let list = state.list_of(owner);
        match kind {
            Some(kind) => list.ranges.conflict(Some(owner), range, kind),
            None => list.ranges.own(owner, range),
        }
    }

    /// Takes a request out of its line, if it is there still.
    pub(crate) fn leave(&self, locks: &Locks, place: &QueuePosition) {
        if place.answer.is_given() {
            return;
        }
        let mut state = self.state.lock();
        let list = state.list_of(place.owner);
        if !list.queue.is_empty() {
            list.queue.leave(place, &mut locks.graph.lock());
        }
    }

    /// Turns a claim of a waiter without a thread into a lock; the answer then, or `None` if the
    /// claim has ended.
    pub(crate) fn hear(&self, locks: &Locks, place: &QueuePosition) -> Option<Result<(), Errno>> {
        self.change(|state, wakes| {
            let list = state.list_of(place.owner);
            let QueuedLock { ask, answer } = list.ranges.unclaim(place.seq)?;
            let range = ask.range;
            let set = list.ranges.set(ask);
            if let Err(errno) = set {
                answer.refuse(errno);
            }
            if set != Ok(false) {
                list.settle(locks, range, wakes);
            }
            Some(set.map(drop))
        })
    }

    /// Takes a request out of its line, or ends its claim, whose answer becomes a refusal.
    pub(crate) fn give_up(&self, locks: &Locks, place: &QueuePosition) {
        self.change(|state, wakes| {
            let list = state.list_of(place.owner);
            if !list.queue.is_empty() {
                list.queue.leave(place, &mut locks.graph.lock());
            }
            if let Some(QueuedLock { ask, answer }) = list.ranges.unclaim(place.seq) {
                answer.refuse(Errno::EBADF);
                list.settle(locks, ask.range, wakes);
            }
        });
    }
}
