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

use crate::wire::request::{Lock, Locking};
use crate::wire::{Answer, Device};
use crate::worker::Worker;
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN};
use openpath_abi::{Errno, Flock};
use openpath_sync::{Mutex, WriteOnce};
use openpath_vfs::lock_order::FuseWaits;
use openpath_vfs::{Fd, LockFace, LockWait, Task};
use owners::{Owners, Resting};
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
    waits: Arc<Waits>,
    owners: Arc<Owners>,
    face: LockFace,
}

impl Drop for Locks {
    /// R4, while the openings of those who wait are held by others too: what ends here frees
    /// nothing that another here waits for.
    fn drop(&mut self) {
        let those = core::mem::take(&mut *self.waits.table.lock());
        for place in those.values() {
            if let Place::Waits(waiting) = place {
                let _told = waiting.wait.end();
            }
        }
    }
}

/// Requests that wait.
struct Waits {
    table: Mutex<HashMap<u64, Place>, FuseWaits>,
    /// Those who wait no more, and are to go (R5).
    over: Mutex<Over, FuseWaits>,
    max: usize,
    device: WriteOnce<Arc<Device>>,
    owners: Arc<Owners>,
}

#[derive(Default)]
struct Over {
    those: Vec<Arc<Waiting>>,
    /// Somebody sees to them.
    seen_to: bool,
}

/// One of them.
enum Place {
    /// On its way here.
    Taken,
    Waits(Arc<Waiting>),
}

struct Waiting {
    request: u64,
    /// For a lock of a range: by which opening, and who.
    asks: Option<(Fd, u64)>,
    wait: LockWait,
    waits: Weak<Waits>,
    waker: Waker,
}

/// What is told when there is an answer.
struct Bell(Weak<Waiting>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if let Some(waiting) = self.0.upgrade() {
            waiting.look();
            if let Some(waits) = waiting.waits.upgrade() {
                waits.let_go(waiting);
            }
        }
    }
}

impl Waiting {
    /// Answers, if there is an answer.
    fn look(&self) {
        if let Poll::Ready(told) = self.wait.poll(&self.waker)
            && let Some(waits) = self.waits.upgrade()
            && waits.take(self.request).is_some()
        {
            // Who is refused now is looked at with the others.
            waits.no_more(self);
            waits.answer(self.request, told);
        }
    }
}

impl Waits {
    /// A place for one more.
    ///
    /// # Errors
    /// `ENOLCK`: as many wait as may.
    fn enter(&self, request: u64) -> Result<(), Errno> {
        let mut table = self.table.lock();
        if table.len() >= self.max {
            return Err(Errno::ENOLCK);
        }
        table.insert(request, Place::Taken);
        Ok(())
    }

    /// Puts it there.
    fn put(
        self: &Arc<Self>,
        request: u64,
        asks: Option<(Fd, u64)>,
        wait: LockWait,
    ) -> Arc<Waiting> {
        let waiting = Arc::new_cyclic(|it| Waiting {
            request,
            asks,
            wait,
            waits: Arc::downgrade(self),
            waker: Waker::from(Arc::new(Bell(Weak::clone(it)))),
        });
        let place = Place::Waits(Arc::clone(&waiting));
        self.table.lock().insert(request, place);
        waiting
    }

    /// Takes one out who waits: whoever has him answers him.
    fn take(&self, request: u64) -> Option<Arc<Waiting>> {
        let mut table = self.table.lock();
        let place = table.remove(&request)?;
        match place {
            Place::Waits(waiting) => Some(waiting),
            Place::Taken => {
                table.insert(request, place);
                None
            }
        }
    }

    /// Takes a place back that nobody waits in.
    fn leave(&self, request: u64) {
        self.table.lock().remove(&request);
    }

    /// Lets go of one who waits no more (R5).
    fn let_go(&self, waiting: Arc<Waiting>) {
        let mut over = self.over.lock();
        over.those.push(waiting);
        if core::mem::replace(&mut over.seen_to, true) {
            return;
        }
        drop(over);
        loop {
            let mut over = self.over.lock();
            let Some(next) = over.those.pop() else {
                over.seen_to = false;
                return;
            };
            drop(over);
            drop(next);
        }
    }

    /// One of them asks no more (R7).
    fn no_more(&self, waiting: &Waiting) {
        if let Some((fd, owner)) = waiting.asks {
            self.owners.answered(fd, owner);
        }
    }

    fn answer(&self, request: u64, told: Result<(), Errno>) {
        if let Some(device) = self.device.get() {
            let mut answer = Answer::new(&mut [], request);
            if let Err(errno) = told {
                answer.fail(errno);
            }
            // Who does not wait any more was torn down with the mount.
            let _sent = device.send(&answer.done().head);
        }
    }
}

impl Locks {
    /// For a mount, in the `Vfs` of `task`; so many may wait.
    pub(crate) fn new(task: &Task, waits_max: usize) -> Self {
        let owners = Arc::<Owners>::default();
        Self {
            waits: Arc::new(Waits {
                table: Mutex::default(),
                over: Mutex::default(),
                max: waits_max,
                device: WriteOnce::default(),
                owners: Arc::clone(&owners),
            }),
            owners,
            face: task.lock_face(),
        }
    }

    /// Where who waits is answered.
    pub(crate) fn answer_at(&self, device: &Arc<Device>) {
        self.waits.device.set(Arc::clone(device));
    }

    /// `GETLK`: what is in the way of a lock of a range.
    pub(crate) fn test(&self, w: &Worker, fd: Fd, lock: &Lock) -> Result<Flock, Errno> {
        self.face.getlk(&w.task, fd, lock.owner, &lock.ask)
    }

    /// `SETLK`; of `SETLKW`, what can be done without a wait.
    pub(crate) fn at_once(&self, w: &Worker, fd: Fd, lock: &Lock) -> Result<(), Errno> {
        if lock.whole {
            w.task.set_pid(lock.ask.pid);
            return w.task.flock(fd, whole(lock)? | LOCK_NB);
        }
        self.note(w, fd, lock);
        let told = self.face.setlk(&w.task, fd, lock.owner, &lock.ask);
        self.told(w, fd, lock, told.is_ok());
        told
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
        match self.at_once(w, fd, lock) {
            Err(Errno::EAGAIN) if lock.ask.kind != F_UNLCK => {}
            done => return done.map(|()| Answered::Now),
        }
        self.waits.enter(request)?;
        let line = if lock.whole {
            w.task.set_pid(lock.ask.pid);
            whole(lock).and_then(|op| w.task.flock_later(fd, op))
        } else {
            self.note(w, fd, lock);
            self.face.setlkw(&w.task, fd, lock.owner, &lock.ask)
        };
        let Ok(Some(wait)) = line else {
            if !lock.whole {
                self.told(w, fd, lock, line.is_ok());
            }
            self.waits.leave(request);
            return line.map(|_| Answered::Now);
        };
        let asks = (!lock.whole).then_some((fd, lock.owner));
        let waiting = self.waits.put(request, asks, wait);
        waiting.look();
        if w.seat.is_interrupted() {
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
            let told = waiting.wait.end().unwrap_or(Err(Errno::EINTR));
            self.waits.no_more(waiting);
            if let (Some((fd, owner)), Err(_)) = (waiting.asks, told) {
                self.look(w, fd, self.owners.resting(fd, owner));
            }
            self.waits.answer(request, told);
        }
        waiting.is_some()
    }

    /// An owner asks for a lock by an opening (R2).
    fn note(&self, w: &Worker, fd: Fd, lock: &Lock) {
        if lock.ask.kind != F_UNLCK {
            self.look(w, fd, self.owners.asks(fd, lock.owner));
        }
    }

    /// It has its answer, and is looked at unless it was granted a lock (R6).
    fn told(&self, w: &Worker, fd: Fd, lock: &Lock, is_ok: bool) {
        let is_lock = lock.ask.kind != F_UNLCK;
        if is_lock {
            self.owners.answered(fd, lock.owner);
        }
        if !(is_lock && is_ok) {
            self.look(w, fd, self.owners.resting(fd, lock.owner));
        }
    }

    /// Forgets those of an opening who have nothing of the file (R6). Of whom that cannot be said
    /// may have something.
    fn look(&self, w: &Worker, fd: Fd, those: impl IntoIterator<Item = Resting>) {
        let all = Flock::new(F_UNLCK, 0, 0);
        for it in those {
            let found = self.face.getlk(&w.task, fd, it.owner, &all);
            if found.is_ok_and(|found| found.kind == F_UNLCK) {
                self.owners.had_nothing(fd, it);
            }
        }
    }

    /// An owner has closed a descriptor of an opening: what it has locked of the file ends.
    pub(crate) fn closed(&self, w: &Worker, fd: Fd, owner: u64) {
        self.owners.closed(fd, owner);
        // The opening is there: it ends after this.
        let _ended = self.face.end(&w.task, fd, owner);
    }

    /// An opening ends: what it has locked ends with it.
    pub(crate) fn released(&self, w: &Worker, fd: Fd) {
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
fn whole(lock: &Lock) -> Result<u32, Errno> {
    let op = match lock.ask.kind {
        F_RDLCK => LOCK_SH,
        F_WRLCK => LOCK_EX,
        F_UNLCK => LOCK_UN,
        _ => return Err(Errno::EINVAL),
    };
    let waits = lock.how == Locking::Wait;
    Ok(if waits { op } else { op | LOCK_NB })
}

#[cfg(test)]
mod tests;
