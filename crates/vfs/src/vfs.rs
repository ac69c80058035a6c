// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds a `Vfs` from settings, and implements the calls on it as a whole: making tasks and
//! tenants, freeing memory, and reports of use.

use crate::clock::{Clock, Entropy, Secrets, SystemClock, SystemEntropy};
use crate::config::{Config, Limits, Profile, Sysctl, Tuning};
use crate::cred::Cred;
use crate::dcache::{Dcache, Flights};
use crate::device::{DeviceKind, DeviceOps, Devices, Driver};
use crate::instance::{Shared, Vfs};
use crate::lock::Locks;
use crate::mount::{Mounts, Numbers, SUPERBLOCKS_MAX, rootfs};
use crate::notify::Notify;
use crate::path_cache::PathCache;
use crate::pressure::{Pressure, PressureHook};
use crate::superblock::SuperBlock;
use crate::task::Task;
use crate::tenant::{Tenant, TenantLimits};
use crate::weak_list::{remember, sweep};
use openpath_abi::Errno;
use openpath_sync::rcu::{self, Stalled};
use openpath_sync::{Census, HashKey, Life, Mutex, PinSet, Store, Word, WriteOnce};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};
use std::time::Duration;

impl Vfs {
    /// A builder with Linux 6.18's rules, the system's clock and default limits.
    #[must_use]
    pub fn builder() -> VfsBuilder {
        VfsBuilder {
            config: Config::default(),
            clock: Box::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            drivers: Vec::new(),
            secret: None,
            root_tenant: TenantLimits::default(),
            told: None,
        }
    }

    /// A new task in the initial namespace: root and working directory `/`, umask 022.
    ///
    /// # Errors
    /// `ENOMEM` when there are no pins left ([`Limits::pins_max`]).
    pub fn task(&self, cred: Cred) -> Result<Task, Errno> {
        Task::new(Arc::clone(&self.0), cred)
    }

    /// A new tenant: give it tasks with [`Task::set_tenant`].
    #[must_use]
    pub fn tenant(&self, limits: TenantLimits) -> Arc<Tenant> {
        let tenant = Arc::new(Tenant::new(
            self.0.dcache.open_lru(limits.names()),
            self.0.id,
            limits,
        ));
        remember(&mut self.0.tenants.lock(), Arc::downgrade(&tenant));
        tenant
    }

    /// All tenants that are still held, in the order they came; the root tenant is the first.
    #[must_use]
    pub fn tenants(&self) -> Vec<Arc<Tenant>> {
        let tenants = self.0.tenants.lock();
        tenants.iter().filter_map(Weak::upgrade).collect()
    }

    /// The tenant of tasks that are given no other.
    #[must_use]
    pub fn root_tenant(&self) -> Arc<Tenant> {
        Arc::clone(&self.0.tenant)
    }

    /// Names cached, unlinked entries that wait for their last user, and pins held.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let store = &self.0.dcache.store;
        let (dentries, mounts) = store.in_use();
        Usage {
            dentries,
            mounts,
            pending_free: self.0.dcache.pending_free(),
            pins: store.pins_held(),
        }
    }

    /// Reclaims every unused unlinked entry now.
    pub fn collect(&self) {
        // A directory can go only after its entries.
        let mut before = usize::MAX;
        while self.0.dcache.pending_free() < before {
            before = self.0.dcache.pending_free();
            self.0.dcache.collect();
        }
    }

    /// Gives memory of formerly cached names back to the system, after waiting `timeout` for
    /// walks under way; how many names' worth. Unused memory of the system's allocator goes back as
    /// well, inodes and lists of names among it. That may take some milliseconds for each 100 MB.
    pub fn trim(&self, timeout: Duration) -> u32 {
        self.0.dcache.collect();
        self.0.dcache.sweep_lrus();
        sweep(&mut self.0.tenants.lock());
        self.0.locks.sweep();
        if !rcu::synchronize_within(timeout) {
            return 0;
        }
        let names = self.0.dcache.trim();
        for tree in self.0.trees() {
            // A backend's own memory is its own affair.
            let _ = tree.shielded(|ops| {
                ops.trim();
                Ok(())
            });
        }
        openpath_sync::trim_heap();
        names
    }

    /// The walks that have been in one lock-free section for longer than `older_than`, by task.
    ///
    /// Such a walk delays nothing but [`Vfs::trim`]: names it looks at may be reused, and it will
    /// notice. The list is of the whole process.
    #[must_use]
    pub fn stalled_walks(older_than: Duration) -> Vec<Stalled> {
        rcu::stalled(older_than)
    }

    /// Evicts about `goal` unused cached names, from the tenants that have most; how many went.
    pub fn shrink(&self, goal: u32) -> usize {
        self.0.dcache.shrink(goal)
    }

    /// Statistics of the table of cached names, from every bucket of it.
    #[must_use]
    pub fn census(&self) -> Census {
        self.0.dcache.census()
    }

    /// A line for each cached name, for tests that look for one that should not be there.
    #[doc(hidden)]
    #[must_use]
    pub fn inventory(&self) -> Vec<String> {
        self.0.dcache.inventory()
    }

    /// The address ranges that a cached call must not write, with their names, for tests that
    /// write-protect them.
    #[doc(hidden)]
    #[must_use]
    pub fn shared_spans(&self) -> Vec<(&'static str, (usize, usize))> {
        let [entries, notes] = self.0.paths.spans();
        let mut spans = self.0.dcache.spans();
        spans.extend([("path-cache", entries), ("path-notes", notes)]);
        spans.push(("mount-table", self.0.mounts.span()));
        spans
    }
}

/// The present use of a `Vfs`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Usage {
    /// Cached names, negative and unlinked ones included.
    pub dentries: u32,
    /// Mounts.
    pub mounts: u32,
    /// Unlinked entries that wait to be reclaimed.
    pub pending_free: usize,
    /// Pins held: two for each task, one for each open file, one or two for each mount.
    pub pins: usize,
}

/// Builds a [`Vfs`].
pub struct VfsBuilder {
    config: Config,
    clock: Box<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    drivers: Vec<Driver>,
    secret: Option<[u64; 2]>,
    root_tenant: TenantLimits,
    told: Option<PressureHook>,
}

impl fmt::Debug for VfsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VfsBuilder")
            .field("config", &self.config)
            .field("root_tenant", &self.root_tenant)
            .finish_non_exhaustive()
    }
}

impl VfsBuilder {
    /// Emulates this kernel version.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.config.profile = profile;
        self
    }
    /// Stamps files with this clock.
    #[must_use]
    pub fn clock(mut self, clock: Box<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
    /// Fills the random devices from this.
    #[must_use]
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.entropy = entropy;
        self
    }
    /// Puts a driver behind the device numbers with this major number and these minor ones, in
    /// place of any earlier one. Built in are null (1, 3), zero (1, 5), full (1, 7), random
    /// (1, 8) and urandom (1, 9). Linux: `cdev_add`.
    ///
    /// `openpath_mem` has an example that runs.
    #[must_use]
    pub fn device(
        mut self,
        kind: DeviceKind,
        major: u32,
        minors: RangeInclusive<u32>,
        ops: Arc<dyn DeviceOps>,
    ) -> Self {
        self.drivers.push(Driver {
            kind,
            major,
            minors,
            ops,
        });
        self
    }
    /// Keys the hash tables with this secret instead of a random one.
    #[must_use]
    pub fn secret(mut self, secret: [u64; 2]) -> Self {
        self.secret = Some(secret);
        self
    }
    /// Bounds what it may use.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.config.limits = limits;
        self
    }
    /// Bounds what tasks without a tenant of their own may use ([`Vfs::root_tenant`]).
    #[must_use]
    pub fn root_tenant(mut self, limits: TenantLimits) -> Self {
        self.root_tenant = limits;
        self
    }
    /// Sets the system controls the walk obeys.
    #[must_use]
    pub fn sysctl(mut self, sysctl: Sysctl) -> Self {
        self.config.sysctl = sysctl;
        self
    }
    /// Sets the switches.
    #[must_use]
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        self.config.tuning = tuning;
        self
    }

    /// Calls `told` at each [`Vfs::pressure`], after names were given up: for caches of backends
    /// and of the host. It runs in the caller's thread, with no lock held.
    #[must_use]
    pub fn on_pressure(mut self, told: impl Fn(Pressure) + Send + Sync + 'static) -> Self {
        self.told = Some(Box::new(told));
        self
    }

    /// Builds it, with `root` mounted at `/`.
    ///
    /// # Errors
    /// `EBUSY` if `root` is used by another `Vfs`; `ENOMEM` if the system refuses address space.
    pub fn build(self, root: Arc<SuperBlock>) -> Result<Vfs, Errno> {
        let limits = self.config.limits;
        let store = Store::new(limits.mounts_max, limits.dentries_max, limits.pins_max)
            .map_err(|_| Errno::ENOMEM)?;
        let id = store.id();
        let store = Arc::new(store);
        let secrets = Secrets::new(self.secret);
        let key = HashKey::new(secrets.next());
        let dcache = Dcache::new(
            Arc::clone(&store),
            limits.dentries_max,
            limits.negatives_max,
            SUPERBLOCKS_MAX,
            secrets,
            self.config.tuning.complete_directories,
        )?;
        let mounts = Mounts::new(&dcache, limits.mounts_max, Secrets::new(self.secret))?;
        let mount_pins = PinSet::new(store).ok_or(Errno::ENOMEM)?;
        let tenant = Arc::new(Tenant::new(
            dcache.open_lru(self.root_tenant.names()),
            id,
            self.root_tenant,
        ));
        let mut shared = Shared {
            config: self.config,
            dcache,
            mounts,
            paths: PathCache::new(
                limits.path_cache_entries,
                self.config.tuning.path_cache,
                key,
            )?,
            flights: Flights::default(),
            renames: Life::default(),
            clock: self.clock,
            superblocks: Mutex::new(Numbers::default()),
            mount_pins: Mutex::new(mount_pins),
            initial: 0,
            anonymous: WriteOnce::default(),
            pipe_mount: WriteOnce::default(),
            pipes: Arc::default(),
            next_pipe: Word::new(2),
            devices: Devices::new(self.entropy, self.drivers),
            locks: Locks::new(self.config.profile),
            notices: Arc::default(),
            files: Word::new(0),
            next_cred: Word::new(1),
            tenant: Arc::clone(&tenant),
            tenants: Mutex::new(vec![Arc::downgrade(&tenant)]),
            told: self.told,
            notify: Notify::default(),
            id,
            weak_self: WriteOnce::default(),
        };
        let lowest = rootfs(shared.clock.now());
        shared.initial = shared.first_namespace(&lowest, &root)?;
        let shared = Arc::new(shared);
        let weak = shared.weak_self.set(Arc::downgrade(&shared));
        for tree in shared.trees() {
            if let Some(binding) = &mut *tree.binding.lock() {
                binding.owner = weak.clone();
            }
        }
        Ok(Vfs(shared))
    }
}
