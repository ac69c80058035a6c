// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests rings and futures under a scheduler that chooses the interleaving: an owner submits opens
//! that miss, workers do them, and the owner takes, cancels, drops or waits meanwhile. Each
//! operation completes exactly once and nothing is left. A lost wake-up is a deadlock, which the
//! scheduler reports.

use crate::backend::{World, build, name, number_at};
use crate::{explore, explore_often, join, spawn};
use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_RDONLY, O_RDWR};
use openpath_abi::lock::F_WRLCK;
use openpath_abi::{Errno, Flock};
use openpath_mem::{MemFs, MemOptions};
use openpath_ring::{AsyncTask, Cancel, Pool, PoolOptions, Ring, RingOptions, Sqe};
use openpath_vfs::{Cred, Fd, Task, Vfs};
use shuttle::future::block_on;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

const WRITE: Flock = Flock::new(F_WRLCK, 0, 10);
/// A timeout that never expires.
const NEVER: Duration = Duration::from_secs(1 << 20);

fn pool(threads: usize) -> Pool {
    let mut options = PoolOptions::default();
    options.threads_max = threads;
    options.idle = NEVER;
    options.shutdown_timeout = NEVER;
    Pool::new(options)
}

fn ring(world: &World, pool: &Pool) -> Ring {
    Ring::new(world.task(), pool, RingOptions::default()).expect("a ring")
}

/// An open that a worker must do, marked with the number of its file.
fn prepare(ring: &mut Ring, number: u8) {
    let open = Sqe::openat(AT_FDCWD, name(true, number), O_RDONLY, 0);
    let prepared = ring.prepare(open.user_data(u64::from(number)));
    prepared.expect("room");
}

/// The completions: how often each number was opened, and how often cancelled.
#[derive(Default, Debug)]
struct Tally([(u8, u8); 4]);

impl Tally {
    /// Takes the completions, and closes the files that they opened.
    fn take(&mut self, ring: &mut Ring) {
        while let Some(cqe) = ring.next_completion() {
            let count = &mut self.0[cqe.user_data as usize];
            match cqe.result {
                Ok(fd) => {
                    let fd = i32::try_from(fd).expect("a descriptor");
                    let number = number_at(ring.task(), fd).expect("read");
                    assert_eq!(u64::from(number), cqe.user_data, "another's file");
                    ring.task().close(fd).expect("close");
                    count.0 += 1;
                }
                Err(errno) => {
                    assert_eq!(errno, Errno::ECANCELED);
                    count.1 += 1;
                }
            }
        }
    }

    fn assert_once(&self, numbers: impl IntoIterator<Item = usize>) {
        for number in numbers {
            let (opened, cancelled) = self.0[number];
            assert_eq!(opened + cancelled, 1, "{number}: {self:?}");
        }
    }
}

/// Checks that nothing is left when the owner and every thread are gone.
fn assert_at_rest(world: &World, pool: Pool) {
    drop(pool);
    world.assert_at_rest();
}

#[test]
fn opens_complete_once_each_with_its_own_file() {
    explore(|| {
        let world = World::new(3);
        let pool = pool(2);
        let mut ring = ring(&world, &pool);
        (1..=3).for_each(|number| prepare(&mut ring, number));
        assert_eq!(ring.submit_and_wait(3), Ok(3));
        let mut tally = Tally::default();
        tally.take(&mut ring);
        assert_eq!(tally.0[1..], [(1, 0); 3]);
        drop(ring);
        assert_at_rest(&world, pool);
    });
}

#[test]
fn a_cancelled_open_completes_once_and_its_file_is_closed() {
    explore_often(2, || {
        let world = World::new(2);
        let pool = pool(1);
        let mut ring = ring(&world, &pool);
        let mut tally = Tally::default();
        (1..=2).for_each(|number| prepare(&mut ring, number));
        ring.submit().expect("submit");
        ring.cancel_now(Cancel::UserData(2));
        tally.take(&mut ring);
        ring.cancel_now(Cancel::UserData(1));
        ring.wait(2, None).expect("wait");
        tally.take(&mut ring);
        tally.assert_once(1..=2);
        assert_eq!(ring.in_flight(), 0);
        drop(ring);
        assert_at_rest(&world, pool);
    });
}

#[test]
fn a_dropped_ring_leaves_nothing_open() {
    explore_often(2, || {
        let world = World::new(3);
        let pool = pool(2);
        let mut ring = ring(&world, &pool);
        let mut tally = Tally::default();
        (1..=3).for_each(|number| prepare(&mut ring, number));
        ring.submit().expect("submit");
        ring.wait(1, None).expect("wait");
        let task = ring.into_task();
        assert_eq!(
            task.descriptors(),
            [],
            "the file of an untaken completion is open"
        );
        let mut ring = Ring::new(task, &pool, RingOptions::default()).expect("a ring");
        prepare(&mut ring, 1);
        ring.submit_and_wait(1).expect("wait");
        tally.take(&mut ring);
        tally.assert_once([1]);
        prepare(&mut ring, 2);
        ring.submit().expect("submit");
        drop(ring);
        assert_at_rest(&world, pool);
    });
}

#[test]
fn an_owner_with_a_completion_hook_misses_no_completion() {
    explore(|| {
        let world = World::new(2);
        let pool = pool(2);
        let mut ring = ring(&world, &pool);
        let (told, heard) = shuttle::sync::mpsc::channel();
        ring.on_completion(move || told.send(()).expect("the owner has ended"));
        let mut tally = Tally::default();
        (1..=2).for_each(|number| prepare(&mut ring, number));
        ring.submit().expect("submit");
        while ring.in_flight() > 0 {
            heard.recv().expect("a ring");
            tally.take(&mut ring);
        }
        tally.take(&mut ring);
        tally.assert_once(1..=2);
        drop(ring);
        assert_at_rest(&world, pool);
    });
}

#[test]
fn an_interrupt_ends_one_wait_and_no_operation() {
    explore(|| {
        let world = World::new(1);
        let pool = pool(1);
        let mut ring = ring(&world, &pool);
        let mut tally = Tally::default();
        prepare(&mut ring, 1);
        ring.submit().expect("submit");
        let interrupter = ring.interrupter();
        let other = spawn(move || interrupter.interrupt());
        let mut interrupted = 0;
        while let Err(errno) = ring.wait(1, None) {
            assert_eq!(errno, Errno::EINTR);
            interrupted += 1;
        }
        assert!(interrupted <= 1);
        tally.take(&mut ring);
        tally.assert_once([1]);
        join(other);
        drop(ring);
        assert_at_rest(&world, pool);
    });
}

#[test]
fn two_rings_share_one_worker() {
    explore(|| {
        let world = World::new(2);
        let pool = pool(1);
        let owners = [1, 2].map(|number| {
            let mut ring = ring(&world, &pool);
            spawn(move || {
                let mut tally = Tally::default();
                prepare(&mut ring, number);
                ring.submit_and_wait(1).expect("wait");
                tally.take(&mut ring);
                tally.assert_once([usize::from(number)]);
            })
        });
        owners.into_iter().for_each(join);
        assert_at_rest(&world, pool);
    });
}

fn async_task(world: &World, pool: &Pool, places: u32) -> AsyncTask {
    let mut options = RingOptions::default();
    options.entries = places;
    options.completions = places;
    AsyncTask::new(world.task(), pool, options).expect("an asynchronous task")
}

#[test]
fn a_future_that_waits_for_a_slot_gets_one() {
    explore_often(2, || {
        let world = World::new(2);
        let pool = pool(2);
        let task = async_task(&world, &pool, 1);
        let names = [name(true, 1), name(true, 2)];
        let mut opens = names
            .each_ref()
            .map(|path| (Box::pin(task.local().open(path, O_RDONLY, 0)), None));
        block_on(poll_fn(|cx| {
            for (open, got) in opens.iter_mut().filter(|(_, got)| got.is_none()) {
                if let Poll::Ready(fd) = open.as_mut().poll(cx) {
                    *got = Some(fd.expect("open"));
                }
            }
            match opens.iter().all(|(_, got)| got.is_some()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        }));
        for (number, (_, fd)) in (1..).zip(&opens) {
            let fd = fd.expect("the open failed");
            assert_eq!(number_at(task.task(), fd), Ok(number));
        }
        drop(opens);
        assert_eq!(task.in_flight(), 0);
        drop(task);
        assert_at_rest(&world, pool);
    });
}

#[test]
fn a_dropped_future_leaves_nothing_and_frees_its_slot() {
    explore_often(2, || {
        let world = World::new(2);
        let pool = pool(2);
        let task = async_task(&world, &pool, 1);
        let (first, second) = (name(true, 1), name(true, 2));
        let mut waits = 0;
        {
            let mut dropped = pin!(task.local().open(&first, O_RDONLY, 0));
            block_on(poll_fn(|cx| {
                waits += u8::from(dropped.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            }));
        }
        assert_eq!(waits, 1, "a file with an open hook did not go to a worker");
        let fd = block_on(task.local().open(&second, O_RDONLY, 0)).expect("open");
        assert_eq!(number_at(task.task(), fd), Ok(2));
        assert_eq!(task.task().descriptors(), [fd]);
        let task = task.into_task();
        assert_eq!(task.descriptors(), [fd]);
        drop(task);
        assert_at_rest(&world, pool);
    });
}

/// A file that a task has locked, and a ring that has it open.
fn locked(vfs: &Vfs, pool: &Pool) -> (Task, Ring, Fd) {
    let [holder, owner] = [(); 2].map(|()| vfs.task(Cred::root()).expect("a task"));
    let fd = holder.open(b"/f", O_CREAT | O_RDWR, 0o666).expect("a file");
    assert_eq!(owner.open(b"/f", O_RDWR, 0), Ok(fd));
    holder.fcntl_setlk(fd, &WRITE).expect("a lock");
    let ring = Ring::new(owner, pool, RingOptions::default()).expect("a ring");
    (holder, ring, fd)
}

#[test]
fn a_wait_for_a_lock_completes_once_by_unlock_or_cancel() {
    explore_often(2, || {
        let vfs = build(MemFs::new(MemOptions::default()));
        let pool = pool(1);
        let (holder, mut ring, fd) = locked(&vfs, &pool);
        let wait = Sqe::fcntl_setlkw(fd, WRITE).user_data(1);
        ring.prepare(wait).expect("room");
        assert_eq!(ring.submit(), Ok(1));
        let frees = spawn(move || holder.close(fd).expect("closed"));
        let cancelled = ring.cancel_now(Cancel::UserData(1));
        assert!(cancelled <= 1);
        assert_eq!(ring.wait(1, None), Ok(1));
        let result = ring.next_completion().expect("one").result;
        assert!(matches!(result, Ok(0) | Err(Errno::ECANCELED)));
        assert!(ring.next_completion().is_none() && ring.in_flight() == 0);
        join(frees);
        assert_eq!(vfs.locks().len(), usize::from(result.is_ok()));
        drop(ring);
        assert!(vfs.locks().is_empty());
        assert_eq!(vfs.root_tenant().stats().locks, 0);
        drop(pool);
    });
}

#[test]
fn a_wait_for_a_lock_loses_no_wake_up_and_ends_with_its_ring() {
    explore_often(2, || {
        let vfs = build(MemFs::new(MemOptions::default()));
        let pool = pool(1);
        for goes in [false, true] {
            let (holder, mut ring, fd) = locked(&vfs, &pool);
            ring.prepare(Sqe::fcntl_setlkw(fd, WRITE)).expect("room");
            assert_eq!(ring.submit(), Ok(1));
            let frees = spawn(move || holder.close(fd).expect("closed"));
            if !goes {
                assert_eq!(ring.wait(1, None), Ok(1));
                assert_eq!(ring.next_completion().map(|cqe| cqe.result), Some(Ok(0)));
            }
            drop(ring);
            join(frees);
            assert!(vfs.locks().is_empty());
            assert_eq!(vfs.root_tenant().stats().locks, 0);
        }
        drop(pool);
    });
}
