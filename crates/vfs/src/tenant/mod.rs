// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a tenant: a group of tasks with common limits on cached names, bytes, files and
//! locks.
//!
//! # Kernel analogue
//! A memory control group, as far as names and files go. Linux kills or throttles; a tenant evicts
//! its own cached names, or gets `EDQUOT`.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | limits | never | one load |
//! | bytes, inodes, locks | nothing: see [`BoundedCounter`] | the same |
//! | LRU list | the dentry cache ([`TenantLru`]) | the same |
//! | counts | their lock, when a task comes or goes | the same |
//!
//! # Rules
//! R1. A new object keeps its tenant by the task's own handle ([`TenantRef`]): the count of a
//!     handle is on a line of its own, so neighbouring tasks do not write one line for each file.
//!
//! # Guarantees
//! G1. A charge that is refused charges nothing.

mod activity;

pub use activity::Activity;
pub(crate) use activity::{TaskCounts, count};

use crate::lock_order::TenantCounts as TenantCountsLock;
use crate::tenant_lru::TenantLru;
use activity::TenantCounts;
use openpath_abi::Errno;
use openpath_sync::{BoundedCounter, Mutex};
use std::sync::Arc;

/// Which of the quantities of a tenant.
const BYTES: usize = 0;
const INODES: usize = 1;
const LOCKS: usize = 2;

/// What the tasks of one tenant may use together. The default is no bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TenantLimits {
    /// Cached names that exist.
    pub positive_max: u32,
    /// Cached names that do not exist.
    pub negative_max: u32,
    /// Bytes of files that the tenant made.
    pub bytes_max: u64,
    /// Files of any type that the tenant made.
    pub inodes_max: u64,
    /// Locks that its tasks have on files, each range by itself (`RLIMIT_LOCKS` of old).
    pub locks_max: u64,
}

impl Default for TenantLimits {
    fn default() -> Self {
        Self::new()
    }
}

impl TenantLimits {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            positive_max: u32::MAX,
            negative_max: u32::MAX,
            bytes_max: u64::MAX,
            inodes_max: u64::MAX,
            locks_max: u64::MAX,
        }
    }
}

crate::setters! {
    const TenantLimits {
        positive_max: u32,
        negative_max: u32,
        bytes_max: u64,
        inodes_max: u64,
        locks_max: u64,
    }
}

impl TenantLimits {
    /// Cached names that may be on its LRU list, by [`crate::tenant_lru::Kind`].
    pub(crate) fn names(&self) -> [u32; 2] {
        [self.positive_max, self.negative_max]
    }
}

/// The use and activity of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct TenantStats {
    /// Bytes of files charged.
    pub bytes: u64,
    /// Files charged.
    pub inodes: u64,
    /// Locks charged.
    pub locks: u64,
    /// Tasks that work for it.
    pub tasks: usize,
    /// Cached names that exist, entered by its tasks.
    pub positive: u32,
    /// Cached names that do not exist, entered by its tasks.
    pub negative: u32,
    /// Bytes that these names take in the cache.
    pub cached_bytes: u64,
    /// Names that existed and went to make room.
    pub evicted_positive: u64,
    /// Names that did not exist and went to make room.
    pub evicted_negative: u64,
    /// The activity of its tasks.
    pub activity: Activity,
}

/// A group of tasks with limits of its own. See the module head.
pub struct Tenant {
    limits: TenantLimits,
    /// The `Vfs` it is of.
    vfs: u64,
    lru: Arc<TenantLru>,
    /// Bytes, inodes and locks.
    used: BoundedCounter<3>,
    counts: Mutex<TenantCounts, TenantCountsLock>,
}

impl std::fmt::Debug for Tenant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Tenant");
        out.field("number", &self.number())
            .field("limits", &self.limits);
        out.finish_non_exhaustive()
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        self.lru.leave();
    }
}

impl Tenant {
    pub(crate) fn new(lru: Arc<TenantLru>, vfs: u64, limits: TenantLimits) -> Self {
        Self {
            limits,
            vfs,
            lru,
            used: BoundedCounter::new([limits.bytes_max, limits.inodes_max, limits.locks_max]),
            counts: Mutex::default(),
        }
    }

    /// A number that no other tenant of its `Vfs` has while it lives.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.lru.number()
    }

    /// Whether it is a tenant of the `Vfs` with this number.
    pub(crate) fn is_of(&self, vfs: u64) -> bool {
        self.vfs == vfs
    }

    /// Its account of cached names.
    pub(crate) fn lru(&self) -> &TenantLru {
        &self.lru
    }

    /// What its tasks may use together.
    #[must_use]
    pub fn limits(&self) -> TenantLimits {
        self.limits
    }

    /// Its use and activity so far. Its tasks go on meanwhile: figures of different kinds may
    /// belong to different moments.
    #[must_use]
    pub fn stats(&self) -> TenantStats {
        let account = self.lru.account();
        let (tasks, activity) = self.counts.lock().read();
        let [positive, negative] = account.entries;
        let [evicted_positive, evicted_negative] = account.evicted;
        TenantStats {
            bytes: self.used.used(BYTES),
            inodes: self.used.used(INODES),
            locks: self.used.used(LOCKS),
            tasks,
            positive,
            negative,
            cached_bytes: account.bytes(),
            evicted_positive,
            evicted_negative,
            activity,
        }
    }

    /// Charges bytes of a file to it; a backend does, before it takes them.
    ///
    /// # Errors
    /// `EDQUOT` beyond [`TenantLimits::bytes_max`].
    pub fn charge_bytes(&self, bytes: u64) -> Result<(), Errno> {
        self.charge(BYTES, bytes)
    }

    /// Takes back a charge of bytes.
    pub fn uncharge_bytes(&self, bytes: u64) {
        self.used.give(BYTES, bytes);
    }

    /// Charges one file to it; a backend does, before it makes it.
    ///
    /// # Errors
    /// `EDQUOT` beyond [`TenantLimits::inodes_max`].
    pub fn charge_inode(&self) -> Result<(), Errno> {
        self.charge(INODES, 1)
    }

    /// Takes back the charge of one file.
    pub fn uncharge_inode(&self) {
        self.used.give(INODES, 1);
    }

    /// Charges locks to it.
    ///
    /// # Errors
    /// `ENOLCK` beyond [`TenantLimits::locks_max`].
    pub(crate) fn charge_locks(&self, locks: u64) -> Result<(), Errno> {
        self.charge(LOCKS, locks).map_err(|_| Errno::ENOLCK)
    }

    /// Takes back a charge of locks.
    pub(crate) fn uncharge_locks(&self, locks: u64) {
        self.used.give(LOCKS, locks);
    }

    fn charge(&self, what: usize, more: u64) -> Result<(), Errno> {
        if self.used.take(what, more) {
            Ok(())
        } else {
            Err(Errno::EDQUOT)
        }
    }
}

/// A tenant's handle for one task, kept by the objects that the task makes. See R1.
#[derive(Clone)]
pub struct TenantRef(Arc<Handle>);

/// Shares no line with anything else.
#[repr(align(128))]
struct Handle(Arc<Tenant>);

impl TenantRef {
    /// A handle of its own.
    #[must_use]
    pub fn new(tenant: &Arc<Tenant>) -> Self {
        Self(Arc::new(Handle(Arc::clone(tenant))))
    }

    /// The tenant.
    #[must_use]
    pub fn tenant(&self) -> &Arc<Tenant> {
        &self.0.0
    }
}

impl std::ops::Deref for TenantRef {
    type Target = Tenant;
    fn deref(&self) -> &Tenant {
        self.tenant()
    }
}

impl std::fmt::Debug for TenantRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.tenant().fmt(f)
    }
}

#[cfg(test)]
mod tests;
