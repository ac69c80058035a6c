// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a thread that opens files finds every name while the dentry table changes its hash
//! key. A release build uses a million names, and prints how long opens and creates take.

use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY};
use openpath_abi::mode;
use openpath_mem::{MemFs, MemOptions};
use openpath_sync::HashKey;
use openpath_vfs::{Cred, Task, Vfs};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const SECRET: [u64; 2] = [0x1234_5678, 0x9abc_def0];
/// Names in the table.
const NAMES: u64 = if cfg!(debug_assertions) {
    1 << 14
} else {
    1_000_000
};
/// Names in one chain, enough to trigger a new key.
const CROWD: usize = 40;

/// Names in the root, which is the second dentry, that share a chain under the first key.
fn colliding() -> impl Iterator<Item = String> {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let (key, mask) = (HashKey::new(SECRET), NAMES.next_power_of_two() - 1);
    let names = (NAMES..).map(|i| format!("name{i:08}"));
    names.filter(move |name| {
        let (lo, hi) = name.as_bytes().split_at(8);
        key.hash(word(lo), word(hi), 2) & mask == mask & 0xabc
    })
}

fn make(task: &Task, name: &str) -> Duration {
    let began = Instant::now();
    let made = task.mknodat(AT_FDCWD, name.as_bytes(), mode::S_IFREG, 0);
    made.expect("a file");
    began.elapsed()
}

/// A quantile of some times.
fn quantile(times: &mut [Duration], part: f64) -> Duration {
    times.sort_unstable();
    let at = (times.len() as f64 * part) as usize;
    times.get(at).copied().unwrap_or_default()
}

fn report(what: &str, times: &mut [Duration]) {
    let [half, p99, p999] = [0.5, 0.99, 0.999].map(|part| quantile(times, part));
    let most = times.last().copied().unwrap_or_default();
    let count = times.len();
    println!("{what}: {count} times, {half:?}, p99 {p99:?}, p99.9 {p999:?}, most {most:?}");
}

/// The most times that are kept.
const TIMES: usize = 1 << 24;

/// Opens and closes random names during a phase, which may have ended already; returns the time of
/// each pair.
fn open_while(task: &Task, phase: &AtomicU32, now: u32) -> Vec<Duration> {
    let (mut times, mut at) = (Vec::with_capacity(TIMES), 1_u64);
    while phase.load(Ordering::Relaxed) == now {
        at = at.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let name = format!("/name{:08}", (at >> 32) % NAMES);
        let began = Instant::now();
        let fd = task.open(name.as_bytes(), O_RDONLY, 0).expect("a file");
        task.close(fd).expect("close");
        if times.len() < TIMES {
            times.push(began.elapsed());
        }
    }
    times
}

/// Ends the last phase, even if a check fails.
struct Over<'a>(&'a AtomicU32);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(3, Ordering::Relaxed);
    }
}

#[test]
fn names_are_found_while_the_hash_key_changes() {
    let vfs = Vfs::builder().secret(SECRET);
    let vfs = vfs
        .build(MemFs::new(MemOptions::default()))
        .expect("a world");
    let task = vfs.task(Cred::root()).expect("a task");
    for i in 0..NAMES {
        make(&task, &format!("name{i:08}"));
    }
    let opener = task.fork().expect("a task");
    let phase = &AtomicU32::new(0);
    let pause = if cfg!(debug_assertions) { 10 } else { 2000 };
    std::thread::scope(|scope| {
        let openers = scope.spawn(move || {
            let quiet = open_while(&opener, phase, 0);
            let before = opener.restarts();
            let making = open_while(&opener, phase, 1);
            let middle = opener.restarts();
            let during = open_while(&opener, phase, 2);
            let left = [middle - before, opener.restarts() - middle];
            ([quiet, making, during], left)
        });
        let over = Over(phase);
        std::thread::sleep(Duration::from_millis(pause));
        phase.store(1, Ordering::Relaxed);
        // Insertions without a change of the key.
        let last = NAMES + (1 << 40);
        let mut plain: Vec<Duration> = (0..NAMES / 128)
            .map(|i| make(&task, &format!("other{}", last + i)))
            .collect();
        assert_eq!(vfs.census().rekeys, 0);
        let crowd: Vec<String> = colliding().take(CROWD).collect();
        phase.store(2, Ordering::Relaxed);
        let began = Instant::now();
        let mut steps: Vec<Duration> = crowd.iter().map(|name| make(&task, name)).collect();
        let mut next = 0;
        // A census is expensive.
        while next % 256 != 0 || vfs.census().rekeys == 0 {
            steps.push(make(&task, &format!("more{next}")));
            next += 1;
        }
        let whole = began.elapsed();
        drop(over);
        let ([mut quiet, mut making, mut during], left) =
            openers.join().expect("the opener panicked");
        println!("{NAMES} names, {} steps in {whole:?}", steps.len());
        report("create, same key", &mut plain);
        report("create, key changes", &mut steps);
        report("open and close, alone", &mut quiet);
        report("open and close, beside creates", &mut making);
        report("open and close, beside a change of key", &mut during);
        println!("walks that left the lock-free mode: {left:?}");
    });
    let census = vfs.census();
    assert_eq!(census.rekeys, 1, "{census:?}");
    let name = |i: u64| format!("/name{i:08}");
    assert!((0..NAMES).all(|i| task.stat(name(i).as_bytes()).is_ok()));
}
