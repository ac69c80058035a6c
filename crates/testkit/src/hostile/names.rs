// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attacks the caches with names that do not exist and with paths that are used once. Memory stays
//! within its bound, and another tenant keeps its cached names and, in a full run, its speed.

use std::time::{Duration, Instant};

use openpath_abi::Errno;
use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_RDONLY};
use openpath_sync::Word;
use openpath_vfs::{Limits, MountFlags, Reason, Task, TenantLimits};

use super::context::{Context, Host, median, mib, resident};
use super::incomplete;

/// The limit of the guest's cached names that do not exist.
const NEGATIVE_MAX: u32 = 1 << 16;
/// The limit of cached names that exist.
const POSITIVE_MAX: u32 = 1 << 16;
/// Files that the other tenant opens repeatedly.
const OTHERS: usize = 500;
/// How many calls are timed together.
const BATCH: u32 = 64;
/// How many times are kept: few, so that the measurement adds little to the measured memory.
const TIMES: usize = 1 << 14;

/// Times evenly spaced over a whole run, at most [`TIMES`].
struct Times {
    kept: Vec<Duration>,
    /// One batch out of this many is kept.
    stride: u64,
    batches: u64,
}

impl Times {
    fn new() -> Times {
        Times {
            kept: Vec::with_capacity(TIMES),
            stride: 1,
            batches: 0,
        }
    }

    /// When it is full, every second time is dropped and the stride doubles.
    fn add(&mut self, time: Duration) {
        if self.batches.is_multiple_of(self.stride) {
            if self.kept.len() == TIMES {
                let mut nth = 0;
                self.kept.retain(|_| {
                    nth += 1;
                    nth % 2 == 1
                });
                self.stride *= 2;
            }
            self.kept.push(time);
        }
        self.batches += 1;
    }
}

/// The results of the other tenant.
struct Seen {
    calls: u64,
    /// Names that were no longer cached.
    misses: u64,
    times: Times,
}

impl Seen {
    fn hit_rate(&self) -> f64 {
        1.0 - self.misses as f64 / self.calls.max(1) as f64
    }
}

/// Opens its files until told to stop, and times the calls.
fn other_tenant(task: &Task, dir: &str, files: usize, over: &Word) -> Result<Seen, Errno> {
    let paths: Vec<String> = (0..files).map(|n| format!("{dir}/{n}")).collect();
    let mut seen = Seen {
        calls: 0,
        misses: 0,
        times: Times::new(),
    };
    let mut next = paths.iter().cycle();
    let misses = task.reasons().of(Reason::Miss);
    while over.get() == 0 {
        let begun = Instant::now();
        for _ in 0..BATCH {
            let path = next.next().map_or("", String::as_str);
            task.close(task.open(path.as_bytes(), O_RDONLY, 0)?)?;
        }
        seen.times.add(begun.elapsed() / BATCH);
        seen.calls += u64::from(BATCH);
    }
    seen.misses = task.reasons().of(Reason::Miss) - misses;
    Ok(seen)
}

/// Runs `work` beside the other tenant; returns the other tenant's results.
fn beside<T>(
    other: &Task,
    dir: &str,
    files: usize,
    work: impl FnOnce() -> Result<T, Errno>,
) -> Result<(T, Seen), Errno> {
    let over = Word::new(0);
    let other = other.fork()?;
    std::thread::scope(|scope| {
        let over = &over;
        let thread = scope.spawn(move || {
            let other = other;
            other_tenant(&other, dir, files, over)
        });
        let done = work();
        over.set(1);
        let seen = thread.join().unwrap_or(Err(Errno::EIO))?;
        Ok((done?, seen))
    })
}

fn host() -> Result<Host, Errno> {
    let limits = TenantLimits::default()
        .negative_max(NEGATIVE_MAX)
        .positive_max(POSITIVE_MAX);
    let host = Host::new(Limits::default(), limits)?;
    for dir in [&b"/mine"[..], b"/theirs", b"/incomplete"] {
        host.task.mkdirat(AT_FDCWD, dir, 0o777)?;
    }
    host.task
        .mount(incomplete::tree(), b"/incomplete", MountFlags::default())?;
    for n in 0..OTHERS {
        let path = format!("/theirs/{n}");
        let fd = host.task.open(path.as_bytes(), O_CREAT, 0o644)?;
        host.task.close(fd)?;
    }
    Ok(host)
}

/// Looks up that many different names in a directory. Returns the memory when the budget has been
/// used twice, and at the end.
fn flood(f: &mut Context, host: &Host, dir: &str, names: u64) -> Result<[u64; 2], Errno> {
    use std::io::Write;
    let settled = 2 * u64::from(NEGATIVE_MAX);
    let mut first = 0;
    let mut path = Vec::new();
    let salt = f.rng.bits();
    for n in 0..names.max(settled + 1) {
        if n == settled {
            first = resident();
        }
        path.clear();
        let _ = write!(path, "{dir}/{salt:016x}{n:x}");
        match host.guest.stat(&path) {
            Err(Errno::ENOENT) => {}
            other => {
                f.wrong(format!("a missing name: {other:?}"));
                break;
            }
        }
    }
    Ok([first, resident()])
}

/// Floods a directory of the guest's own, in a tree with complete directories and in one without.
pub(super) fn failing(f: &mut Context) -> Result<(), Errno> {
    for dir in ["/mine", "/incomplete"] {
        attack(f, dir, "/theirs", OTHERS)?;
    }
    Ok(())
}

/// Floods the directory whose files the other tenant opens.
pub(super) fn failing_beside_others(f: &mut Context) -> Result<(), Errno> {
    attack(f, "/theirs", "/theirs", OTHERS)?;
    attack(f, "/incomplete", "/incomplete", incomplete::FILES)
}

fn attack(f: &mut Context, dir: &str, others: &str, files: usize) -> Result<(), Errno> {
    let host = host()?;
    let names = f.plan.names / 4;
    let quiet_time = Duration::from_millis(if f.plan.full { 5000 } else { 300 });
    let quiet = || {
        std::thread::sleep(quiet_time);
        Ok(())
    };
    // A first run without measurement, to cache everything.
    beside(&host.task, others, files, quiet)?;
    let ((), mut before) = beside(&host.task, others, files, quiet)?;
    let start = host.vfs.usage().dentries;
    let begun = Instant::now();
    let ([first, last], mut during) =
        beside(&host.task, others, files, || flood(f, &host, dir, names))?;
    let taken = begun.elapsed();
    let entries = host.vfs.usage().dentries.saturating_sub(start);
    let [quiet, busy] = [&mut before, &mut during].map(|seen| median(&mut seen.times.kept));
    f.say(&format!(
        "{names} names in {dir} in {taken:?}: {entries} entries more, {} MiB early, {} at the end",
        mib(first),
        mib(last)
    ));
    f.say(&format!(
        "the other tenant in {others}: hit rate {:.6} before, {:.6} during; median open and close \
         {quiet:?} before, {busy:?} during",
        before.hit_rate(),
        during.hit_rate()
    ));
    let most = NEGATIVE_MAX + NEGATIVE_MAX / 20;
    f.must(entries <= most, || {
        format!("{dir}: {entries} entries of {NEGATIVE_MAX}")
    });
    f.must(last <= first + first / 20 + (4 << 20), || {
        format!("{dir}: {} MiB, then {}", mib(first), mib(last))
    });
    // A lock-free lookup may miss while the table grows, and then succeeds by the locked path.
    f.must(during.misses <= during.calls / 100_000 + 1, || {
        format!("{dir}: the other tenant lost {} names", during.misses)
    });
    // Times on a busy machine mean little; a scaled-down run only reports the factor.
    f.must(!f.plan.full || busy < quiet * 2, || {
        format!("{dir}: the other tenant's median went from {quiet:?} to {busy:?}")
    });
    Ok(())
}

/// Walks existing paths, each once: the path cache stays bounded.
pub(super) fn long_paths(f: &mut Context) -> Result<(), Errno> {
    let limits = Limits::default().path_cache_entries(1 << 14);
    let host = Host::new(limits, TenantLimits::default())?;
    let mut dir = String::new();
    for _ in 0..8 {
        dir.push_str("/d");
        host.guest.mkdirat(AT_FDCWD, dir.as_bytes(), 0o755)?;
    }
    let before = resident();
    let paths = f.size(20_000_000);
    for n in 0..paths {
        // The same file by a different path each time: 2^40 of them.
        let mut path = String::new();
        for bit in 0..40 {
            path.push_str(if n >> bit & 1 == 0 { "/." } else { "//." });
        }
        path.push_str(&dir);
        host.guest.stat(path.as_bytes())?;
    }
    let grown = resident().saturating_sub(before);
    f.say(&format!(
        "{paths} paths to one directory: {} MiB",
        mib(grown)
    ));
    f.must(grown < 16 << 20, || format!("{} MiB for paths", mib(grown)));
    Ok(())
}
