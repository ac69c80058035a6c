// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks files for the users of the mount, and keeps requests that wait for a lock.
//!
//! # Kernel analogue
//! The other end of `fuse_file_lock` and `fuse_file_flock`; what `lockd` is to NFS.
//!
//! # States of a request that waits
//! In the lock's queue, without a thread -> granted or refused, by the thread that frees a lock ->
//! answered; or interrupted -> answered `EINTR`. The thread that removes a request from the wait
//! table answers it.
//!
//! # Fields
//! | field | what |
//! |---|---|
//! | `waits` | requests that wait, by their numbers |
//! | `owners` | for each opening, owners that may have record locks and have not closed it since |
//! | `face` | the owners: the kernel's file tables and open files, by its numbers |
//!
//! # Rules
//! R1. A lock of flock(2) belongs to our open file, of which there is one for each of the kernel's:
//!     it ends with that (`RELEASE`).
//! R2. A record lock belongs to an owner. The kernel does not say which owners are file tables and
//!     which are open files (`F_OFD_SETLK`). But a table closes (`FLUSH`) before the opening ends,
//!     so an owner that is left at its end is an open file, and its locks end too.
//! R3. An interrupt searches the requests in flight first, and then the wait table. A request
//!     enters the wait table first, and then checks whether it was interrupted: one of the two sees
//!     the other.
//! R4. When the mount is gone, no closes are reported: requests leave their queues, and all locks
//!     of its owners end.
//! R5. A request that has ended may hold the last reference to an opening with a lock that another
//!     request waits for. So ended requests are dropped one after the other, and not within each
//!     other's drop.
//! R6. An owner without locks of a file is not an owner of the opening any more: a table that
//!     closed the opening before its lock was granted may lock by another opening. So an owner that
//!     unlocks, or is refused, is checked, and forgotten if it has no lock and no request.
//! R7. A request stops counting (`owners`) before it is answered: until then its opening exists,
//!     and its number is not reused.
//!
//! # Divergence: L82, L83, L84, L85, L86

mod owners;

use crate::wire::request::{Lock, LockCommand};
use crate::wire::{Device, ReplyBuilder};
use crate::worker::Worker;
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN};
use openpath_abi::{Errno, Flock};
use openpath_sync::{Mutex, WriteOnce};
use openpath_vfs::lock_order::FuseWaits;
use openpath_vfs::{Fd, LockFace, LockWait, Task};
use owners::{IdleOwner, Owners};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::task::{Poll, Wake, Waker};

/// Whether a request has its reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answered {
    Now,
    Later,
}

/// The locks of a mount. See the module head.
pub(crate) struct Locks {
    // Dropped before `face`, so that waiting requests end first.
    waits: Arc<WaitTable>,
    owners: Arc<Owners>,
    face: LockFace,
}

impl Drop for Locks {
    /// R4. The openings of waiting requests have other references here, so that nothing that ends
    ///     frees a lock for another one.
    fn drop(&mut self) {
        let requests = core::mem::take(&mut *self.waits.table.lock());
        for entry in requests.values() {
            if let WaitEntry::Waiting(waiting) = entry {
                let _told = waiting.wait.end();
            }
        }
    }
}

/// Requests that wait.
struct WaitTable {
    table: Mutex<HashMap<u64, WaitEntry>, FuseWaits>,
    /// Requests that wait no more, and are to be dropped (R5).
    finished: Mutex<Finished, FuseWaits>,
    max: usize,
    device: WriteOnce<Arc<Device>>,
    owners: Arc<Owners>,
}

#[derive(Default)]
struct Finished {
    requests: Vec<Arc<Waiting>>,
    /// A thread drops them.
    draining: bool,
}

/// An entry of the wait table.
enum WaitEntry {
    /// For a request on its way here.
    Reserved,
    Waiting(Arc<Waiting>),
}

struct Waiting {
    request: u64,
    /// For a record lock: the opening and the owner.
    record_owner: Option<(Fd, u64)>,
    wait: LockWait,
    waits: Weak<WaitTable>,
    waker: Waker,
}

/// Woken when there is a result.
struct LockWaker(Weak<Waiting>);

impl Wake for LockWaker {
    fn wake(self: Arc<Self>) {
        if let Some(waiting) = self.0.upgrade() {
            waiting.poll_answer();
            if let Some(waits) = waiting.waits.upgrade() {
                waits.drop_later(waiting);
            }
        }
    }
}

impl Waiting {
    /// Answers the request, if there is a result.
    fn poll_answer(&self) {
        if let Poll::Ready(result) = self.wait.poll(&self.waker)
            && let Some(waits) = self.waits.upgrade()
            && waits.take(self.request).is_some()
        {
            // An owner that is refused here is checked with the others (R6).
            waits.request_answered(self);
            waits.answer(self.request, result);
        }
    }
}

impl WaitTable {
    /// Reserves an entry.
    ///
    /// # Errors
    /// `ENOLCK`: the table is full.
    fn reserve(&self, request: u64) -> Result<(), Errno> {
        let mut table = self.table.lock();
        if table.len() >= self.max {
            return Err(Errno::ENOLCK);
        }
        table.insert(request, WaitEntry::Reserved);
        Ok(())
    }

    /// Fills a reserved entry.
    fn insert(
        self: &Arc<Self>,
        request: u64,
        record_owner: Option<(Fd, u64)>,
        wait: LockWait,
    ) -> Arc<Waiting> {
        let waiting = Arc::new_cyclic(|it| Waiting {
            request,
            record_owner,
            wait,
            waits: Arc::downgrade(self),
            waker: Waker::from(Arc::new(LockWaker(Weak::clone(it)))),
        });
        let entry = WaitEntry::Waiting(Arc::clone(&waiting));
        self.table.lock().insert(request, entry);
        waiting
    }

    /// Removes a waiting request: the thread that gets it answers it.
    fn take(&self, request: u64) -> Option<Arc<Waiting>> {
        let mut table = self.table.lock();
        let entry = table.remove(&request)?;
        match entry {
            WaitEntry::Waiting(waiting) => Some(waiting),
            WaitEntry::Reserved => {
                table.insert(request, entry);
                None
            }
        }
    }

    /// Removes an entry that was reserved.
    fn cancel_reservation(&self, request: u64) {
        self.table.lock().remove(&request);
    }

    /// Drops a request that waits no more (R5).
    fn drop_later(&self, waiting: Arc<Waiting>) {
        let mut finished = self.finished.lock();
        finished.requests.push(waiting);
        if core::mem::replace(&mut finished.draining, true) {
            return;
        }
        drop(finished);
        loop {
            let mut finished = self.finished.lock();
            let Some(next) = finished.requests.pop() else {
                finished.draining = false;
                return;
            };
            drop(finished);
            drop(next);
        }
    }

    /// A request ends for its owner (R7).
    fn request_answered(&self, waiting: &Waiting) {
        if let Some((fd, owner)) = waiting.record_owner {
            self.owners.end_request(fd, owner);
        }
    }

    fn answer(&self, request: u64, result: Result<(), Errno>) {
        if let Some(device) = self.device.get() {
            let mut reply = ReplyBuilder::new(&mut [], request);
            if let Err(errno) = result {
                reply.fail(errno);
            }
            // A caller that no longer waits went with the mount.
            let _sent = device.send(&reply.done().head);
        }
    }
}

impl Locks {
    /// For a mount, in the `Vfs` of `task`; at most `waits_max` requests wait.
    pub(crate) fn new(task: &Task, waits_max: usize) -> Self {
        let owners = Arc::<Owners>::default();
        Self {
            waits: Arc::new(WaitTable {
                table: Mutex::default(),
                finished: Mutex::default(),
                max: waits_max,
                device: WriteOnce::default(),
                owners: Arc::clone(&owners),
            }),
            owners,
            face: task.lock_face(),
        }
    }

    /// The device by which waiting requests are answered.
    pub(crate) fn set_device(&self, device: &Arc<Device>) {
        self.waits.device.set(Arc::clone(device));
    }

    /// `GETLK`: the record lock that conflicts.
    pub(crate) fn test(&self, w: &Worker, fd: Fd, lock: &Lock) -> Result<Flock, Errno> {
        self.face.getlk(&w.task, fd, lock.owner, &lock.range)
    }

    /// `SETLK`; of `SETLKW`, the attempt without waiting.
    pub(crate) fn set_now(&self, w: &Worker, fd: Fd, lock: &Lock) -> Result<(), Errno> {
        if lock.is_flock {
            w.task.set_pid(lock.range.pid);
            return w.task.flock(fd, flock_op(lock)? | LOCK_NB);
        }
        self.note_request(w, fd, lock);
        let result = self.face.setlk(&w.task, fd, lock.owner, &lock.range);
        self.request_done(w, fd, lock, result.is_ok());
        result
    }

    /// `SETLKW`; returns whether there was nothing to wait for.
    pub(crate) fn wait(
        &self,
        w: &Worker,
        fd: Fd,
        lock: &Lock,
        request: u64,
    ) -> Result<Answered, Errno> {
        // A request that need not wait takes no entry.
        match self.set_now(w, fd, lock) {
            Err(Errno::EAGAIN) if lock.range.kind != F_UNLCK => {}
            done => return done.map(|()| Answered::Now),
        }
        self.waits.reserve(request)?;
        let queued = if lock.is_flock {
            w.task.set_pid(lock.range.pid);
            flock_op(lock).and_then(|op| w.task.flock_later(fd, op))
        } else {
            self.note_request(w, fd, lock);
            self.face.setlkw(&w.task, fd, lock.owner, &lock.range)
        };
        let Ok(Some(wait)) = queued else {
            if !lock.is_flock {
                self.request_done(w, fd, lock, queued.is_ok());
            }
            self.waits.cancel_reservation(request);
            return queued.map(|_| Answered::Now);
        };
        let record_owner = (!lock.is_flock).then_some((fd, lock.owner));
        let waiting = self.waits.insert(request, record_owner, wait);
        waiting.poll_answer();
        if w.in_flight.is_interrupted() {
            // R3
            self.interrupt(w, request);
        }
        Ok(Answered::Later)
    }

    /// The caller no longer waits for this request; returns whether it waited here.
    pub(crate) fn interrupt(&self, w: &Worker, request: u64) -> bool {
        let waiting = self.waits.take(request);
        if let Some(waiting) = &waiting {
            // A result that came at the same moment takes precedence.
            let result = waiting.wait.end().unwrap_or(Err(Errno::EINTR));
            self.waits.request_answered(waiting);
            if let (Some((fd, owner)), Err(_)) = (waiting.record_owner, result) {
                self.forget_idle(w, fd, self.owners.idle(fd, owner));
            }
            self.waits.answer(request, result);
        }
        waiting.is_some()
    }

    /// An owner requests a lock by an opening (R2).
    fn note_request(&self, w: &Worker, fd: Fd, lock: &Lock) {
        if lock.range.kind != F_UNLCK {
            self.forget_idle(w, fd, self.owners.begin_request(fd, lock.owner));
        }
    }

    /// It has its reply. Unless it was granted a lock, its owner is checked (R6).
    fn request_done(&self, w: &Worker, fd: Fd, lock: &Lock, is_ok: bool) {
        let is_lock = lock.range.kind != F_UNLCK;
        if is_lock {
            self.owners.end_request(fd, lock.owner);
        }
        if !(is_lock && is_ok) {
            self.forget_idle(w, fd, self.owners.idle(fd, lock.owner));
        }
    }

    /// Forgets those of the idle owners that have no lock of the file (R6). An owner that cannot be
    /// checked is kept.
    fn forget_idle(&self, w: &Worker, fd: Fd, requests: impl IntoIterator<Item = IdleOwner>) {
        let all = Flock::new(F_UNLCK, 0, 0);
        for it in requests {
            let found = self.face.getlk(&w.task, fd, it.owner, &all);
            if found.is_ok_and(|found| found.kind == F_UNLCK) {
                self.owners.forget_if_unchanged(fd, it);
            }
        }
    }

    /// A table has closed a descriptor of an opening: its locks of the file end.
    pub(crate) fn table_closed(&self, w: &Worker, fd: Fd, owner: u64) {
        self.owners.closed(fd, owner);
        // The opening exists: it ends after this.
        let _ended = self.face.end(&w.task, fd, owner);
    }

    /// An opening ends, and the locks of its owners with it.
    pub(crate) fn opening_released(&self, w: &Worker, fd: Fd) {
        for owner in self.owners.released(fd) {
            // As above.
            let _ended = self.face.end(&w.task, fd, owner);
        }
    }
}

/// The argument of flock(2) for a lock.
///
/// # Errors
/// `EINVAL`: not a type of lock.
fn flock_op(lock: &Lock) -> Result<u32, Errno> {
    let op = match lock.range.kind {
        F_RDLCK => LOCK_SH,
        F_WRLCK => LOCK_EX,
        F_UNLCK => LOCK_UN,
        _ => return Err(Errno::EINVAL),
    };
    let waits = lock.command == LockCommand::Wait;
    Ok(if waits { op } else { op | LOCK_NB })
}

#[cfg(test)]
mod tests;
