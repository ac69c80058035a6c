// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that do not exist, one after the other, and paths that nobody asks for twice.

use std::time::{Duration, Instant};

use openpath_abi::Errno;
use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_RDONLY};
use openpath_sync::Word;
use openpath_vfs::{Limits, MountFlags, Reason, Task, TenantLimits};

use super::blind;
use super::field::{Field, Host, median, mib, resident};

/// Names that do not exist which the guest may have in the cache.
const NEGATIVE_MAX: u32 = 1 << 16;
/// Names that exist.
const POSITIVE_MAX: u32 = 1 << 16;
/// Files that the other tenant opens, over and over.
const OTHERS: usize = 500;
/// Calls that are timed together.
const BATCH: u32 = 64;
/// Times that are kept: few, so that the measure takes no part in the memory that is measured.
const TIMES: usize = 1 << 14;

/// Times from the whole of a run, evenly spaced, and never more than [`TIMES`] of them.
struct Times {
    kept: Vec<Duration>,
    /// One batch of so many is kept.
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

    /// When there is no room, every second time goes, and half as many come from then on.
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

/// What the other tenant saw.
struct Seen {
    calls: u64,
    /// Names that were not cached any more.
    misses: u64,
    times: Times,
}

impl Seen {
    fn hit_rate(&self) -> f64 {
        1.0 - self.misses as f64 / self.calls.max(1) as f64
    }
}

/// Opens its files until told otherwise, timing as it goes.
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

/// Runs `work` beside the other tenant; what that one saw.
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
    let limits = TenantLimits {
        negative_max: NEGATIVE_MAX,
        positive_max: POSITIVE_MAX,
        ..TenantLimits::default()
    };
    let host = Host::new(Limits::default(), limits)?;
    for dir in [&b"/mine"[..], b"/theirs", b"/blind"] {
        host.task.mkdirat(AT_FDCWD, dir, 0o777)?;
    }
    host.task
        .mount(blind::tree(), b"/blind", MountFlags::default())?;
    for n in 0..OTHERS {
        let path = format!("/theirs/{n}");
        let fd = host.task.open(path.as_bytes(), O_CREAT, 0o644)?;
        host.task.close(fd)?;
    }
    Ok(host)
}

/// Asks for that many names in a directory, none of them twice; the memory of the first, when the
/// budget has been used twice, and of the last.
fn flood(f: &mut Field, host: &Host, dir: &str, names: u64) -> Result<[u64; 2], Errno> {
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
                f.wrong(format!("a name that is not there: {other:?}"));
                break;
            }
        }
    }
    Ok([first, resident()])
}

/// In a directory of its own, of a tree that vouches for what is not there and of one that does
/// not.
pub(super) fn failing(f: &mut Field) -> Result<(), Errno> {
    for dir in ["/mine", "/blind"] {
        attack(f, dir, "/theirs", OTHERS)?;
    }
    Ok(())
}

/// In the directory whose files the other tenant opens.
pub(super) fn failing_beside_others(f: &mut Field) -> Result<(), Errno> {
    attack(f, "/theirs", "/theirs", OTHERS)?;
    attack(f, "/blind", "/blind", blind::FILES)
}

fn attack(f: &mut Field, dir: &str, others: &str, files: usize) -> Result<(), Errno> {
    let host = host()?;
    let names = f.plan.names / 4;
    let quiet_time = Duration::from_millis(if f.plan.full { 5000 } else { 300 });
    let quiet = || {
        std::thread::sleep(quiet_time);
        Ok(())
    };
    // Once unseen, to have everything cached.
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
    // A walk may miss what is there while the table grows, and finds it by the other way.
    f.must(during.misses <= during.calls / 100_000 + 1, || {
        format!("{dir}: the other tenant lost {} names", during.misses)
    });
    // A busy machine makes times worthless; a factor is left to be seen.
    f.must(!f.plan.full || busy < quiet * 2, || {
        format!("{dir}: the other tenant's median went from {quiet:?} to {busy:?}")
    });
    Ok(())
}

/// Paths that exist, of which none is asked for twice: what answers whole paths stays bounded.
pub(super) fn long_paths(f: &mut Field) -> Result<(), Errno> {
    let limits = Limits {
        path_cache_entries: 1 << 14,
        ..Limits::default()
    };
    let host = Host::new(limits, TenantLimits::default())?;
    let mut dir = String::new();
    for _ in 0..8 {
        dir.push_str("/d");
        host.guest.mkdirat(AT_FDCWD, dir.as_bytes(), 0o755)?;
    }
    let before = resident();
    let paths = f.size(20_000_000);
    for n in 0..paths {
        // The same file by another path each time: 2^40 of them.
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
