// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks of files in the name of those who use the mount, and who waits for them.
//!
//! # Kernel analogue
//! The other end of `fuse_file_lock` and `fuse_file_flock`; what `lockd` is to NFS.
//!
//! # States of a request that waits
//! In line, without a thread -> granted or refused, by whoever frees something -> answered; or
//! interrupted -> answered `EINTR`. Who takes it out of the table of those who wait answers it.
//!
//! # Fields
//! | field | what |
//! |---|---|
//! | `waits` | requests that wait, by their numbers |
//! | `owners` | by each opening: who may have locks of ranges, and has not closed it since |
//! | `face` | the owners: tables and open files of the kernel's, by the numbers it gives them |
//!
//! # Rules
//! R1. What is locked by flock(2) is our open file's, of which the kernel has one for each of its
//!     own: it ends with that (`RELEASE`).
//! R2. What is locked by ranges is an owner's. Which of them are tables and which open files
//!     (`F_OFD_SETLK`) the kernel does not say; but a table closes (`FLUSH`) before the opening
//!     ends. So who is left when it ends is an open file, whose locks end with it.
//! R3. An interrupt is looked for here after the seats, and in the seat after a request is here: so
//!     it is found on one of both sides.
//! R4. When the mount is gone nobody says what is closed: who waits leaves the line, and all that
//!     its owners have ends.
//! R5. Who waited may have the last reference to an opening whose lock another waits for: one of
//!     them goes after the other, and not within its end.
//! R6. An owner that has nothing of the file any more is none of the opening: one that closed it
//!     and was late to lock is a table, and what it locks by another opening is not this one's. So
//!     who unlocks, or is not granted what it asks for, is looked at, and forgotten if it has
//!     nothing and waits for nothing.
//! R7. A request is none any more (`owners`) before it is answered: until then its opening is
//!     there, and the number is of no other.
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

/// Whether a request has its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answered {
    Now,
    Later,
}

/// The locks of a mount. See the module head.
pub(crate) struct Locks {
    // Goes before the face: who waits ends first.
    waits: Arc<WaitTable>,
    owners: Arc<Owners>,
    face: LockFace,
}

impl Drop for Locks {
    /// R4, while the openings of those who wait are held by others too: what ends here frees
    /// nothing that another here waits for.
    fn drop(&mut self) {
        let waiting_requests = core::mem::take(&mut *self.waits.table.lock());
        for place in waiting_requests.values() {
            if let WaitEntry::Waiting(waiting) = place {
                let _told = waiting.wait.end();
            }
        }
    }
}

/// Requests that wait.
struct WaitTable {
    table: Mutex<HashMap<u64, WaitEntry>, FuseWaits>,
    /// Those who wait no more, and are to go (R5).
    finished: Mutex<Finished, FuseWaits>,
    max: usize,
    device: WriteOnce<Arc<Device>>,
    owners: Arc<Owners>,
}

#[derive(Default)]
struct Finished {
    waiting_requests: Vec<Arc<Waiting>>,
    /// Somebody sees to them.
    draining: bool,
}

/// One of them.
enum WaitEntry {
    /// On its way here.
    Reserved,
    Waiting(Arc<Waiting>),
}

struct Waiting {
    request: u64,
    /// For a lock of a range: by which opening, and who.
    requests: Option<(Fd, u64)>,
    wait: LockWait,
    waits: Weak<WaitTable>,
    waker: Waker,
}

/// What is told when there is an answer.
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
    /// Answers, if there is an answer.
    fn poll_answer(&self) {
        if let Poll::Ready(result) = self.wait.poll(&self.waker)
            && let Some(waits) = self.waits.upgrade()
            && waits.take(self.request).is_some()
        {
            // Who is refused now is looked at with the others.
            waits.request_answered(self);
            waits.answer(self.request, result);
        }
    }
}

impl WaitTable {
    /// A place for one more.
    ///
    /// # Errors
    /// `ENOLCK`: as many wait as may.
    fn reserve(&self, request: u64) -> Result<(), Errno> {
        let mut table = self.table.lock();
        if table.len() >= self.max {
            return Err(Errno::ENOLCK);
        }
        table.insert(request, WaitEntry::Reserved);
        Ok(())
    }

    /// Puts it there.
    fn insert(
        self: &Arc<Self>,
        request: u64,
        requests: Option<(Fd, u64)>,
        wait: LockWait,
    ) -> Arc<Waiting> {
        let waiting = Arc::new_cyclic(|it| Waiting {
            request,
            requests,
            wait,
            waits: Arc::downgrade(self),
            waker: Waker::from(Arc::new(LockWaker(Weak::clone(it)))),
        });
        let place = WaitEntry::Waiting(Arc::clone(&waiting));
        self.table.lock().insert(request, place);
        waiting
    }

    /// Takes one out who waits: whoever has him answers him.
    fn take(&self, request: u64) -> Option<Arc<Waiting>> {
        let mut table = self.table.lock();
        let place = table.remove(&request)?;
        match place {
            WaitEntry::Waiting(waiting) => Some(waiting),
            WaitEntry::Reserved => {
                table.insert(request, place);
                None
            }
        }
    }

    /// Takes a place back that nobody waits in.
    fn cancel_reservation(&self, request: u64) {
        self.table.lock().remove(&request);
    }

    /// Lets go of one who waits no more (R5).
    fn drop_later(&self, waiting: Arc<Waiting>) {
        let mut finished = self.finished.lock();
        finished.waiting_requests.push(waiting);
        if core::mem::replace(&mut finished.draining, true) {
            return;
        }
        drop(finished);
        loop {
            let mut finished = self.finished.lock();
            let Some(next) = finished.waiting_requests.pop() else {
                finished.draining = false;
                return;
            };
            drop(finished);
            drop(next);
        }
    }

    /// One of them asks no more (R7).
    fn request_answered(&self, waiting: &Waiting) {
        if let Some((fd, owner)) = waiting.requests {
            self.owners.end_request(fd, owner);
        }
    }

    fn answer(&self, request: u64, result: Result<(), Errno>) {
        if let Some(device) = self.device.get() {
            let mut reply = ReplyBuilder::new(&mut [], request);
            if let Err(errno) = result {
                reply.fail(errno);
            }
            // Who does not wait any more was torn down with the mount.
            let _sent = device.send(&reply.done().head);
        }
    }
}

impl Locks {
    /// For a mount, in the `Vfs` of `task`; so many may wait.
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

    /// Where who waits is answered.
    pub(crate) fn set_device(&self, device: &Arc<Device>) {
        self.waits.device.set(Arc::clone(device));
    }

    /// `GETLK`: what is in the way of a lock of a range.
    pub(crate) fn test(&self, w: &Worker, fd: Fd, lock: &Lock) -> Result<Flock, Errno> {
        self.face.getlk(&w.task, fd, lock.owner, &lock.range)
    }

    /// `SETLK`; of `SETLKW`, what can be done without a wait.
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

    /// `SETLKW`: whether there was nothing to wait for.
    pub(crate) fn wait(
        &self,
        w: &Worker,
        fd: Fd,
        lock: &Lock,
        request: u64,
    ) -> Result<Answered, Errno> {
        // What needs no wait takes no place among those who wait.
        match self.set_now(w, fd, lock) {
            Err(Errno::EAGAIN) if lock.range.kind != F_UNLCK => {}
            done => return done.map(|()| Answered::Now),
        }
        self.waits.reserve(request)?;
        let line = if lock.is_flock {
            w.task.set_pid(lock.range.pid);
            flock_op(lock).and_then(|op| w.task.flock_later(fd, op))
        } else {
            self.note_request(w, fd, lock);
            self.face.setlkw(&w.task, fd, lock.owner, &lock.range)
        };
        let Ok(Some(wait)) = line else {
            if !lock.is_flock {
                self.request_done(w, fd, lock, line.is_ok());
            }
            self.waits.cancel_reservation(request);
            return line.map(|_| Answered::Now);
        };
        let requests = (!lock.is_flock).then_some((fd, lock.owner));
        let waiting = self.waits.insert(request, requests, wait);
        waiting.poll_answer();
        if w.in_flight.is_interrupted() {
            // R3
            self.interrupt(w, request);
        }
        Ok(Answered::Later)
    }

    /// Nobody wants to wait for this request any longer; whether it waits here.
    pub(crate) fn interrupt(&self, w: &Worker, request: u64) -> bool {
        let waiting = self.waits.take(request);
        if let Some(waiting) = &waiting {
            // What came at the same moment is preferred.
            let result = waiting.wait.end().unwrap_or(Err(Errno::EINTR));
            self.waits.request_answered(waiting);
            if let (Some((fd, owner)), Err(_)) = (waiting.requests, result) {
                self.forget_idle(w, fd, self.owners.idle(fd, owner));
            }
            self.waits.answer(request, result);
        }
        waiting.is_some()
    }

    /// An owner asks for a lock by an opening (R2).
    fn note_request(&self, w: &Worker, fd: Fd, lock: &Lock) {
        if lock.range.kind != F_UNLCK {
            self.forget_idle(w, fd, self.owners.begin_request(fd, lock.owner));
        }
    }

    /// It has its answer, and is looked at unless it was granted a lock (R6).
    fn request_done(&self, w: &Worker, fd: Fd, lock: &Lock, is_ok: bool) {
        let is_lock = lock.range.kind != F_UNLCK;
        if is_lock {
            self.owners.end_request(fd, lock.owner);
        }
        if !(is_lock && is_ok) {
            self.forget_idle(w, fd, self.owners.idle(fd, lock.owner));
        }
    }

    /// Forgets those of an opening who have nothing of the file (R6). Of whom that cannot be said
    /// may have something.
    fn forget_idle(
        &self,
        w: &Worker,
        fd: Fd,
        waiting_requests: impl IntoIterator<Item = IdleOwner>,
    ) {
        let all = Flock::new(F_UNLCK, 0, 0);
        for it in waiting_requests {
            let found = self.face.getlk(&w.task, fd, it.owner, &all);
            if found.is_ok_and(|found| found.kind == F_UNLCK) {
                self.owners.forget_if_unchanged(fd, it);
            }
        }
    }

    /// An owner has closed a descriptor of an opening: what it has locked of the file ends.
    pub(crate) fn table_closed(&self, w: &Worker, fd: Fd, owner: u64) {
        self.owners.closed(fd, owner);
        // The opening is there: it ends after this.
        let _ended = self.face.end(&w.task, fd, owner);
    }

    /// An opening ends: what it has locked ends with it.
    pub(crate) fn opening_released(&self, w: &Worker, fd: Fd) {
        for owner in self.owners.released(fd) {
            // As above.
            let _ended = self.face.end(&w.task, fd, owner);
        }
    }
}

/// A lock of flock(2), as that has it.
///
/// # Errors
/// `EINVAL`: no kind of lock.
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
