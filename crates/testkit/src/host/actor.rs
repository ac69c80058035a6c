// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs one task of a case on the host: a thread that makes the task's calls.
//!
//! # Rules
//! * An actor shares with its parent what clone(2) would share: the table after `clone`, nothing
//!   after `fork`. Its credentials are never its parent's object, though equal.
//! * An actor handles one order at a time and does nothing in between.
//! * When `end` returns, the kernel has released the actor's table, root and working directory.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use openpath_abi::{Errno, Stat, fcntl as f};

use crate::op::{Fd, Op};
use crate::outcome::{Outcome, RawDesc, RawEvent};
use crate::scan::Entry;
use crate::sys::{self, RawStatx};

use super::fuse::Ground;
use super::{CLONE_NEWNS, TMPFS_OPTIONS, fd, groups, look};

const CLONE_FS: u32 = 0x200;
pub(super) const CLONE_FILES: u32 = 0x400;
/// A number above all that a case opens, for descriptors that are open for a moment.
const ASIDE: i64 = 2000;
/// pidfd_open(2) of a thread.
const PIDFD_THREAD: u32 = 0o200;
/// Stack size of a thread that does little but make calls.
const STACK: usize = 256 << 10;

/// An order to an actor.
#[derive(Debug)]
pub(super) enum Order {
    /// Apply an operation.
    Apply(Op),
    /// List a directory as root, without changing its times.
    List(Fd),
    /// Report the table up to this number, and the path of the working directory.
    Table(i32),
    /// Continue over an overlay of the present tree.
    Stack,
    /// Take a descriptor from the thread with this number.
    Take(i64, Fd),
    /// Call setns(2) with a namespace descriptor of the thread with this number.
    Enter(i64, i32),
}

/// An actor's answer, which does not depend on earlier answers.
#[derive(Debug)]
pub(super) enum Raw {
    Done(Outcome),
    Stat(Stat),
    Statx(RawStatx),
    /// A descriptor was made.
    Opened(i32),
    /// Two descriptors were made.
    Paired([i32; 2]),
    /// A descriptor was made and moved to this number; the outcome is its flags.
    Placed(i32, i64),
    Entries(Vec<Entry>),
    Events(Vec<RawEvent>),
    Table(Vec<RawDesc>, Result<Vec<u8>, Errno>),
    Born(Actor),
}

/// The handle of an actor.
#[derive(Debug)]
pub(super) struct Actor {
    orders: Sender<Order>,
    answers: Receiver<Raw>,
    thread: JoinHandle<()>,
    pub(super) tid: i64,
}

impl Actor {
    /// Sends an order and waits for its answer.
    pub(super) fn ask(&self, order: Order) -> Raw {
        let died = |()| Raw::Done(Outcome::Bad("the actor died".to_owned()));
        let sent = self.orders.send(order).map_err(drop);
        sent.and_then(|()| self.answers.recv().map_err(drop))
            .unwrap_or_else(|()| died(()))
    }

    /// Ends the actor.
    pub(super) fn end(self) {
        drop(self.orders);
        // An actor that panicked has ended as well.
        let _ = self.thread.join();
        // A joined thread may not have released its table yet.
        while sys::thread_lives(self.tid) {
            std::thread::yield_now();
        }
    }
}

/// What a new actor does not share with its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Birth {
    /// The first actor of a case: an empty table.
    First,
    /// A copy of the table.
    Fork,
    /// The parent's table.
    Clone,
}

/// Makes the first actor of a case, and a descriptor of its root in the caller's table.
pub(super) fn first(below: u64, ground: Option<Ground>) -> Option<(Actor, i32)> {
    let (actor, root) = start(Birth::First, 0, below, ground)?;
    Some((actor, root?))
}

/// Makes an actor as a child of the calling thread.
pub(super) fn born(birth: Birth, uid: u32, below: u64) -> Option<Actor> {
    start(birth, uid, below, None).map(|(actor, _)| actor)
}

fn start(
    birth: Birth,
    uid: u32,
    below: u64,
    ground: Option<Ground>,
) -> Option<(Actor, Option<i32>)> {
    let (orders, listen) = channel();
    let (say, answers) = channel();
    let (tell, ready) = channel();
    let body = move || {
        let mut stage = Stage {
            uid,
            below,
            running: Vec::new(),
        };
        if tell.send(stage.enter(birth, ground)).is_err() {
            return;
        }
        while let Ok(order) = listen.recv() {
            if say.send(stage.act(order)).is_err() {
                return;
            }
        }
    };
    let builder = std::thread::Builder::new().stack_size(STACK);
    let thread = builder.spawn(body).ok()?;
    match ready.recv() {
        Ok(Ok((tid, root))) => {
            let actor = Actor {
                orders,
                answers,
                thread,
                tid,
            };
            Some((actor, root))
        }
        _ => None,
    }
}

/// Mounts a fresh tmpfs, or the served tree, over the root of a new namespace and enters it;
/// returns a descriptor of it.
fn own_root(ground: Option<Ground>) -> Result<i32, Errno> {
    sys::unshare(CLONE_NEWNS)?;
    match ground {
        None => {
            sys::mount(b"case", b"/", b"tmpfs", 0, TMPFS_OPTIONS)?;
        }
        Some(ground) => {
            let fd = ground.device;
            let data = format!(
                "fd={fd},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other"
            );
            sys::mount(b"case", b"/", b"fuse.tmpfs", 0, data.as_bytes())?;
            ground.mounted.send(()).map_err(|_| Errno::EIO)?;
        }
    }
    // `..` of the root gives the root, and then what is mounted on it.
    sys::chroot(b"/..")?;
    sys::chdir(b"/")?;
    sys::umask(0o022)?;
    let flags = f::O_PATH | f::O_DIRECTORY | f::O_CLOEXEC;
    fd(sys::openat(f::AT_FDCWD, b"/", flags.bits(), 0))
}

/// The state inside an actor.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) uid: u32,
    /// Device of the tmpfs below every case.
    pub(super) below: u64,
    /// Child programs that still run.
    pub(super) running: Vec<i64>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.halt();
    }
}

impl Stage {
    fn enter(&mut self, birth: Birth, ground: Option<Ground>) -> Result<(i64, Option<i32>), Errno> {
        sys::unshare(CLONE_FS)?;
        // The table is still that of the requesting thread.
        let root = match birth {
            Birth::First => Some(own_root(ground)?),
            Birth::Fork | Birth::Clone => None,
        };
        if birth != Birth::Clone {
            sys::unshare(CLONE_FILES)?;
        }
        if birth == Birth::First {
            sys::close_range(0, u32::MAX, 0)?;
        } else {
            self.become_user(self.uid)?;
        }
        Ok((sys::gettid()?, root))
    }

    fn act(&mut self, order: Order) -> Raw {
        match order {
            Order::Apply(op) => self.dispatch(&op),
            Order::List(at) => {
                let there = self.as_root(|_| look::Look { root: at.0 }.list_here());
                there.map_or_else(|e| Raw::Done(Outcome::Err(e)), Raw::Entries)
            }
            Order::Table(top) => {
                let table = (0..=top).filter_map(look::descriptor).collect();
                Raw::Table(table, sys::getcwd())
            }
            Order::Enter(tid, fd) => {
                let done = enter_namespace(tid, fd).map(|_| Outcome::Ok);
                Raw::Done(done.unwrap_or_else(Outcome::Err))
            }
            Order::Stack => {
                let done = self.as_root(|_| super::stack::stack());
                Raw::Done(done.map_or_else(Outcome::Err, |()| Outcome::Ok))
            }
            Order::Take(tid, fd) => take(tid, fd.0)
                .and_then(|n| super::fd(Ok(n)))
                .map_or_else(|e| Raw::Done(Outcome::Err(e)), Raw::Opened),
        }
    }

    /// Takes a user's credentials; saved uid 0 allows the return to root.
    pub(super) fn become_user(&mut self, uid: u32) -> Result<(), Errno> {
        sys::setresuid(0, 0, 0)?;
        sys::setgroups(groups(uid))?;
        sys::setresgid(uid, uid, 0)?;
        sys::setresuid(uid, uid, 0)?;
        self.uid = uid;
        Ok(())
    }

    /// Kills all child programs as root, whatever the acting user.
    pub(super) fn halt(&mut self) {
        if !self.running.is_empty() {
            self.as_root(|stage| stage.running.drain(..).for_each(sys::halt));
        }
    }

    /// Does work as root and without a tight descriptor limit, then restores both.
    fn as_root<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let limit = sys::files_limit().unwrap_or(crate::side::LIMIT);
        let _ = sys::limit_files(ASIDE.cast_unsigned() + 10);
        if self.uid != 0 {
            let _ = sys::setresuid(0, 0, 0);
        }
        let done = work(self);
        if self.uid != 0 {
            let _ = sys::setresuid(self.uid, self.uid, 0);
        }
        let _ = sys::limit_files(limit);
        done
    }
}

/// Does work under a limit that leaves room for temporary descriptors.
fn with_room<T>(work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let limit = sys::files_limit()?;
    sys::limit_files(ASIDE.cast_unsigned() + 10)?;
    let done = work();
    sys::limit_files(limit)?;
    done
}

/// Moves a descriptor to a number that no case uses.
pub(super) fn aside(low: i32) -> Result<i32, Errno> {
    with_room(|| {
        let high = fd(sys::fcntl(low, f::F_DUPFD_CLOEXEC, ASIDE))?;
        sys::close(low)?;
        Ok(high)
    })
}

/// A pidfd of a thread, at a number that no case uses.
fn pidfd(tid: i64) -> Result<i32, Errno> {
    let tid = i32::try_from(tid).map_err(|_| Errno::ESRCH)?;
    let low = with_room(|| fd(sys::pidfd_open(tid, PIDFD_THREAD)))?;
    aside(low)
}

/// pidfd_getfd(2).
fn take(tid: i64, fd: i32) -> sys::Ret {
    let pidfd = pidfd(tid)?;
    let taken = sys::pidfd_getfd(pidfd, fd, 0);
    sys::close(pidfd)?;
    taken
}

/// setns(2) to a namespace by another thread's descriptor.
fn enter_namespace(tid: i64, kept: i32) -> sys::Ret {
    let file = with_room(|| fd(take(tid, kept))).and_then(aside)?;
    let entered = sys::setns(file, CLONE_NEWNS);
    sys::close(file)?;
    entered
}
