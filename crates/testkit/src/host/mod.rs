// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs cases on the host kernel: each on a tmpfs of its own, in a mount namespace of its own.
//!
//! # States
//! `HostWorld` is made once, in a process that does nothing else: it leaves the mount namespace of
//! its parent and makes an empty read-only tmpfs its only mount. `Host` is one case: its first
//! actor has a namespace of its own, in which a fresh tmpfs covers that one and is the actor's
//! root. The namespaces of a case end with its actors.
//!
//! # Rules
//! * R1. Actors make the calls: a task of a case is a thread with its own table, root, working
//!   directory, mount namespace and credentials, so the oracle's descriptors disturb no case. The
//!   thread that owns `Host` is root, in a namespace that no case changes; it takes the snapshots.
//! * R2. Before each operation `tick` moves the kernel's clock on, so that two operations never set
//!   equal times.
//! * R3. No operation reaches the file systems of the host: no namespace of a case has them. Tasks
//!   are inspected through a descriptor of `/proc` that no actor has. A case may leave its chroot
//!   by `..`, and then stands in its own root, because that is mounted on the root of the
//!   namespace; it may uncover the tmpfs below, which is empty again before the next case. Below
//!   that is the machine's first root: a task that stands in the tmpfs unmounts nothing.
//! * R4. The limit on descriptors is the process's; each task's own limit is in force while it
//!   acts.

mod actor;
mod apply;
pub mod fuse;
mod look;
mod stack;
mod tasks;

use std::cell::Cell;

use openpath_abi::{Errno, fcntl as f, mount as m};

use crate::op::{Fd, Op};
use crate::outcome::{Ids, Names, Outcome, Stamps, StatView, StatxView};
use crate::scan::Scans;
use crate::side::{self, Side};
use crate::skips;
use crate::snapshot::TreeReader;
use crate::sys;
use crate::tree::{Depth, Tree};
use actor::{Actor, Order, Raw};

const CLONE_NEWNS: u32 = 0x2_0000;
/// The propagation types, of which an operation sets one.
pub const KINDS: u64 = m::MS_SHARED | m::MS_PRIVATE | m::MS_SLAVE | m::MS_UNBINDABLE;
/// How many namespaces a case can keep.
pub const SLOTS: usize = 4;
/// The most mounts that a task may see; above it no operation adds mounts, because copies of copies
/// double each time.
const MOUNTS: usize = 40;
/// Descriptor limit of a backend over the host.
const BACKEND_LIMIT: u64 = 4096;
/// Mount options of every tmpfs; they fix all defaults that depend on the machine.
pub const TMPFS_OPTIONS: &[u8] = b"mode=0755,huge=never,size=1g,nr_inodes=1m";

/// The state that all cases of a process share.
#[derive(Debug)]
pub struct HostWorld {
    /// The root of the namespace, below every case.
    base: i32,
    /// `/proc` of the host, to look at the actors.
    proc: i32,
    clock: i32,
    /// The FUSE device, to be opened through `own`; or why there is none.
    device: Result<i32, Errno>,
    /// Descriptors of this process, for a backend that reopens some.
    own: std::sync::Arc<rustix::fd::OwnedFd>,
    /// The soft limit in force.
    limit: Cell<u64>,
}

fn fd(r: Result<i64, Errno>) -> Result<i32, Errno> {
    r.and_then(|v| i32::try_from(v).map_err(|_| Errno::EOVERFLOW))
}

impl HostWorld {
    /// Leaves the parent's mount namespace, and all mounts in it.
    ///
    /// # Errors
    /// `EPERM` without the right to do so, or the kernel's error.
    pub fn enter() -> Result<HostWorld, Errno> {
        use std::os::unix::ffi::OsStrExt as _;
        let place = std::env::temp_dir();
        let place = place.as_os_str().as_bytes();
        sys::unshare(CLONE_NEWNS)?;
        sys::ignore_signals();
        let flags = f::O_PATH | f::O_DIRECTORY | f::O_CLOEXEC;
        let proc = fd(sys::openat(f::AT_FDCWD, b"/proc", flags.bits(), 0))?;
        let own = crate::plain::own_descriptors()?;
        let device = fuse::device();
        sys::mount(b"none", b"/", b"", m::MS_REC | m::MS_PRIVATE, b"")?;
        sys::mount(b"base", place, b"tmpfs", m::MS_RDONLY, TMPFS_OPTIONS)?;
        sys::mount(b"none", place, b"", m::MS_REMOUNT | m::MS_BIND, b"")?;
        sys::chdir(place)?;
        sys::pivot_root(b".", b".")?;
        sys::umount2(b".", m::MNT_DETACH.bits())?;
        sys::chdir(b"/")?;
        let base = fd(sys::openat(f::AT_FDCWD, b"/", flags.bits(), 0))?;
        let clock = fd(sys::memfd_create())?;
        Ok(HostWorld {
            base,
            proc,
            clock,
            device,
            own: own.into(),
            limit: Cell::new(0),
        })
    }

    /// Starts a case on an empty tmpfs.
    ///
    /// # Errors
    /// The kernel's error; the case has not begun.
    pub fn begin(&self) -> Result<Host<'_>, Errno> {
        self.begin_on(None)
    }

    /// Starts a case on an empty openpath tree that is served by FUSE.
    ///
    /// # Errors
    /// The kernel's error; the case has not begun.
    pub fn begin_served(&self, serve: fuse::Serve) -> Result<Host<'_>, Errno> {
        self.begin_on(Some(self.ground(serve)?))
    }

    fn begin_on(&self, ground: Option<(fuse::Ground, fuse::Served)>) -> Result<Host<'_>, Errno> {
        let (ground, served) = ground.unzip();
        let mut stamps = Stamps::default();
        self.limit(side::LIMIT);
        stamps.start(self.tick());
        let below = sys::fstat(self.base)?;
        let (first, root) = actor::first(below.dev, ground).ok_or(Errno::EAGAIN)?;
        let there = sys::fstatat(root, b"", f::AT_EMPTY_PATH.bits())?;
        assert_ne!(
            there.dev, below.dev,
            "the case did not get a root of its own"
        );
        let own = tasks::namespace(self.proc, first.tid)?;
        Ok(Host {
            world: self,
            root,
            first: own,
            tasks: vec![Some(Task {
                actor: first,
                limit: side::LIMIT,
            })],
            acting: 0,
            top: -1,
            mounts: 0,
            kept: [const { None }; SLOTS],
            scans: Scans::default(),
            stamps,
            ids: Ids::default(),
            names: Names::default(),
            _served: served,
        })
    }

    /// An empty tmpfs like those of the cases, with a descriptor that leads to this process's
    /// descriptors; raises the limit on them.
    pub(crate) fn plain(&self) -> Result<crate::plain::Plain, Errno> {
        self.limit(BACKEND_LIMIT);
        crate::plain::Plain::new(&self.own)
    }

    /// Puts this soft limit in force.
    fn limit(&self, soft: u64) {
        if self.limit.get() != soft && sys::limit_files(soft).is_ok() {
            self.limit.set(soft);
        }
    }

    /// Checks that the tmpfs below is read-only and empty, as before.
    fn clear(&self) {
        let _ = sys::fchdir(self.base);
        let read_only = openpath_abi::mount::ST_RDONLY;
        if sys::statfs(b".").is_ok_and(|s| s.flags & read_only == 0) {
            let here = look::Look { root: self.base }.list_here();
            for entry in here.unwrap_or_default() {
                let path = [b"./", &entry.name[..]].concat();
                let _ = sys::unlinkat(self.base, &path, 0);
                let _ = sys::unlinkat(self.base, &path, f::AT_REMOVEDIR.bits());
            }
            let _ = sys::mount(b"none", b".", b"", m::MS_REMOUNT | m::MS_RDONLY, b"");
            let _ = sys::mount(b"none", b".", b"", m::MS_REMOUNT | m::MS_BIND, b"");
        }
    }

    /// Moves the clock of tmpfs on.
    ///
    /// A file whose change time was read gets a different one next, and no file gets an older one
    /// afterwards. Twice, because the first tick may have been used already.
    pub(crate) fn tick(&self) -> openpath_abi::Timespec {
        for _ in 0..2 {
            let _ = sys::fstat(self.clock);
            let _ = sys::pwrite(self.clock, b"t", 0);
        }
        sys::fstat(self.clock).unwrap_or_default().ctime
    }
}

/// A task of a case.
#[derive(Debug)]
struct Task {
    actor: Actor,
    limit: u64,
}

/// One case on the host.
#[derive(Debug)]
pub struct Host<'w> {
    world: &'w HostWorld,
    root: i32,
    /// The case's first namespace, which would end when the last task leaves it.
    first: i32,
    tasks: Vec<Option<Task>>,
    acting: usize,
    /// The highest descriptor number so far.
    top: i32,
    /// The most mounts that a task saw in the last snapshot.
    mounts: usize,
    /// Kept namespaces: descriptors of the thread that owns this.
    kept: [Option<i32>; SLOTS],
    scans: Scans,
    stamps: Stamps,
    ids: Ids,
    names: Names,
    /// The session that serves the root; dropped last.
    _served: Option<fuse::Served>,
}

/// The supplementary groups of a test user.
#[must_use]
pub fn groups(uid: u32) -> &'static [u32] {
    if uid == 1000 { &[2000] } else { &[] }
}

impl Host<'_> {
    /// Sends an order to the acting task, under the task's own limit.
    fn order(&mut self, order: Order) -> Raw {
        match &self.tasks[self.acting] {
            Some(task) => {
                self.world.limit(task.limit);
                task.actor.ask(order)
            }
            None => Raw::Done(Outcome::Err(Errno::ESRCH)),
        }
    }

    /// Converts an actor's answer to a comparable outcome.
    fn said(&mut self, raw: Raw) -> Outcome {
        match raw {
            Raw::Done(outcome) => outcome,
            Raw::Stat(s) => Outcome::Stat(Box::new(StatView::new(&s, &self.ids, &self.stamps))),
            Raw::Statx(s) => Outcome::Statx(Box::new(StatxView::new(&s, &self.ids, &self.stamps))),
            Raw::Opened(n) => {
                self.top = self.top.max(n);
                Outcome::Num(i64::from(n))
            }
            Raw::Paired(both) => {
                self.top = both.into_iter().fold(self.top, i32::max);
                Outcome::Nums(both.map(i64::from).to_vec())
            }
            Raw::Placed(n, flags) => {
                self.top = self.top.max(n);
                Outcome::Num(flags)
            }
            Raw::Events(all) => Outcome::Events(self.names.events(all)),
            Raw::Born(actor) => {
                let limit = self.tasks[self.acting].as_ref().map_or(0, |t| t.limit);
                let number = self.tasks.len();
                self.tasks.push(Some(Task { actor, limit }));
                self.scans.stop_following();
                Outcome::Num(i64::try_from(number).unwrap_or(0))
            }
            Raw::Entries(_) | Raw::Table(..) => {
                Outcome::Bad("the actor gave an unexpected answer".to_owned())
            }
        }
    }

    /// Applies an operation with a limit above 0.
    fn roomy(&mut self, op: &Op) -> Outcome {
        let limit = |host: &Self| host.tasks[host.acting].as_ref().map_or(0, |t| t.limit);
        let own = limit(self);
        let set = |host: &mut Self, limit| {
            if let Some(task) = &mut host.tasks[host.acting] {
                task.limit = limit;
            }
        };
        set(self, own.max(1));
        let done = self.order(Order::Apply(op.clone()));
        set(self, own);
        self.said(done)
    }

    /// getdents64(2) once.
    fn dir_read(&mut self, op: &Op, at: Fd) -> Outcome {
        if self.scans.starts(at)
            && let Raw::Entries(there) = self.order(Order::List(at))
        {
            self.scans.start(at, there);
        }
        match self.order(Order::Apply(op.clone())) {
            Raw::Entries(got) => self.scans.feed(at, got),
            other => self.said(other),
        }
    }
}

impl Side for Host<'_> {
    fn apply(&mut self, _at: usize, op: &Op) -> Outcome {
        self.scans.touch(op);
        self.stamps.start(self.world.tick());
        if self.mounts > MOUNTS && tasks::adds_mounts(op) {
            return Outcome::Skip(skips::MANY_MOUNTS);
        }
        let outcome = match self.tasks_family(op) {
            Some(outcome) => outcome,
            None => match op {
                Op::DirRead { fd, .. } => self.dir_read(op, *fd),
                // The same limit applies to the number of polled descriptors.
                Op::Poll { .. } => self.roomy(op),
                _ => {
                    let done = self.order(Order::Apply(op.clone()));
                    self.said(done)
                }
            },
        };
        self.scans.learn(op, &outcome);
        outcome
    }

    fn skip(&mut self, _at: usize, _op: &Op) {
        self.stamps.start(self.world.tick());
    }

    fn snapshot(&mut self, depth: Depth) -> Tree {
        self.world.limit(side::LIMIT.max(self.world.limit.get()));
        let tasks = self.looked_at(depth);
        let mut ids = std::mem::take(&mut self.ids);
        let mut readers = vec![look::Look { root: self.root }];
        if depth == Depth::Deep {
            readers.extend(self.roots().map(|root| look::Look { root }));
        }
        let mut all: Vec<&mut dyn TreeReader> = readers
            .iter_mut()
            .map(|e| e as &mut dyn TreeReader)
            .collect();
        let tree = crate::snapshot::take_snapshot(&mut all, &mut ids, &self.stamps, depth, tasks);
        for inspector in &readers[1..] {
            let _ = sys::close(inspector.root);
        }
        self.ids = ids;
        tree
    }

    fn finish(&mut self) -> Vec<String> {
        // Entries that the kernel loses or doubles are its own affair; that a scan ran is not.
        for at in self.scans.open() {
            while self.scans.is_open(at) {
                match self.order(Order::Apply(Op::DirRead {
                    fd: at,
                    bytes: 4096,
                })) {
                    Raw::Entries(got) => drop(self.scans.feed(at, got)),
                    _ => self.scans.rewind(at),
                }
            }
        }
        Vec::new()
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        for task in self.tasks.drain(..).flatten() {
            task.actor.end();
        }
        for slot in self.kept.iter().flatten() {
            let _ = sys::close(*slot);
        }
        let _ = sys::close(self.root);
        let _ = sys::close(self.first);
        self.world.limit(side::LIMIT);
        self.world.clear();
    }
}
