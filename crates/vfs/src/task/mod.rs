// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a task: the caller of system calls, with its root, working directory, credentials and
//! limits. Every system call is one of its methods.
//!
//! # Kernel analogue
//! `struct task_struct` with `fs_struct`, credentials and limits. One thread uses a task at a time;
//! more threads of one guest are more tasks.
//!
//! The module has the parts that calls share: the task itself (this file), explanations (`tell`),
//! changes through mounts (`write`), rules of absent names (`rules`), conflicting leases
//! (`leases`), exchanged roots (`pivots`), and paths of places (`path_snapshot`).
//!
//! # Fields
//! All are the task's own: nothing here is written by another thread, so a cached call writes only
//! lines of its task.

mod leases;
mod path_snapshot;
mod pivots;
mod rules;
mod tell;
mod write;

pub(crate) use path_snapshot::PathSnapshot;
pub(crate) use rules::RuleAnswer;
pub(crate) use write::WriteAccess;

use crate::buffer::Buffer;
use crate::cred::Cred;
use crate::fd_table::FdTable;
use crate::instance::Shared;
use crate::lock::LockContext;
use crate::lock_order::Deferred;
use crate::namespace::Namespace;
use crate::object::Pins;
use crate::path::PathIds;
use crate::reason::{Reason, ReasonCounts, Reasons};
use crate::steps::StepLog;
use crate::tenant::{TaskCounts, Tenant, TenantRef};
use crate::tenant_lru::Kind;
use openpath_abi::{Errno, OFlags};
use openpath_sync::rcu::Reader;
use openpath_sync::{FileRef, Mutex, Pin, PinSet, Waiter};
use std::cell::{Cell, Ref, RefCell};
use std::sync::Arc;

/// The inside of a [`Task`], borrowed by walks and open files. Aligned, so that neighbouring tasks
/// share no line.
#[repr(align(128))]
pub(crate) struct Core {
    pub(crate) vfs: Arc<Shared>,
    /// Whether walks may go without references ([`crate::Tuning::lock_free_walk`]).
    pub(crate) lock_free: Cell<bool>,
    /// Flags of opens that look up the name with the directory locked
    /// ([`crate::Tuning::create_looks_first`]).
    pub(crate) locked_look: OFlags,
    /// Whether opens look for leases by the pointer to the context, and not by the flag alone
    /// ([`crate::Tuning::lock_context_flag`]).
    pub(crate) by_lock_pointer: bool,
    /// The record of a call that is being explained.
    pub(crate) step_log: StepLog,
    pub(crate) pins: Pins,
    /// The descriptor table; borrowed for one step of it at a time.
    fds: RefCell<FdTable>,
    /// The sections of its walks without references, so that one that stalls has a name.
    pub(crate) reader: Reader,
    pub(crate) root: Cell<PathIds>,
    pub(crate) cwd: Cell<PathIds>,
    /// The pins of root and working directory.
    anchors: RefCell<[Option<Pin>; 2]>,
    cred: RefCell<Arc<Cred>>,
    cred_serial: Cell<u64>,
    pub(crate) umask: Cell<u32>,
    pub(crate) nofile: Cell<u64>,
    /// The pid of its process ([`Task::set_pid`]).
    pub(crate) pid: Cell<i32>,
    namespace: RefCell<Namespace>,
    /// How many exchanges of roots it has followed; see `mount::pivot`.
    pub(crate) pivots_seen: Cell<u64>,
    /// Its tenant.
    tenant: RefCell<TenantRef>,
    /// Kept for the next use, with free slots for more.
    buffers: RefCell<[Buffer; BUFFERS]>,
    /// Why walks left the lock-free mode, in memory of its own.
    pub(crate) reasons: Arc<ReasonCounts>,
    /// Why the last call that may not wait answered `EAGAIN`, or the last walk started over.
    pub(crate) gave_up: Cell<Option<Reason>>,
    /// The file of the last delegation that a call met, before it released its locks to wait.
    pub(crate) delegated: RefCell<Option<Arc<LockContext>>>,
    /// The entry that a walk under way confirmed last, while it stands there.
    pub(crate) confirmed: Cell<u32>,
    /// Puts its calls to sleep.
    pub(crate) sleeper: Waiter,
    /// Files to be freed when the call ends; see `open::early`.
    pub(crate) deferred: Mutex<Vec<FileRef>, Deferred>,
}

/// Buffers that a task keeps.
const BUFFERS: usize = 4;
/// A buffer with more room is not kept.
const BUFFER_BYTES_KEPT: usize = 1 << 16;
/// Default soft limit on descriptors (`RLIMIT_NOFILE`).
const NOFILE_DEFAULT: u64 = 1024;

impl Core {
    pub(crate) fn cred(&self) -> Ref<'_, Arc<Cred>> {
        self.cred.borrow()
    }

    /// A number that only this set of credentials has.
    pub(crate) fn cred_serial(&self) -> u64 {
        self.cred_serial.get()
    }

    /// An empty buffer, kept from an earlier use if there is one.
    pub(crate) fn take_buffer(&self) -> Buffer {
        let mut kept = self.buffers.borrow_mut();
        let found = kept.iter_mut().find(|buffer| !buffer.is_none());
        found.map_or_else(Buffer::new, std::mem::take)
    }

    /// Keeps a buffer for the next use.
    pub(crate) fn give_buffer(&self, mut buffer: Buffer) {
        let mut kept = self.buffers.borrow_mut();
        let place = kept.iter_mut().find(|buffer| buffer.is_none());
        if let Some(place) = place
            && buffer.room() <= BUFFER_BYTES_KEPT
        {
            buffer.clear();
            *place = buffer;
        }
    }

    /// Counts in one of its own words ([`crate::tenant::count`]).
    #[inline(always)]
    pub(crate) fn count(&self, what: usize) {
        self.reader.counts()[what].bump();
    }

    /// The words in which it counts.
    fn tally(&self) -> TaskCounts {
        TaskCounts {
            words: self.reader.counts(),
            reasons: Arc::clone(&self.reasons),
        }
    }

    /// Makes the place of `pin` the root (0) or the working directory (1).
    fn settle(&self, which: usize, pin: Pin) {
        let path_ids = PathIds {
            mount: pin.mount(),
            dentry: pin.dentry(),
        };
        let old = self.anchors.borrow_mut()[which].replace(pin);
        if which == 0 {
            self.root.set(path_ids)
        } else {
            self.cwd.set(path_ids)
        }
        if let Some(old) = old {
            self.leave(old);
        }
    }

    /// Lets go of the pin of its root or working directory.
    fn leave(&self, pin: Pin) {
        let awaited = self.vfs.is_awaited(&pin);
        self.pins.release(pin);
        if awaited {
            self.vfs.end_waits();
        }
    }

    pub(crate) fn set_root(&self, pin: Pin) {
        self.settle(0, pin);
    }

    pub(crate) fn set_cwd(&self, pin: Pin) {
        self.settle(1, pin);
    }

    /// Acts with `cred` until what this returns is dropped (`override_creds`).
    pub(crate) fn act_as(&self, cred: Cred) -> ActingAs<'_> {
        ActingAs {
            core: self,
            cred: self.cred.replace(Arc::new(cred)),
            serial: self.cred_serial.replace(self.vfs.next_cred.add(1)),
        }
    }

    /// Acts with the credentials of another task, by their number too.
    pub(crate) fn act_like(&self, other: &Self) {
        self.cred.replace(Arc::clone(&other.cred()));
        self.cred_serial.set(other.cred_serial());
    }

    /// Makes room for one more cached name.
    ///
    /// # Errors
    /// `ENOMEM` where its tenant is at its budget, or the `Vfs` at its bound, and all is in use.
    pub(crate) fn room(&self, kind: Kind) -> Result<(), Errno> {
        self.vfs.dcache.room(self.tenant().lru(), kind)
    }

    /// Its tenant.
    pub(crate) fn tenant(&self) -> Ref<'_, TenantRef> {
        self.tenant.borrow()
    }

    pub(crate) fn namespace(&self) -> Namespace {
        self.namespace.borrow().clone()
    }

    /// The number of its namespace.
    pub(crate) fn namespace_id(&self) -> u64 {
        self.namespace.borrow().id()
    }

    /// Moves it to another namespace. Held: no lock, since that may end its former one.
    pub(crate) fn set_namespace(&self, namespace: Namespace) {
        drop(self.namespace.replace(namespace));
    }

    /// The descriptor table.
    #[inline(always)]
    pub(crate) fn fds(&self) -> Ref<'_, FdTable> {
        self.fds.borrow()
    }

    /// Replaces the descriptor table; the former one.
    pub(crate) fn swap_fds(&self, table: FdTable) -> FdTable {
        self.fds.replace(table)
    }
}

/// Its table has ended before: a [`Task`] drops it first (`fd`).
impl Drop for Core {
    fn drop(&mut self) {
        self.tenant().part(self.reader.counts());
        for pin in self.anchors.take().into_iter().flatten() {
            self.leave(pin);
        }
    }
}

/// The name of the calling thread, for reports.
fn thread_name() -> String {
    let thread = std::thread::current();
    thread
        .name()
        .map_or_else(|| format!("{:?}", thread.id()), str::to_owned)
}

/// Other credentials for a while; dropping it brings the old ones back.
pub(crate) struct ActingAs<'a> {
    core: &'a Core,
    cred: Arc<Cred>,
    serial: u64,
}

impl Drop for ActingAs<'_> {
    fn drop(&mut self) {
        self.core.cred.replace(Arc::clone(&self.cred));
        self.core.cred_serial.set(self.serial);
    }
}

/// A task. See the module head.
pub struct Task {
    pub(crate) core: Core,
}

impl Task {
    pub(crate) fn new(vfs: Arc<Shared>, cred: Cred) -> Result<Self, Errno> {
        let namespace = Namespace::hold(&vfs, vfs.initial);
        let pivots_seen = vfs.mounts.pivots.get();
        let root = {
            let topology = vfs.mounts.topology.lock();
            vfs.root_of(&topology, vfs.initial)
        };
        let root = root.ok_or(Errno::ENOMEM)?;
        let task = Self::at(vfs, namespace, root, root)?;
        task.core.pivots_seen.set(pivots_seen);
        task.set_cred(cred);
        Ok(task)
    }

    fn at(
        vfs: Arc<Shared>,
        namespace: Namespace,
        root: PathIds,
        cwd: PathIds,
    ) -> Result<Self, Errno> {
        let nofile = NOFILE_DEFAULT.min(u64::from(vfs.config.limits.nr_open));
        let pins = PinSet::new(Arc::clone(&vfs.dcache.store)).ok_or(Errno::ENOMEM)?;
        let core = Core {
            locked_look: vfs.config.tuning.locked_look(),
            by_lock_pointer: !vfs.config.tuning.lock_context_flag,
            lock_free: Cell::new(vfs.config.tuning.lock_free_walk),
            step_log: StepLog::default(),
            fds: RefCell::new(FdTable::new(
                &vfs.dcache.store,
                &vfs.config,
                vfs.locks.new_table(),
            )),
            pid: Cell::new(vfs.locks.new_pid()),
            tenant: RefCell::new(TenantRef::new(&vfs.tenant)),
            vfs,
            pins,
            reader: Reader::new(format!("task {}", thread_name())),
            root: Cell::new(root),
            cwd: Cell::new(cwd),
            anchors: RefCell::default(),
            cred: RefCell::new(Arc::new(Cred::root())),
            cred_serial: Cell::new(0),
            umask: Cell::new(0o022),
            nofile: Cell::new(nofile),
            namespace: RefCell::new(namespace),
            pivots_seen: Cell::new(0),
            buffers: RefCell::default(),
            reasons: Arc::default(),
            gave_up: Cell::new(None),
            delegated: RefCell::default(),
            confirmed: Cell::new(0),
            sleeper: Waiter::default(),
            deferred: Mutex::default(),
        };
        core.tenant().join(core.tally());
        let root = core
            .pins
            .pin_now(root.mount, root.dentry)
            .ok_or(Errno::ENOMEM)?;
        core.set_root(root);
        let cwd = core
            .pins
            .pin_now(cwd.mount, cwd.dentry)
            .ok_or(Errno::ENOMEM)?;
        core.set_cwd(cwd);
        Ok(Self { core })
    }

    /// Why the last call that may not wait, a try or with `RESOLVE_CACHED`, answered that it would
    /// have to. Later calls keep this, unless they start over for a reason of theirs.
    #[must_use]
    pub fn last_reason(&self) -> Option<Reason> {
        self.core.gave_up.get()
    }

    /// A task like this one, with an empty descriptor table.
    ///
    /// # Errors
    /// `ENOMEM` when there are no pins left.
    pub(crate) fn sibling(&self) -> Result<Self, Errno> {
        let core = &self.core;
        let sibling = Self::at(
            Arc::clone(&core.vfs),
            core.namespace(),
            core.root.get(),
            core.cwd.get(),
        )?;
        sibling.core.pivots_seen.set(core.pivots_seen.get());
        sibling.core.act_like(core);
        sibling.core.umask.set(core.umask.get());
        sibling.core.nofile.set(core.nofile.get());
        sibling.set_tenant(core.tenant().tenant())?;
        Ok(sibling)
    }

    /// Acts with other credentials from now on (`commit_creds`).
    pub fn set_cred(&self, cred: Cred) {
        self.core.cred.replace(Arc::new(cred));
        self.core.cred_serial.set(self.core.vfs.next_cred.add(1));
    }

    /// The credentials it acts with.
    #[must_use]
    pub fn cred(&self) -> Arc<Cred> {
        Arc::clone(&self.core.cred())
    }

    /// Works for `tenant` from now on, as will its children. Names that it entered into the cache
    /// before stay on the account of its former tenant.
    ///
    /// # Errors
    /// `EINVAL` for a tenant of another `Vfs`: nothing is changed.
    pub fn set_tenant(&self, tenant: &Arc<Tenant>) -> Result<(), Errno> {
        if !tenant.is_of(self.core.vfs.id) {
            return Err(Errno::EINVAL);
        }
        self.core.tenant().part(self.core.reader.counts());
        tenant.join(self.core.tally());
        self.core.tenant.replace(TenantRef::new(tenant));
        Ok(())
    }

    /// Its tenant.
    #[must_use]
    pub fn tenant(&self) -> Arc<Tenant> {
        Arc::clone(self.core.tenant().tenant())
    }

    /// Sets the mask of permission bits that new files do not get; the old one. Linux: umask(2).
    pub fn umask(&self, mask: u32) -> u32 {
        self.core.umask.replace(mask & 0o777)
    }

    /// Sets the soft limit on descriptors (`RLIMIT_NOFILE`): one past the highest to be handed out.
    /// It is never above [`crate::Limits::nr_open`].
    pub fn set_rlimit_nofile(&self, limit: u64) {
        let nr_open = self.core.vfs.config.limits.nr_open;
        self.core.nofile.set(limit.min(u64::from(nr_open)));
    }

    /// The pid of its process, which reports of locks show. Linux: getpid(2).
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.core.pid.get()
    }

    /// Sets the pid of its process: processes are the host's. A task begins with a number that no
    /// other task of the `Vfs` began with.
    pub fn set_pid(&self, pid: i32) {
        self.core.pid.set(pid);
    }

    /// How often its walks left the lock-free mode or started over, by reason.
    #[must_use]
    pub fn reasons(&self) -> Reasons {
        self.core.reasons.read()
    }

    /// How often its walks left the lock-free mode or started over.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.reasons().total()
    }

    /// The address ranges of its root directory's entry, for tests that count stores to it.
    #[doc(hidden)]
    #[must_use]
    pub fn root_spans(&self) -> [(usize, usize); 2] {
        self.core
            .vfs
            .dcache
            .entry_spans(self.core.root.get().dentry)
    }
}
