// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives attacks their sizes and random numbers ([`Plan`], [`Rng`]), the report of each
//! ([`Report`]), and trees in which guests are confined to one directory ([`Jail`]).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use openpath_abi::Errno;
use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_RDONLY, O_WRONLY};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Limits, SuperBlock, Task, Tenant, TenantLimits, Tuning, Vfs};
use openpath_wasi::{GuestLimits, OpenpathWasi};

use super::scripted_guest::{Compiled, ScriptedGuest};

/// The size of an attack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Walks of one guest while another moves directories.
    pub(super) walks: u64,
    /// Whether sizes are those of the promise, and other guests' latency is checked; a hundredth
    /// otherwise.
    pub(super) full: bool,
    /// The seed of all random choices.
    pub(super) seed: u64,
}

/// Random numbers from a seed (xorshift).
pub(super) struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * limit as u128) >> 64) as usize
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Resident memory of this process.
pub(super) fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// The median of some times.
pub(super) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Evicts everything unused, and returns memory to the system.
pub(super) fn settle(vfs: &Vfs) {
    loop {
        vfs.collect();
        if vfs.shrink(u32::MAX) == 0 {
            break;
        }
    }
    vfs.trim(Duration::from_secs(10));
}

/// Why an attack could not continue.
#[derive(Debug)]
pub(super) struct Failed(String);

impl Failed {
    pub(super) fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string())
    }

    pub(super) fn engine(why: wasmtime::Error) -> Self {
        Self(format!("{why:#}"))
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Self {
        Self(errno.to_string())
    }
}

/// The report of one attack.
pub(super) struct Report {
    pub(super) plan: Plan,
    pub(super) rng: Rng,
    name: &'static str,
    pub(super) found: Vec<String>,
}

impl Report {
    pub(super) fn new(plan: Plan, name: &'static str) -> Self {
        Self {
            plan,
            rng: Rng::new(plan.seed),
            name,
            found: Vec::new(),
        }
    }

    /// Prints a line of the report.
    pub(super) fn say(&self, text: &str) {
        println!("{}: {text}", self.name);
    }

    /// Notes a failure.
    pub(super) fn wrong(&mut self, text: String) {
        self.say(&format!("WRONG: {text}"));
        self.found.push(format!("{}: {text}", self.name));
    }

    /// Notes the failure `what` unless the condition holds.
    pub(super) fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.wrong(what());
        }
    }

    /// This number, or a hundredth of it.
    pub(super) fn size(&self, full: u64) -> u64 {
        if self.plan.full { full } else { full / 100 }
    }
}

/// The content of the file outside.
pub(super) const SECRET: &[u8] = b"not for guests";
/// The directory that guests are confined to.
pub(super) const JAIL: &[u8] = b"/jail";

/// A tree in which guests are confined to `/jail`, with files beside it.
pub(super) struct Jail {
    pub(super) vfs: Vfs,
    /// An unconfined task.
    pub(super) host: Task,
    stage: Compiled,
}

impl Jail {
    /// A jail in a tree in memory.
    pub(super) fn in_memory(limits: Limits) -> Result<Self, Failed> {
        let tree = MemFs::new(MemOptions::default());
        Self::over(tree, limits)
    }

    /// The same, with other tuning.
    pub(super) fn tuned(limits: Limits, tuning: Tuning) -> Result<Self, Failed> {
        let tree = MemFs::new(MemOptions::default());
        Self::build(Vfs::builder().limits(limits).tuning(tuning).build(tree)?)
    }

    /// A jail in any empty tree.
    pub(super) fn over(tree: Arc<SuperBlock>, limits: Limits) -> Result<Self, Failed> {
        Self::build(Vfs::builder().limits(limits).build(tree)?)
    }

    fn build(vfs: Vfs) -> Result<Self, Failed> {
        let host = vfs.task(Cred::root())?;
        host.umask(0);
        for dir in [
            JAIL,
            b"/jail/in",
            b"/jail/in/deep",
            b"/outside",
            b"/outside/sub",
        ] {
            host.mkdirat(AT_FDCWD, dir, 0o777)?;
        }
        for file in [&b"/secret"[..], b"/outside/secret", b"/outside/sub/secret"] {
            fill(&host, file, SECRET)?;
        }
        fill(&host, b"/jail/mine", b"mine")?;
        let stage = Compiled::new()?;
        Ok(Self { vfs, host, stage })
    }

    /// Restores what a guest may have removed from its own directory.
    pub(super) fn restore(&self) -> Result<(), Failed> {
        for dir in [&b"/jail/in"[..], b"/jail/in/deep"] {
            match self.host.mkdirat(AT_FDCWD, dir, 0o777) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let _ = self.host.unlink(b"/jail/mine");
        let _ = self.host.rmdir(b"/jail/mine");
        Ok(fill(&self.host, b"/jail/mine", b"mine")?)
    }

    /// A tenant for some of the guests.
    pub(super) fn tenant(&self, limits: TenantLimits) -> Arc<Tenant> {
        self.vfs.tenant(limits)
    }

    /// A guest with `/jail` preopened as descriptor 3.
    pub(super) fn guest(&self, tenant: Option<&Arc<Tenant>>) -> Result<ScriptedGuest, Failed> {
        let task = self.vfs.task(Cred::root())?;
        if let Some(tenant) = tenant {
            task.set_tenant(tenant).expect("a tenant of this Vfs");
        }
        self.guest_of(task)
    }

    /// A guest that acts as `task`.
    pub(super) fn guest_of(&self, task: Task) -> Result<ScriptedGuest, Failed> {
        let guest = OpenpathWasi::builder()
            .task(task)
            .preopen("/", JAIL)
            .limits(GuestLimits::default().wait(Duration::from_millis(1)))
            .build()
            .map_err(Failed::new)?;
        self.stage.instantiate(guest)
    }
}

/// Creates a file with this content.
pub(super) fn fill(task: &Task, path: &[u8], bytes: &[u8]) -> Result<(), Errno> {
    let fd = task.open(path, O_CREAT | O_WRONLY, 0o666)?;
    task.write(fd, bytes)?;
    task.close(fd)
}

/// The content of a file.
pub(super) fn content(task: &Task, path: &[u8]) -> Result<Vec<u8>, Errno> {
    let fd = task.open(path, O_RDONLY, 0)?;
    let mut bytes = vec![0; 256];
    let len = task.read(fd, &mut bytes);
    task.close(fd)?;
    bytes.truncate(len?);
    Ok(bytes)
}
