// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that of ten thousand threads that wait to lock one range each is woken once and gets its
//! lock.

#[path = "support/world.rs"]
mod world;

use openpath_abi::Flock;
use openpath_abi::fcntl::*;
use openpath_abi::lock::{F_UNLCK, F_WRLCK};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use world::*;

const MANY: usize = 10_000;
const STACK: usize = 64 * 1024;
/// The number of grants between two counts of the waiters.
const LOOK: usize = 1_000;
const PATIENCE: Duration = Duration::from_secs(60);

const WRITE: Flock = Flock::new(F_WRLCK, 0, 10);
const FREE: Flock = Flock::new(F_UNLCK, 0, 10);

/// How often the calling thread has slept.
fn sleeps() -> usize {
    let status = std::fs::read_to_string("/proc/thread-self/status")
        .expect("cannot read the thread's status");
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.expect("a count").trim().parse().expect("a number")
}

#[test]
fn each_of_ten_thousand_threads_is_woken_once_and_gets_the_lock() {
    let vfs = world();
    let holder = root(&vfs);
    let fd = holder.open(b"/f", O_CREAT | O_RDWR, 0o666).expect("a file");
    holder.fcntl_setlk(fd, &WRITE).expect("a lock");
    let waiting = {
        let vfs = vfs.clone();
        move || vfs.locks().iter().filter(|lock| lock.waits).count()
    };
    // Only the thread that has the lock takes this.
    let served = Arc::new(Mutex::new(0_usize));
    let begin = |_| {
        let (task, served, waiting) = (root(&vfs), Arc::clone(&served), waiting.clone());
        let wait = move || {
            let fd = task.open(b"/f", O_RDWR, 0).expect("the file");
            let before = sleeps();
            task.fcntl_setlkw(fd, &WRITE).expect("no lock");
            let slept = sleeps() - before;
            {
                let mut served = served.try_lock().expect("two threads have the lock");
                *served += 1;
                if (*served).is_multiple_of(LOOK) {
                    assert_eq!(waiting(), MANY - *served, "each release grants one lock");
                }
            }
            task.fcntl_setlk(fd, &FREE)
                .expect("cannot release the lock");
            slept
        };
        let small = thread::Builder::new().stack_size(STACK);
        small.spawn(wait).expect("a thread")
    };
    let threads: Vec<_> = (0..MANY).map(begin).collect();
    let began = Instant::now();
    while waiting() < MANY {
        assert!(began.elapsed() < PATIENCE, "{} wait", waiting());
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(*served.lock().expect("a count"), 0);
    assert_eq!(
        vfs.root_tenant().stats().locks,
        1,
        "a waiting thread costs no lock"
    );

    holder.close(fd).expect("the first release");
    let slept: usize = threads.into_iter().map(|t| t.join().expect("a lock")).sum();
    assert_eq!(*served.lock().expect("a count"), MANY);
    assert!(vfs.locks().is_empty());
    assert_eq!(vfs.root_tenant().stats().locks, 0);
    // Each sleeps for its lock, and perhaps for a mutex. Waking all each time would take
    // 50,000,000.
    assert!((MANY..3 * MANY).contains(&slept), "{slept} times asleep");
}
