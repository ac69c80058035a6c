// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the memory of deleted files and names returns to the system, by the resident memory
//! of this process.

use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_RDWR};
use openpath_abi::mode;
use openpath_abi::{AtFlags, XattrFlags};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Task, Vfs};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// Memory that may stay: grown tables, and what the allocator cannot return.
const STAYS: u64 = 8 * MIB;

fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kib.expect("VmRSS") * 1024
}

struct Host {
    vfs: Vfs,
    task: Task,
}

fn host() -> Host {
    let vfs = Vfs::builder()
        .build(MemFs::new(MemOptions::default()))
        .expect("a Vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    Host { vfs, task }
}

impl Host {
    fn write(&self, path: &str, offset: u64, len: usize) {
        let t = &self.task;
        let fd = t.open(path.as_bytes(), O_CREAT | O_RDWR, 0o644);
        let fd = fd.expect("a file");
        let data = vec![0x5a; len];
        let done = t.pwrite(fd, &data, offset.cast_signed());
        assert_eq!(done, Ok(len));
        t.close(fd).expect("close");
    }

    fn remove(&self, path: &str) {
        let done = self
            .task
            .unlinkat(AT_FDCWD, path.as_bytes(), AtFlags::empty());
        done.expect("unlink");
    }

    fn trim(&self) {
        self.vfs.shrink(u32::MAX);
        self.vfs.collect();
        self.vfs.trim(Duration::from_secs(1));
    }
}

/// Fills and removes; checks the resident memory in between and afterwards.
fn comes_back(what: &str, h: &Host, fill: impl Fn(&Host), remove: impl Fn(&Host)) {
    h.trim();
    let before = resident();
    fill(h);
    let full = resident();
    remove(h);
    h.trim();
    let after = resident();
    let mib = |bytes: u64| bytes / MIB;
    println!(
        "{what}: {} MiB, {} full, {} after",
        mib(before),
        mib(full),
        mib(after)
    );
    assert!(full > before + 20 * MIB, "{what}: {full} after {before}");
    assert!(after < before + STAYS, "{what}: {after} after {before}");
}

/// One test, because all measure one process.
#[test]
fn deleted_data_returns_to_system() {
    let h = host();
    h.write("/first", 0, 1 << 20);
    h.remove("/first");
    shapes(&h);
    without_trim(&h);
    by_turns(&h);
    names(&h);
}

fn shapes(h: &Host) {
    let each = |n: u64, work: &dyn Fn(String)| (0..n).for_each(|i| work(format!("/{i}")));
    let remove = |n| move |h: &Host| each(n, &|path| h.remove(&path));
    comes_back("one file", h, |h| h.write("/0", 0, 100 << 20), remove(1));
    let small = |h: &Host| each(12_000, &|path| h.write(&path, 0, 4000));
    comes_back("small files", h, small, remove(12_000));
    let sparse = |h: &Host| (0..8000).for_each(|i| h.write("/0", i * 71 * PAGE, 1));
    comes_back("a file with holes", h, sparse, remove(1));
    let body = vec![b'x'; 1000];
    let link = |path: String| {
        let done = h.task.symlinkat(&body, AT_FDCWD, path.as_bytes());
        done.expect("a link");
    };
    comes_back("links", h, |_| each(30_000, &link), remove(30_000));
    let value = vec![1; 60_000];
    let attribute = |path: String| {
        let done = h.task.mknodat(AT_FDCWD, path.as_bytes(), mode::S_IFREG, 0);
        done.expect("a file");
        let done = h
            .task
            .setxattr(path.as_bytes(), b"user.a", &value, XattrFlags::empty());
        done.expect("an attribute");
    };
    comes_back("attributes", h, |_| each(1000, &attribute), remove(1000));
}

/// The pages of a file are released with it, without `trim`.
fn without_trim(h: &Host) {
    h.trim();
    let before = resident();
    (0..16).for_each(|i| h.write(&format!("/{i}"), 0, 6 << 20));
    assert!(resident() > before + 90 * MIB);
    (0..16).for_each(|i| h.remove(&format!("/{i}")));
    h.vfs.collect();
    let after = resident();
    assert!(after < before + STAYS, "{after} after {before}");
}

/// Removes one of two files that got their pages alternately.
fn by_turns(h: &Host) {
    h.trim();
    let before = resident();
    for i in 0..12_000 {
        h.write("/stays", i * PAGE, 4096);
        h.write("/goes", i * PAGE, 4096);
    }
    let full = resident() - before;
    h.remove("/goes");
    h.trim();
    let half = resident() - before;
    println!("two files: {full} bytes; one: {half}");
    assert!(half < full / 2 + STAYS, "{half} of {full}");
    h.remove("/stays");
}

/// Empties a large directory, and removes many names.
fn names(h: &Host) {
    const NAMES: u32 = if cfg!(debug_assertions) {
        100_000
    } else {
        1_000_000
    };
    let make = |h: &Host| {
        for i in 0..NAMES {
            let path = format!("/{i}");
            let done = h.task.mknodat(AT_FDCWD, path.as_bytes(), mode::S_IFREG, 0);
            done.expect("a file");
        }
    };
    let remove = |h: &Host| (0..NAMES).for_each(|i| h.remove(&format!("/{i}")));
    let roots = h.vfs.usage().dentries;
    make(h);
    remove(h);
    // The tables of names keep their size.
    comes_back("names", h, make, remove);
    assert_eq!(h.vfs.usage().dentries, roots);
}
