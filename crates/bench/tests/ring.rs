// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests how many allocations rings and futures make: none for a cached open and its close, and few
//! for an idle task. The allocator counts per thread.

use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY};
use openpath_bench::sys::{self, CountingAlloc};
use openpath_mem::{MemFs, MemOptions};
use openpath_ring::{AsyncTask, Bytes, File, Pool, PoolOptions, Ring, RingOptions, Sqe};
use openpath_vfs::{Cred, Task, Vfs};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[global_allocator]
static ALLOC: CountingAlloc = CountingAlloc;

const PATH: &[u8] = b"/a/b/c/file";
const ROUNDS: u64 = 1000;

fn world() -> Vfs {
    let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()));
    let vfs = vfs.expect("a Vfs");
    let task = guest(&vfs);
    for dir in [&b"/a"[..], b"/a/b", b"/a/b/c"] {
        task.mkdir(dir, 0o755).expect("mkdir");
    }
    let fd = task.creat(PATH, 0o644).expect("creat");
    task.close(fd).expect("close");
    vfs
}

fn guest(vfs: &Vfs) -> Task {
    vfs.task(Cred::root()).expect("a task")
}

/// Allocations of `ROUNDS` calls of `round`, after ten others.
fn count(mut round: impl FnMut()) -> u64 {
    (0..10).for_each(|_| round());
    let before = sys::allocations();
    (0..ROUNDS).for_each(|_| round());
    sys::allocations() - before
}

fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it should not wait"),
    }
}

#[test]
fn this_allocator_counts() {
    let before = sys::allocations();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(sys::allocations(), before + 1);
}

#[test]
fn cached_open_by_future_allocates_nothing() {
    let (vfs, pool) = (world(), Pool::new(PoolOptions::default()));
    let mut task = AsyncTask::new(guest(&vfs), &pool, RingOptions::default()).expect("a task");
    let counted = count(|| {
        let fd = now(task.open(PATH, O_RDONLY, 0)).expect("open");
        now(task.close(fd)).expect("close");
        let fd = now(task.local().open(PATH, O_RDONLY, 0)).expect("open");
        now(task.local().close(fd)).expect("close");
        now(task.stat(PATH)).expect("stat");
    });
    assert_eq!((counted, pool.stats().started), (0, 0));
}

#[test]
fn cached_open_by_ring_with_kept_path_allocates_nothing() {
    let (vfs, pool) = (world(), Pool::new(PoolOptions::default()));
    let mut ring = Ring::new(guest(&vfs), &pool, RingOptions::default()).expect("a ring");
    let counted = count(|| {
        let open = Sqe::openat(AT_FDCWD, Bytes::Static(PATH), O_RDONLY, 0);
        ring.prepare(open).expect("room");
        ring.submit().expect("submit");
        let opened = ring.next_completion().expect("an open");
        let fd = i32::try_from(opened.result.expect("open")).expect("a descriptor");
        ring.prepare(Sqe::close(File::Fd(fd))).expect("room");
        ring.submit().expect("submit");
        let closed = ring.next_completion().expect("a close");
        closed.result.expect("close");
    });
    assert_eq!((counted, pool.stats().started), (0, 0));
}

#[test]
fn idle_asynchronous_task_allocates_little() {
    const MANY: usize = 1000;
    let (vfs, pool) = (world(), Pool::new(PoolOptions::default()));
    let tasks: Vec<Task> = (0..MANY).map(|_| guest(&vfs)).collect();
    let mut idle = Vec::with_capacity(MANY);
    let before = (sys::allocations(), resident());
    for task in tasks {
        idle.push(AsyncTask::new(task, &pool, RingOptions::default()).expect("a task"));
    }
    let each = (sys::allocations() - before.0) as f64 / MANY as f64;
    let bytes = (resident() - before.1) / MANY;
    let value = size_of::<AsyncTask>();
    eprintln!("{each} allocations, {bytes} B beside {value} B of the value");
    // A desk and a sleeper, and now and then growth of the pool's list of lanes.
    assert!(each < 2.1, "{each} allocations");
}

/// The bytes of this process that are in memory.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages = statm.split(' ').nth(1).expect("two numbers");
    pages.parse::<usize>().expect("a number") * 4096
}
