// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives an attack its `Vfs` and its hostile guest, records the bounds that did not hold, and
//! measures memory.

use std::sync::Arc;
use std::time::Duration;

use openpath_abi::Errno;
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Limits, Sysctl, Task, Tenant, TenantLimits, Usage, Vfs};

use crate::rng::Rng;

/// The size of the attacks.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many names that do not exist.
    pub names: u64,
    /// Use the promised sizes (a million entries, a million levels) instead of a hundredth.
    pub full: bool,
    /// Seed of all random choices.
    pub seed: u64,
    /// Run only attacks with this in their name.
    pub only: Option<String>,
    /// Receives each line of the report.
    pub say: fn(&str),
}

/// The context of one attack.
pub(super) struct Context<'p> {
    pub(super) plan: &'p Plan,
    pub(super) rng: Rng,
    name: &'static str,
    pub(super) found: Vec<String>,
}

impl<'p> Context<'p> {
    pub(super) fn new(plan: &'p Plan, name: &'static str) -> Self {
        Self {
            plan,
            rng: Rng::new(plan.seed),
            name,
            found: Vec::new(),
        }
    }

    /// Prints a line of the report.
    pub(super) fn say(&self, text: &str) {
        (self.plan.say)(&format!("  {text}"));
    }

    /// Records a bound that did not hold.
    pub(super) fn wrong(&mut self, text: String) {
        (self.plan.say)(&format!("  WRONG: {text}"));
        self.found.push(format!("{}: {text}", self.name));
    }

    /// Records `what` unless `holds`.
    pub(super) fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong(what());
        }
    }

    /// Records a fault unless a call failed with `errno`.
    pub(super) fn refused<T>(&mut self, what: &str, done: Result<T, Errno>, errno: Errno) {
        let got = done.err();
        self.must(got == Some(errno), || {
            let got = got.map_or("success", Errno::name);
            format!("{what}: {got} in place of {errno}")
        });
    }

    /// Records pins that are held now and were not `before`.
    pub(super) fn pins_are(&mut self, host: &Host, before: Usage) {
        host.settle();
        let after = host.vfs.usage();
        self.must(after.pins == before.pins, || {
            format!("{before:?} before, {after:?} after")
        });
    }

    /// This size, or a hundredth of it.
    pub(super) fn size(&self, full: u64) -> u64 {
        if self.plan.full { full } else { full / 100 }
    }
}

/// An instance with a tree, and a guest in it with a tenant of its own.
pub(super) struct Host {
    pub(super) vfs: Vfs,
    /// The host's own task.
    pub(super) task: Task,
    pub(super) guest: Task,
    pub(super) tenant: Arc<Tenant>,
}

impl Host {
    /// # Errors
    /// Those of building the instance.
    pub(super) fn new(limits: Limits, tenant: TenantLimits) -> Result<Self, Errno> {
        Self::with(limits, Sysctl::default(), tenant)
    }

    /// # Errors
    /// Those of building the instance.
    pub(super) fn with(
        limits: Limits,
        sysctl: Sysctl,
        tenant: TenantLimits,
    ) -> Result<Self, Errno> {
        let tree = MemFs::new(MemOptions::default().mode(0o755));
        let vfs = Vfs::builder().limits(limits).sysctl(sysctl).build(tree)?;
        let task = vfs.task(Cred::root())?;
        let guest = task.fork()?;
        let tenant = vfs.tenant(tenant);
        guest.set_tenant(&tenant).expect("a tenant of this Vfs");
        Ok(Self {
            vfs,
            task,
            guest,
            tenant,
        })
    }

    /// Evicts what is unused, and returns memory to the system.
    pub(super) fn settle(&self) {
        settle(&self.vfs);
    }
}

/// Evicts what is unused, and returns memory to the system.
pub(super) fn settle(vfs: &Vfs) {
    loop {
        vfs.collect();
        if vfs.shrink(u32::MAX) == 0 {
            break;
        }
    }
    vfs.trim(Duration::from_secs(10));
}

/// Returns memory that the allocator holds.
pub(super) fn settle_heap() {
    openpath_sync::trim_heap();
}

/// Bytes as whole mebibytes.
pub(super) fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

/// A field of this process's status, in bytes.
fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix(field));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Resident memory of this process.
pub(crate) fn resident() -> u64 {
    status("VmRSS:")
}

/// The peak of resident memory since the last reset.
pub(super) mod high_water {
    /// Resets the peak; where that is not allowed, it stays the peak since the start.
    pub(crate) fn reset() {
        let _ = std::fs::write("/proc/self/clear_refs", "5");
    }

    pub(crate) fn read() -> u64 {
        super::status("VmHWM:")
    }
}

/// The median of some times.
pub(super) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
