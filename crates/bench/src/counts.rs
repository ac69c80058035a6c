// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `counts`: the cost of one warm operation, counted and not timed.
//!
//! * allocations: by [`sys::CountingAlloc`], in this process;
//! * instructions: callgrind over N and 2N operations, the difference divided by N;
//! * locked read-modify-writes: by single steps, from each instruction, in this process;
//! * shared stores: the operations run while the shared memory is read-only;
//! * memory: by the growth of the resident set.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Command;

use crate::bars::{self, Bar};
use crate::cmd::Common;
use crate::common::*;
use crate::gate::Plant;
use crate::gate::case::Case;
use crate::host;
use crate::one::One;
use crate::watch::sys::count_locked;

/// Rows beyond the contract: the count, its operations and their circumstances.
const EXTRA: &str = "\
allocations | WARM | d1, d16, symlink d5, mount d5
allocations | denied-open | d5
allocations | open-close | shared-table d1
instructions | failed-open, open-close | d5
instructions | open-close | shared-table d1, shared-table d16
instructions | dup-close | d1, shared-table d1
instructions | creat-existing, creat-read-only | d1
instructions | stat | d1, d5, d16
instructions | failed-open, open-close | mounts d2, mounts d5, nested d2
locked | WARM | d1
locked | open-close | d16, shared-table d1
locked | dup-close | shared-table d1
shared-stores | open-close, dup-close | shared-table d1
shared-stores | open-close, stat, dup-close | root d2
shared-stores | WARM | d1, d16, symlink d5, dirlink d5, dotdot d5, mount d5, mounts d5, nested d5, \
mount-up d5, relative-mount d5, namespace d5, barred d5, user d5";
/// The operations that must be free once everything is cached.
const WARM: &str = "failed-open, open-close, creat-existing, creat-read-only, stat, lstat, statx, \
    dup-close";
const CALLGRIND_OPS: u64 = 50 * PATHS as u64;
const STEP_OPS: u64 = 16;
const SEALED_OPS: u64 = 100_000;
/// The row of memory: files of the tree, and of each directory.
const BYTES: &str = "bytes-per-dentry";
const FILES: usize = 1_000_000;
const IN_ONE_DIR: usize = 1000;

pub(crate) fn run(options: &Common) -> Result<Vec<Row>, Error> {
    let wanted = names().into_iter().filter(|name| options.wants(name));
    wanted.map(|name| row(&name, options.plant)).collect()
}

/// Every row: the contract's, then the others.
fn names() -> Vec<String> {
    let mut names: Vec<String> = bars::COUNTS.iter().flat_map(Bar::names).collect();
    for line in EXTRA.replace("WARM", WARM).lines() {
        let mut parts = line.split(" | ");
        let [what, ops, hows] = [(); 3].map(|()| parts.next().unwrap_or_default());
        for op in ops.split(", ") {
            let all = hows.split(", ").map(|how| format!("{what} {op} {how}"));
            let new: Vec<String> = all.filter(|name| !names.contains(name)).collect();
            names.extend(new);
        }
    }
    names
}

fn row(name: &str, plant: Option<Plant>) -> Result<Row, Error> {
    let (what, text) = name.split_once(' ').unwrap_or((name, ""));
    let one = || Case::parse(text).map(|case| One { case, plant });
    match what {
        BYTES => bytes(),
        "allocations" => allocations(name, one()?),
        "instructions" => instructions(name, text, plant),
        "locked" => locked(name, one()?),
        "shared-stores" => Ok(match one()?.sealed(SEALED_OPS)? {
            None => Row::count(name, "seen", 0.0),
            Some(report) => Row::count(name, "seen", 1.0).with_note(&first_store(&report)),
        }),
        _ => Ok(Row::missing(name, "nothing measures it")),
    }
}

fn allocations(name: &str, one: One) -> Result<Row, Error> {
    let before = sys::allocations();
    drop(std::hint::black_box(Box::new(1)));
    if sys::allocations() == before {
        return Ok(Row::missing(name, "this binary's allocator does not count"));
    }
    let ops = 10 * PATHS as u64;
    let count = one.warm(|burst| {
        let before = sys::allocations();
        let wrong = burst(ops);
        let count = sys::allocations() - before;
        one.case.right(wrong).map(|()| count)
    })?;
    Ok(Row::count(name, "per op", count as f64 / ops as f64))
}

/// Counts in processes of this program that only do `case`.
fn instructions(name: &str, case: &str, plant: Option<Plant>) -> Result<Row, Error> {
    let exe = std::env::current_exe().host("find this program")?;
    let collect = |ops: u64| -> Result<Option<u64>, Error> {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        command
            .arg(&exe)
            .args(["one", case, &format!("--ops={ops}")]);
        command.args(plant.map(|plant| format!("--plant={}", name_of(&plant))));
        match host::run(&mut command) {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(None),
            ran => {
                let [_, report] = ran.setup(name)?;
                let none = || Error::Setup(format!("{name}: {report}"));
                collected(&report).map(Some).ok_or_else(none)
            }
        }
    };
    let ops = CALLGRIND_OPS;
    let (Some(n), Some(twice)) = (collect(ops)?, collect(2 * ops)?) else {
        return Ok(Row::missing(name, "no valgrind here"));
    };
    let each = twice.saturating_sub(n) as f64 / ops as f64;
    Ok(Row::count(name, "per op", each))
}

/// The total that callgrind prints at its end.
fn collected(report: &str) -> Option<u64> {
    let mut lines = report.lines();
    let (_, total) = lines.find_map(|line| line.split_once("Collected :"))?;
    total.trim().parse().ok()
}

fn locked(name: &str, one: One) -> Result<Row, Error> {
    let [none, all] = one.warm(|burst| {
        let mut step = |ops| {
            let stepped = count_locked(|| burst(ops));
            let (wrong, count) = stepped.host("step through the operations")?;
            one.case.right(wrong).map(|()| count)
        };
        Ok([step(0)?, step(STEP_OPS)?])
    })?;
    let each = all.saturating_sub(none) as f64 / STEP_OPS as f64;
    Ok(Row::count(name, "per op", each))
}

/// The address and the code of the first store, from its report: the first
/// callers in our code, below the signal handler.
fn first_store(report: &str) -> String {
    const CALLERS: usize = 4;
    let lines: Vec<&str> = report.lines().map(str::trim).collect();
    let place = lines.first().copied().unwrap_or_default();
    let below = lines.windows(2);
    let below = below.skip_while(|pair| !pair[0].contains("on_fault"));
    let caller = |pair: &[&str]| {
        let source = pair[1].strip_prefix("at ")?;
        let source = &source[source.find("crates/")?..];
        let (_, name) = pair[0].split_once(": ").unwrap_or_default();
        let name = name.split('<').next().unwrap_or_default();
        Some(format!("{name} ({source})"))
    };
    let callers: Vec<String> = below.skip(2).filter_map(caller).take(CALLERS).collect();
    format!("first at {place} by {}", callers.join(" < "))
}

/// The memory of a cached name: a fresh instance looks up a tree that its backend holds already,
/// and the process's resident set grows by the cache.
fn bytes() -> Result<Row, Error> {
    let dir = |i: usize| format!("/directory-{:06}", i / IN_ONE_DIR);
    let file = |i: usize| format!("{}/sixteen-b-{i:06}", dir(i));
    let root = ours::memory();
    let first = ours::over(root.clone())?;
    let task = ours::task(&first)?;
    for i in 0..FILES {
        if i % IN_ONE_DIR == 0 {
            task.make_dir(dir(i).as_bytes())?;
        }
        task.make_file(file(i).as_bytes(), b"")?;
    }
    drop((task, first));
    let second = ours::over(root)?;
    let task = ours::task(&second)?;
    let resident = Resident::open()?;
    let before = resident.bytes()?;
    for i in 0..FILES {
        task.stat(file(i).as_bytes()).setup("look a file up")?;
    }
    let grown = resident.bytes()?.saturating_sub(before);
    let cached = FILES + FILES / IN_ONE_DIR;
    Ok(Row::count(BYTES, "B", grown as f64 / cached as f64))
}

/// The size of this process's resident set, even after a change of root directory.
pub(crate) struct Resident(File);

impl Resident {
    pub(crate) fn open() -> Result<Self, Error> {
        File::open("/proc/self/statm").map(Self).host("open statm")
    }

    pub(crate) fn bytes(&self) -> Result<u64, Error> {
        const PAGE: u64 = 4096;
        let mut text = [0; 128];
        let len = self.0.read_at(&mut text, 0).host("read statm")?;
        let text = String::from_utf8_lossy(&text[..len]);
        let pages: Option<u64> = text.split(' ').nth(1).and_then(|word| word.parse().ok());
        Ok(pages.unwrap_or(0) * PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_store_is_reported_in_one_line() {
        let report = "0x10 arena+0x4\n   0: on_fault\n  at ./crates/bench/src/gate/sys.rs:2:3\n\
                      1: <unknown>\n 2: wrong<a::b>\n  at ./crates/vfs/src/a.rs:7:1\n\
                      3: main\n 4: start\n  at /rustc/x\n";
        let want = "first at 0x10 arena+0x4 by wrong (crates/vfs/src/a.rs:7:1)";
        assert_eq!(first_store(report), want);
    }

    #[test]
    fn row_names_are_unique() {
        let mut names = names();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn callgrind_total_is_parsed() {
        let report = "==1== \n==1== Events    : Ir\n==1== Collected : 3124683\n==1== \n";
        assert_eq!(collected(report), Some(3_124_683));
        assert_eq!(collected("==1== nothing"), None);
    }
}
