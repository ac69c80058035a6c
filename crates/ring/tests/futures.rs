// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that futures of calls are ready at once if their path is cached, are woken otherwise with
//! the same results, and leave nothing behind when dropped.

mod common;

use common::{World, over_host};
use openpath_abi::fcntl::{AT_FDCWD, F_GETFL, O_CREAT, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY};
use openpath_abi::mode::S_IFIFO;
use openpath_abi::statx::STATX_BASIC_STATS;
use openpath_abi::{AtFlags, Errno, RenameFlags};
use openpath_ring::{AsyncTask, RingOptions};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};

/// Signals and counts its wake-ups.
struct CountingWaker(mpsc::Sender<()>, AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::Relaxed);
        let _gone = self.0.send(());
    }
}

fn waker() -> (Waker, mpsc::Receiver<()>) {
    let (woken, received) = mpsc::channel();
    (
        Arc::new(CountingWaker(woken, AtomicUsize::new(0))).into(),
        received,
    )
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// Polls, and again when woken, until it is ready.
fn block_on<F: Future>(future: F) -> F::Output {
    let (waker, received) = waker();
    let mut future = pin!(future);
    loop {
        match poll(future.as_mut(), &waker) {
            Poll::Ready(value) => return value,
            Poll::Pending => received.recv().expect("a wake-up"),
        }
    }
}

fn now<F: Future>(future: F) -> F::Output {
    match poll(pin!(future), Waker::noop()) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it should not wait"),
    }
}

fn task(world: &World, set: impl FnOnce(&mut RingOptions)) -> AsyncTask {
    let mut options = RingOptions::default();
    set(&mut options);
    AsyncTask::new(world.task(), &world.pool, options).expect("an asynchronous task")
}

#[test]
fn functions_of_the_caller_leave_nothing_open() {
    let world = World::new();
    let mut task = task(&world, |_| {});
    for round in 0..4 {
        let fails = task.work([None, None], move |task, _| {
            let fd = task.open(b"/own", O_RDWR | O_CREAT, 0o600)?;
            assert_eq!(fd, 0, "what the one before left is open");
            assert!(round % 2 == 0, "it ends by a panic");
            Err::<(), _>(Errno::EPROTO)
        });
        let why = if round % 2 == 0 {
            Errno::EPROTO
        } else {
            Errno::EIO
        };
        assert_eq!(block_on(fails), Err(why));
    }
}

#[test]
fn cached_calls_are_ready_at_once() {
    if over_host() {
        // Data and closes of the host may wait.
        return;
    }
    let world = World::new();
    let mut task = task(&world, |_| {});
    for _ in 0..100 {
        let fd = now(task.open(b"/d/f1", O_RDWR, 0)).unwrap();
        assert_eq!(now(task.stat(b"/d/f1")).map(|s| s.size), Ok(10));
        let mut buf = [0; 4];
        assert_eq!((now(task.read_at(fd, &mut buf, 3)), &buf), (Ok(4), b"3456"));
        assert_eq!(now(task.write_at(fd, b"3456", 3)), Ok(4));
        assert_eq!(now(task.close(fd)), Ok(()));
        assert_eq!(now(task.open(b"/d/none", O_RDONLY, 0)), Err(Errno::ENOENT));
    }
    assert_eq!(world.pool.stats().started, 0);
    let activity = world.vfs.root_tenant().stats().activity;
    assert_eq!((activity.opens_inline, activity.opens_offloaded), (200, 0));
    drop(task);
    world.assert_at_rest();
}

#[test]
fn an_open_of_a_fifo_waits_for_its_peer() {
    let world = World::new();
    let peer = world.task();
    peer.mknod(b"/d/p", S_IFIFO | 0o600, 0).unwrap();
    let task = task(&world, |_| {});
    for (ours, other) in [(O_RDONLY, O_WRONLY), (O_WRONLY, O_RDONLY)] {
        let (waker, received) = waker();
        let mut open = pin!(task.local().open(b"/d/p", ours, 0));
        assert_eq!(poll(open.as_mut(), &waker), Poll::Pending);
        // It waits for the call in progress.
        let met = peer.open(b"/d/p", other, 0).unwrap();
        received.recv().expect("a wake-up");
        let Poll::Ready(Ok(fd)) = poll(open.as_mut(), &waker) else {
            panic!("its peer has come");
        };
        assert_eq!(
            task.task().fcntl(fd, F_GETFL, 0).unwrap() as u32 & O_NONBLOCK.bits(),
            0
        );
        peer.close(met).unwrap();
        task.task().close(fd).unwrap();
    }
    for side in [O_RDONLY, O_WRONLY] {
        let mut open = Box::pin(task.local().open(b"/d/p", side, 0));
        assert_eq!(poll(open.as_mut(), Waker::noop()), Poll::Pending);
        drop(open);
        // The worker is interrupted, or meets this open; then the FIFO has no reader, though no
        // call reports that.
        while let Ok(fd) = block_on(task.local().open(b"/d/p", O_WRONLY | O_NONBLOCK, 0)) {
            task.task().close(fd).unwrap();
            std::thread::yield_now();
        }
    }
    let first = now(task.local().open(b"/d/p", O_RDONLY | O_NONBLOCK, 0)).unwrap();
    let second = now(task.local().open(b"/d/p", O_WRONLY, 0)).unwrap();
    task.task().close(first).unwrap();
    task.task().close(second).unwrap();
    drop(task);
    drop(peer);
    world.assert_at_rest();
}

#[test]
fn uncached_calls_are_woken_with_the_same_results() {
    for inline in [true, false] {
        let world = World::new();
        let mut task = task(&world, |options| options.inline = inline);
        assert_eq!(block_on(task.open(b"/slow/x", O_RDONLY, 0)), Ok(0));
        assert_eq!(
            block_on(task.open(b"/slow/e", O_RDONLY, 0)),
            Err(Errno::EIO)
        );
        assert_eq!(
            block_on(task.open(b"/slow/a", O_RDONLY, 0)),
            Err(Errno::ENOENT)
        );
        assert_eq!(
            block_on(task.openat(AT_FDCWD, b"/d/new", O_CREAT | O_RDWR, 0o600)),
            Ok(1)
        );
        assert_eq!(block_on(task.write(1, b"abc")), Ok(3));
        let mut buf = [0; 8];
        assert_eq!(block_on(task.read_at(1, &mut buf, 0)), Ok(3));
        assert_eq!(&buf[..4], b"abc\0");
        assert_eq!(block_on(task.fsync(1)), Ok(()));
        assert_eq!(block_on(task.fdatasync(1)), Ok(()));
        assert_eq!(block_on(task.ftruncate(1, 2)), Ok(()));
        assert_eq!(block_on(task.fallocate(1, 0, 0, 9)), Ok(()));
        assert_eq!(
            block_on(task.statx(AT_FDCWD, b"/d/new", AtFlags::empty(), STATX_BASIC_STATS))
                .map(|s| s.size),
            Ok(9)
        );
        assert_eq!(block_on(task.mkdirat(AT_FDCWD, b"/e", 0o755)), Ok(()));
        assert_eq!(block_on(task.symlinkat(b"x", AT_FDCWD, b"/e/l")), Ok(()));
        assert_eq!(
            block_on(task.linkat(AT_FDCWD, b"/d/new", AT_FDCWD, b"/e/h", AtFlags::empty())),
            Ok(())
        );
        let moved = task.renameat2(AT_FDCWD, b"/e/h", AT_FDCWD, b"/e/g", RenameFlags::empty());
        assert_eq!(block_on(moved), Ok(()));
        let dir = block_on(task.open(b"/e", O_RDONLY, 0)).unwrap();
        assert_eq!(
            block_on(task.getdents64(dir, 4096)).map(|all| all.len()),
            Ok(4)
        );
        assert_eq!(block_on(task.unlinkat(dir, b"l", AtFlags::empty())), Ok(()));
        assert_eq!(block_on(task.lstat(b"/e/l")).err(), Some(Errno::ENOENT));
        assert_eq!(block_on(task.close(dir)), Ok(()));
        assert_eq!(block_on(task.close(dir)), Err(Errno::EBADF));
        assert_eq!(task.in_flight(), 0);
        drop(task);
        world.assert_at_rest();
    }
}

#[test]
fn each_future_is_woken_for_its_own_call() {
    let world = World::new();
    let task = task(&world, |_| {});
    let (mine, mine_heard) = waker();
    let (other, other_heard) = waker();
    let mut waits = Box::pin(task.local().open(b"/slow/w", O_RDONLY, 0));
    assert!(poll(waits.as_mut(), &mine).is_pending());
    world.gate.await_waiting(1);
    let mut passes = Box::pin(task.local().open(b"/slow/x", O_RDONLY, 0));
    assert!(poll(passes.as_mut(), Waker::noop()).is_pending());
    if poll(passes.as_mut(), &other).is_pending() {
        other_heard.recv().expect("the waker of the last poll");
        assert_eq!(poll(passes.as_mut(), &other), Poll::Ready(Ok(0)));
    }
    assert!(mine_heard.try_recv().is_err(), "it still waits");
    world.gate.open();
    mine_heard.recv().expect("a wake-up");
    assert_eq!(poll(waits.as_mut(), &mine), Poll::Ready(Ok(1)));
    drop((waits, passes));
    drop(task);
    world.assert_at_rest();
}

#[test]
fn a_dropped_future_leaves_nothing_open_and_frees_its_slot() {
    let world = World::new();
    let mut task = task(&world, |options| {
        options.entries = 8;
        options.completions = 8;
    });
    for round in 0..50 {
        let futures = (0..8).map(|n| {
            let path = format!("/slow/x{round}-{n}").into_bytes();
            let local = task.local();
            let mut future: Pin<Box<dyn Future<Output = _>>> =
                Box::pin(async move { local.open(&path, O_RDONLY, 0).await });
            let _first = poll(future.as_mut(), Waker::noop());
            future
        });
        let mut futures: Vec<_> = futures.collect();
        // Some are dropped at once, some after they came back, one is kept.
        futures.truncate(4);
        let last = block_on(futures.swap_remove(0)).expect("a descriptor");
        drop(futures);
        now(task.close(last)).expect("closed");
    }
    assert_eq!(block_on(task.open(b"/slow/y", O_RDONLY, 0)), Ok(0));
    while task.in_flight() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(task.task().descriptors(), [0]);
    drop(task);
    world.assert_at_rest();
}

#[test]
fn a_future_without_a_slot_waits_for_one() {
    let world = World::new();
    let task = task(&world, |options| {
        options.entries = 2;
        options.completions = 2;
    });
    let opens = (0..20).map(|n| {
        let local = task.local();
        let path = format!("/slow/x{n}").into_bytes();
        Box::pin(async move { local.open(&path, O_RDONLY, 0).await })
    });
    let mut opens: Vec<_> = opens.collect();
    let (waker, received) = waker();
    let mut done = 0;
    while done < 20 {
        opens.retain_mut(|open| match poll(open.as_mut(), &waker) {
            Poll::Ready(fd) => {
                done += 1;
                fd.is_err()
            }
            Poll::Pending => true,
        });
        if done < 20 {
            received.recv().expect("a wake-up");
        }
    }
    drop(opens);
    drop(task);
    world.assert_at_rest();
}

#[test]
fn many_wakers_and_a_dropped_task_lose_no_result() {
    let world = World::new();
    let task = task(&world, |_| {});
    let mut open = Box::pin(task.local().open(b"/slow/w", O_RDONLY, 0));
    for _ in 0..1000 {
        let (waker, _heard) = waker();
        assert!(poll(open.as_mut(), &waker).is_pending());
        waker.wake();
    }
    world.gate.await_waiting(1);
    world.gate.open();
    assert_eq!(block_on(open.as_mut()), Ok(0));
    drop(open);
    let mut others: Vec<_> = (0..50)
        .map(|_| Box::pin(task.local().open(b"/d/f1", O_CREAT | O_RDWR, 0o600)))
        .collect();
    for open in &mut others {
        let _first = poll(open.as_mut(), Waker::noop());
    }
    drop(others);
    let task = task.into_task();
    assert_eq!(task.descriptors(), [0]);
    drop(task);
    world.assert_at_rest();
}

#[test]
fn a_future_may_move_between_threads() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let world = World::new();
    let mut task = task(&world, |_| {});
    let task = {
        let mut open = Box::pin(is_send(async {
            let fd = is_send(task.open(b"/slow/x", O_RDONLY, 0)).await?;
            task.close(fd).await
        }));
        let _first = poll(open.as_mut(), Waker::noop());
        std::thread::scope(|s| {
            let done = s.spawn(move || block_on(open)).join();
            assert_eq!(done.expect("a thread"), Ok(()));
        });
        task
    };
    drop(task);
    world.assert_at_rest();
}

#[test]
fn tokio_drives_many_tasks_on_many_threads() {
    let world = World::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .expect("a runtime");
    let guests = (0..8).map(|guest| {
        let mut task = task(&world, |_| {});
        runtime.spawn(async move {
            for n in 0..100 {
                let cached = task.open(b"/d/f1", O_RDONLY, 0).await?;
                let path = format!("/slow/x{guest}-{n}").into_bytes();
                let missed = task.open(&path, O_RDONLY, 0).await?;
                task.close(cached).await?;
                task.close(missed).await?;
            }
            Ok::<_, Errno>(task.task().descriptors().len())
        })
    });
    let guests: Vec<_> = guests.collect();
    runtime.block_on(async {
        for guest in guests {
            assert_eq!(guest.await.expect("a guest"), Ok(0));
        }
    });
    drop(runtime);
    world.assert_at_rest();
}
