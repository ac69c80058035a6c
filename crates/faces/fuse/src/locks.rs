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
//! | `owners` | by each opening: who asked for locks of ranges and has not closed it since |
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
//!
//! # Divergence: L82, L83, L84, L85, L86

use crate::wire::request::{Lock, Locking};
use crate::wire::{Answer, Device};
use crate::worker::Worker;
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN};
use openpath_abi::{Errno, Flock};
use openpath_sync::{Mutex, WriteOnce};
use openpath_vfs::lock_order::{FuseLocks, FuseWaits};
use openpath_vfs::{Fd, LockFace, LockWait, Task};
use std::collections::{HashMap, HashSet};
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
    owners: Mutex<HashMap<Fd, HashSet<u64>>, FuseLocks>,
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
    fn put(self: &Arc<Self>, request: u64, wait: LockWait) -> Arc<Waiting> {
        let waiting = Arc::new_cyclic(|it| Waiting {
            request,
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

    fn answer(&self, request: u64, told: Result<(), Errno>) {
        if let Some(device) = self.device.get() {
            let mut answer = Answer::brief();
            answer.begin(request);
            if let Err(errno) = told {
                answer.fail(errno);
            }
            // Who does not wait any more was torn down with the mount.
            let _sent = device.send(answer.message());
        }
    }
}

impl Locks {
    /// For a mount, in the `Vfs` of `task`; so many may wait.
    pub(crate) fn new(task: &Task, waits_max: usize) -> Self {
        Self {
            waits: Arc::new(Waits {
                table: Mutex::default(),
                over: Mutex::default(),
                max: waits_max,
                device: WriteOnce::default(),
            }),
            owners: Mutex::default(),
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
        self.note(fd, lock);
        self.face.setlk(&w.task, fd, lock.owner, &lock.ask)?;
        self.forget_if_idle(w, fd, lock)
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
            self.note(fd, lock);
            self.face.setlkw(&w.task, fd, lock.owner, &lock.ask)
        };
        let Ok(Some(wait)) = line else {
            self.waits.leave(request);
            return line.map(|_| Answered::Now);
        };
        let waiting = self.waits.put(request, wait);
        waiting.look();
        if w.seat.is_interrupted() {
            // R3
            self.interrupt(request);
        }
        Ok(Answered::Later)
    }

    /// Nobody wants to wait for this request any longer; whether it waits here.
    pub(crate) fn interrupt(&self, request: u64) -> bool {
        let waiting = self.waits.take(request);
        if let Some(waiting) = &waiting {
            // What came at the same moment is preferred.
            let told = waiting.wait.end().unwrap_or(Err(Errno::EINTR));
            self.waits.answer(request, told);
        }
        waiting.is_some()
    }

    /// An owner asks for a lock by an opening (R2).
    fn note(&self, fd: Fd, lock: &Lock) {
        if lock.ask.kind != F_UNLCK {
            self.owners.lock().entry(fd).or_default().insert(lock.owner);
        }
    }

    /// An owner that has nothing of the file any more is none of the opening: one that closed it
    /// and was late to lock is a table, and what it locks by another opening is not this one's
    /// (R2).
    fn forget_if_idle(&self, w: &Worker, fd: Fd, lock: &Lock) -> Result<(), Errno> {
        if lock.ask.kind != F_UNLCK {
            return Ok(());
        }
        let all = Flock::new(F_UNLCK, 0, 0);
        if self.face.getlk(&w.task, fd, lock.owner, &all)?.kind == F_UNLCK {
            self.forget(fd, lock.owner);
        }
        Ok(())
    }

    /// An owner asks no more by an opening.
    fn forget(&self, fd: Fd, owner: u64) {
        let mut owners = self.owners.lock();
        if let Some(those) = owners.get_mut(&fd) {
            those.remove(&owner);
            if those.is_empty() {
                owners.remove(&fd);
            }
        }
    }

    /// An owner has closed a descriptor of an opening: what it has locked of the file ends.
    pub(crate) fn closed(&self, w: &Worker, fd: Fd, owner: u64) {
        self.forget(fd, owner);
        // The opening is there: it ends after this.
        let _ended = self.face.end(&w.task, fd, owner);
    }

    /// An opening ends: what it has locked ends with it.
    pub(crate) fn released(&self, w: &Worker, fd: Fd) {
        let left = self.owners.lock().remove(&fd);
        for owner in left.into_iter().flatten() {
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
