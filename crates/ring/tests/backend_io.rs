// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests reads, writes and syncs that a backend makes by itself (`AsyncIo`). They need no worker
//! while they are under way, keep the order of the ring, and leave nothing when the ring or a
//! future is dropped.

#[path = "common/backend_io.rs"]
mod backend_io;
mod common;

use backend_io::World;
use common::{one, rest, results};
use openpath_abi::fcntl::{O_APPEND, O_DSYNC, O_RDONLY, O_RDWR};
use openpath_abi::inotify::{IN_ACCESS, IN_MODIFY};
use openpath_abi::{AtFlags, Errno};
use openpath_ring::{AsyncTask, Cancel, Output, Ring, RingOptions, Sqe};
use openpath_vfs::{Cred, IoRequest};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A world, and a ring with the file open for reading and writing at 0.
fn open() -> (World, Ring) {
    let world = World::new(true);
    let ring = world.ring(Cred::root());
    assert_eq!(ring.task().open(b"/f", O_RDWR, 0), Ok(0));
    (world, ring)
}

fn submit(ring: &mut Ring, sqes: impl IntoIterator<Item = Sqe>) {
    for sqe in sqes {
        ring.prepare(sqe).expect("room");
    }
    ring.submit().expect("submitted");
}

/// Waits until a worker has every job there is.
fn wait_until_all_begun(world: &World) {
    while world.pool.stats().queued > 0 || world.pool.threads() == world.pool.stats().idle {
        std::thread::yield_now();
    }
}

#[test]
fn reads_and_syncs_need_no_worker_and_writes_one_to_complete() {
    let (world, mut ring) = open();
    submit(&mut ring, [Sqe::read(0, vec![0; 4], 8).user_data(1)]);
    assert_eq!((ring.in_flight(), ring.ready()), (1, 0));
    world.next().done(&world.state);
    let done = rest(&mut ring);
    assert_eq!(done[0].result, Ok(2));
    assert!(matches!(&done[0].output, Output::Buffer(buf) if buf == b"89"));
    submit(&mut ring, [Sqe::fsync(0), Sqe::fdatasync(0)]);
    for data_only in [false, true] {
        let begun = world.next();
        assert!(matches!(begun.request, IoRequest::Sync(only) if only == data_only));
        begun.done(&world.state);
    }
    assert!(rest(&mut ring).iter().all(|cqe| cqe.result == Ok(0)));
    assert_eq!(world.pool.stats().started, 0, "no worker");
    assert_eq!(world.log(), [""; 0]);
    submit(&mut ring, [Sqe::write(0, "ab", 3)]);
    world.next().done(&world.state);
    assert_eq!(rest(&mut ring)[0].result, Ok(2));
    assert_eq!(world.log(), ["worker settle"]);
    assert_eq!(&world.state.data.lock().unwrap()[..], b"012ab56789");
    drop(ring);
    world.assert_at_rest();
}

#[test]
fn special_data_operations_go_to_a_worker() {
    let (world, mut ring) = open();
    let task = ring.task();
    let append = task.open(b"/f", O_RDWR | O_APPEND, 0).expect("open");
    let sync = task.open(b"/f", O_RDWR | O_DSYNC, 0).expect("open");
    let read = task.open(b"/f", O_RDONLY, 0).expect("open");
    let sent = |ring: &mut Ring, sqe, result| {
        assert_eq!(one(ring, sqe).result, result);
        assert!(world.begun.try_recv().is_err(), "a worker does it");
        let _seen = world.log();
    };
    for (sqe, result) in [
        (Sqe::write(0, "ab", 9), Ok(2)),
        (Sqe::write(append, "cd", 0), Ok(2)),
        (Sqe::write(sync, "e", 0), Ok(1)),
        (Sqe::write(read, "x", 0), Err(Errno::EBADF)),
        (Sqe::write(0, "x", -9), Err(Errno::EINVAL)),
        (Sqe::write(0, "", 0), Ok(0)),
        (Sqe::write(0, "x", -1), Ok(1)),
        (Sqe::read(0, vec![0; 1], -1), Ok(1)),
        (Sqe::read(0, vec![], 0), Ok(0)),
        (Sqe::readv(0, vec![vec![0; 1]; 2], 0), Ok(2)),
        (Sqe::read(0, vec![0; 1], i64::MAX), Err(Errno::EINVAL)),
        (Sqe::read(99, vec![0; 1], 0), Err(Errno::EBADF)),
    ] {
        sent(&mut ring, sqe, result);
    }
    assert_eq!(&world.state.data.lock().unwrap()[..], b"x12345678abcd");
    // An unprivileged writer strips the set-user-id bit.
    ring.task().chmod(b"/f", 0o4666).expect("chmod");
    let mut guest = world.ring(Cred::user(1000, 1000, &[]));
    assert_eq!(guest.task().open(b"/f", O_RDWR, 0), Ok(0));
    sent(&mut guest, Sqe::write(0, "x", 0), Ok(1));
    assert_eq!(ring.task().stat(b"/f").map(|s| s.mode & 0o7777), Ok(0o666));
    // An access time that moves.
    let times = [openpath_abi::TimeSet::Now; 2];
    ring.task()
        .utimensat(-100, Some(b"/f"), times, AtFlags::empty())
        .expect("times");
    sent(&mut ring, Sqe::read(read, vec![0; 1], 0), Ok(1));
    drop((ring, guest));
    world.assert_at_rest();
}

#[test]
fn a_failed_back_end_operation_is_repeated_as_the_call() {
    let (world, mut ring) = open();
    for errno in [Errno::ECANCELED, Errno::EINTR, Errno::EIO] {
        submit(&mut ring, [Sqe::read(0, vec![0; 2], 4)]);
        world.next().end_with(Err(errno));
        let done = rest(&mut ring);
        assert!(matches!(&done[0].output, Output::Buffer(buf) if buf == b"45"));
        assert_eq!(world.log(), ["worker read"]);
    }
    submit(&mut ring, [Sqe::write(0, "abc", 2)]);
    world.next().end_with(Err(Errno::ENOSPC));
    assert_eq!(rest(&mut ring)[0].result, Ok(3));
    assert_eq!(world.log(), ["worker write 3 at 2", "worker settle"]);
    submit(&mut ring, [Sqe::write(0, "xyz", 2)]);
    world.next().end_with(Ok(1));
    assert_eq!(rest(&mut ring)[0].result, Ok(3));
    let rest_of_it = ["worker settle", "worker write 2 at 3", "worker settle"];
    assert_eq!(world.log(), rest_of_it);
    submit(&mut ring, [Sqe::fsync(0)]);
    world.next().end_with(Err(Errno::EINTR));
    assert_eq!(rest(&mut ring)[0].result, Ok(0));
    assert_eq!(world.log(), ["worker sync"]);
    submit(&mut ring, [Sqe::fsync(0)]);
    world.next().end_with(Err(Errno::EIO));
    assert_eq!(rest(&mut ring)[0].result, Err(Errno::EIO), "told once");
    assert_eq!(world.log(), [""; 0]);
    drop(ring);
    world.assert_at_rest();
}

#[test]
fn a_write_in_progress_excludes_all_but_other_writes() {
    let (world, mut ring) = open();
    let writes = [Sqe::write(0, "ab", 0), Sqe::write(0, "cd", 1)];
    submit(&mut ring, writes);
    let (first, second) = (world.next(), world.next());
    submit(&mut ring, [Sqe::ftruncate(0, 5)]);
    wait_until_all_begun(&world);
    assert_eq!(world.log(), [""; 0], "it waits");
    first.done(&world.state);
    assert!(
        !world.log().iter().any(|what| what.contains("cut")),
        "still"
    );
    second.done(&world.state);
    assert!(rest(&mut ring).iter().all(|cqe| cqe.result.is_ok()));
    assert!(world.log().contains(&"worker cut 5".to_owned()));
    assert_eq!(&world.state.data.lock().unwrap()[..], b"acd34");
    drop(ring);
    world.assert_at_rest();
}

#[test]
fn chains_drains_and_time_outs_wait_for_the_back_end() {
    let (world, mut ring) = open();
    submit(
        &mut ring,
        [
            Sqe::write(0, "ab", 0).user_data(1).link(),
            Sqe::read(0, vec![0; 2], 0).user_data(2).link(),
            Sqe::read(0, vec![0; 99], 0).user_data(3).link(),
            Sqe::nop().user_data(4),
        ],
    );
    for len in [2, 2, 99] {
        let begun = world.next();
        assert_eq!(begun.request.len(), len);
        assert!(world.begun.try_recv().is_err(), "one after the other");
        begun.done(&world.state);
        ring.wait(1, None).expect("it comes back");
        let _not_taken = ring.ready();
    }
    let short = Err(Errno::ECANCELED);
    let done = results(rest(&mut ring));
    assert_eq!(done, [(1, Ok(2)), (2, Ok(2)), (3, Ok(10)), (4, short)]);
    let drained = [
        Sqe::read(0, vec![0; 1], 0).user_data(1),
        Sqe::nop().drain().user_data(2),
    ];
    submit(&mut ring, drained);
    assert_eq!((ring.in_flight(), ring.ready()), (2, 0));
    world.next().done(&world.state);
    let order: Vec<_> = rest(&mut ring).iter().map(|cqe| cqe.user_data).collect();
    assert_eq!(order, [1, 2]);
    submit(
        &mut ring,
        [
            Sqe::read(0, vec![0; 1], 0).user_data(1).link(),
            Sqe::link_timeout(Duration::ZERO).user_data(2),
        ],
    );
    ring.wait(1, None).expect("the time is up");
    let up = ring
        .next_completion()
        .map(|cqe| (cqe.user_data, cqe.result));
    assert_eq!(up, Some((2, Err(Errno::ETIME))));
    world.next().done(&world.state);
    assert_eq!(
        results(rest(&mut ring)),
        [(1, Ok(1))],
        "it ended as it would"
    );
    drop(ring);
    world.assert_at_rest();
}

#[test]
fn a_back_end_job_is_not_cancelled_once_begun() {
    let (world, mut ring) = open();
    submit(&mut ring, [Sqe::read(0, vec![0; 3], 0).user_data(7)]);
    let begun = world.next();
    submit(&mut ring, [Sqe::cancel(Cancel::UserData(7)).user_data(8)]);
    let sent = ring
        .next_completion()
        .map(|cqe| (cqe.user_data, cqe.result));
    assert_eq!(sent, Some((8, Err(Errno::EALREADY))));
    begun.done(&world.state);
    assert_eq!(results(rest(&mut ring)), [(7, Ok(3))]);
    drop(ring);
    world.assert_at_rest();
}

#[test]
fn a_file_that_was_closed_meanwhile_is_released_by_a_worker() {
    let (world, mut ring) = open();
    submit(&mut ring, [Sqe::read(0, vec![0; 3], 0), Sqe::close(0)]);
    let begun = world.next();
    ring.wait(1, None).expect("it is closed");
    assert_eq!(world.log(), [""; 0], "it is still used");
    begun.done(&world.state);
    assert!(rest(&mut ring).iter().all(|cqe| cqe.result.is_ok()));
    assert_eq!(world.log(), ["worker release"]);
    drop(ring);
    world.assert_at_rest();
}

#[test]
fn a_dropped_ring_completes_its_back_end_jobs() {
    let (world, mut ring) = open();
    submit(
        &mut ring,
        [Sqe::write(0, "ab", 3), Sqe::read(0, vec![0; 3], 0)],
    );
    let (write, read) = (world.next(), world.next());
    drop(ring);
    assert_eq!(world.log(), [""; 0]);
    read.done(&world.state);
    write.done(&world.state);
    while world
        .log()
        .last()
        .is_none_or(|last| last != "worker release")
    {
        std::thread::yield_now();
    }
    assert_eq!(
        world
            .vfs
            .task(Cred::root())
            .expect("a task")
            .stat(b"/f")
            .map(|s| s.size),
        Ok(10)
    );
    world.assert_at_rest();
}

#[test]
fn a_dropped_pool_completes_late_jobs() {
    let (mut world, mut ring) = open();
    submit(&mut ring, [Sqe::write(0, "ab", 3)]);
    let begun = world.next();
    drop(ring);
    world.pool = openpath_ring::Pool::new(Default::default());
    begun.done(&world.state);
    let mut log = Vec::new();
    while log.last().is_none_or(|last| last != "worker release") {
        log.extend(world.log());
        std::thread::yield_now();
    }
    assert_eq!(log, ["worker settle", "worker release"]);
    world.assert_at_rest();
}

#[test]
fn futures_use_the_back_end_and_may_be_dropped() {
    let world = World::new(true);
    let task = world.vfs.task(Cred::root()).expect("a task");
    assert_eq!(task.open(b"/f", O_RDWR, 0), Ok(0));
    let mut task = AsyncTask::new(task, &world.pool, RingOptions::default()).expect("a task");
    let mut buf = [0; 4];
    let mut cx = Context::from_waker(Waker::noop());
    {
        let mut read = pin!(task.read_at(0, &mut buf, 2));
        assert!(read.as_mut().poll(&mut cx).is_pending());
        world.next().done(&world.state);
        assert_eq!(read.as_mut().poll(&mut cx), Poll::Ready(Ok(4)));
    }
    assert_eq!(&buf, b"2345");
    let begun = {
        let mut read = pin!(task.read_at(0, &mut buf, 2));
        assert!(read.as_mut().poll(&mut cx).is_pending());
        world.next()
    };
    assert_eq!(task.in_flight(), 1);
    begun.done(&world.state);
    assert_eq!((task.in_flight(), world.pool.stats().started), (0, 0));
    drop(task);
    world.assert_at_rest();
}

#[test]
fn inotify_events_equal_those_of_the_calls() {
    let heard = [true, false].map(|moves_data| {
        let world = World::new(moves_data);
        let mut ring = world.ring(Cred::root());
        let task = ring.task();
        assert_eq!(task.open(b"/f", O_RDWR, 0), Ok(0));
        let watch = task.inotify_init1(0o4000).expect("a group");
        task.inotify_add_watch(watch, b"/f", IN_ACCESS | IN_MODIFY)
            .expect("a watch");
        let state = Arc::clone(&world.state);
        let mut moved = |sqe: Sqe| {
            submit(&mut ring, [sqe]);
            if moves_data {
                world.next().done(&state);
            }
            let done = rest(&mut ring);
            let mut events = [0; 256];
            let len = ring.task().read(watch, &mut events);
            (done[0].result, len.map(|len| events[..len].to_vec()))
        };
        [
            moved(Sqe::read(0, vec![0; 1], 0)),
            moved(Sqe::read(0, vec![0; 1], 10)),
            moved(Sqe::write(0, "x", 0)),
            moved(Sqe::fsync(0)),
        ]
    });
    assert_eq!(heard[0], heard[1]);
    assert!(heard[0][0].1.is_ok() && heard[0][2].1.is_ok());
    assert!(heard[0][1].1.is_err() && heard[0][3].1.is_err());
}
