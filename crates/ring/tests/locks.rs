// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a request for a file lock through a ring or a future waits in the queue of the lock
//! and not in a worker, completes once, and can be cancelled.

mod common;

use common::{World, all, one, rest};
use openpath_abi::fcntl::O_RDWR;
use openpath_abi::lock::{F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN};
use openpath_abi::{Errno, Flock};
use openpath_ring::{AsyncTask, Cancel, Cqe, Destination, Ring, RingOptions, Sqe};
use openpath_vfs::{Fd, Task};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

const ALL: Flock = Flock::new(F_WRLCK, 0, 0);
const FREE: Flock = Flock::new(F_UNLCK, 0, 0);
const LONG: Duration = Duration::from_secs(60);

fn open(task: &Task) -> Fd {
    task.open(b"/d/f0", O_RDWR, 0).expect("a file")
}

/// A task that holds locks of a file, and a ring with the file open.
fn held(world: &World) -> ((Task, Fd), Ring, Fd) {
    let holder = world.task();
    let fd = open(&holder);
    holder.fcntl_setlk(fd, &ALL).expect("a lock");
    holder.flock(fd, LOCK_EX).expect("a lock");
    let ring = world.ring();
    let its = open(ring.task());
    ((holder, fd), ring, its)
}

/// How many locks are held, and how many waited for.
fn locks(world: &World) -> (usize, usize) {
    let all = world.vfs.locks();
    let waits = all.iter().filter(|lock| lock.waits).count();
    (all.len() - waits, waits)
}

/// No lock is held, waited for or charged.
fn end(world: World) {
    assert_eq!(world.vfs.locks().len(), 0);
    assert_eq!(world.vfs.root_tenant().stats().locks, 0);
    world.assert_at_rest();
}

fn submit(ring: &mut Ring, sqes: impl IntoIterator<Item = Sqe>) {
    for sqe in sqes {
        ring.prepare(sqe).expect("room");
    }
    ring.submit().expect("submitted");
}

fn results(mut done: Vec<Cqe>) -> Vec<(u64, Result<u64, Errno>)> {
    done.sort_by_key(|cqe| cqe.user_data);
    done.iter().map(|cqe| (cqe.user_data, cqe.result)).collect()
}

#[test]
fn free_locks_are_granted_at_once() {
    let world = World::new();
    let mut ring = world.ring();
    let fd = open(ring.task());
    for sqe in [
        Sqe::fcntl_setlk(fd, ALL),
        Sqe::fcntl_setlkw(fd, ALL),
        Sqe::fcntl_setlkw(fd, FREE),
        Sqe::ofd_setlk(fd, ALL),
        Sqe::ofd_setlkw(fd, ALL),
        Sqe::flock(fd, LOCK_SH),
        Sqe::flock(fd, LOCK_EX),
    ] {
        assert_eq!(one(&mut ring, sqe).result, Ok(0));
    }
    assert_eq!(locks(&world), (2, 0));
    let other = world.task();
    let its = open(&other);
    assert_eq!(other.flock(its, LOCK_SH | LOCK_NB), Err(Errno::EAGAIN));
    for (sqe, errno) in [
        (Sqe::fcntl_setlk(99, ALL), Errno::EBADF),
        (Sqe::fcntl_setlkw(99, ALL), Errno::EBADF),
        (Sqe::flock(fd, 0), Errno::EINVAL),
        (Sqe::fcntl_setlk(fd, ALL), Errno::EAGAIN),
    ] {
        assert_eq!(one(&mut ring, sqe).result, Err(errno));
    }
    assert_eq!(world.pool.threads(), 0);
    drop((ring, other));
    end(world);
}

#[test]
fn waiting_locks_take_no_worker_and_complete_when_granted() {
    let world = World::new();
    let ((holder, fd), mut ring, its) = held(&world);
    let waits = [
        Sqe::fcntl_setlkw(its, ALL).user_data(1),
        Sqe::flock(its, LOCK_EX).user_data(2),
    ];
    submit(&mut ring, waits);
    assert_eq!((ring.in_flight(), world.pool.threads()), (2, 0));
    assert_eq!(locks(&world), (2, 2));
    assert_eq!(ring.wait(1, Some(Duration::ZERO)), Err(Errno::ETIME));
    let frees = thread::spawn(move || {
        holder.fcntl_setlk(fd, &FREE).expect("freed");
        holder.flock(fd, LOCK_UN).expect("freed");
    });
    assert_eq!(ring.wait(2, Some(LONG)), Ok(2));
    frees.join().expect("freed");
    assert_eq!(results(rest(&mut ring)), [(1, Ok(0)), (2, Ok(0))]);
    assert_eq!((locks(&world), world.pool.threads()), ((2, 0), 0));
    drop(ring);
    end(world);
}

#[test]
fn the_hook_reports_a_granted_lock() {
    let world = World::new();
    let ((holder, fd), mut ring, its) = held(&world);
    let (woken, received) = mpsc::channel();
    ring.on_completion(move || {
        let _gone = woken.send(());
    });
    submit(&mut ring, [Sqe::fcntl_setlkw(its, ALL).user_data(1)]);
    assert!(ring.next_completion().is_none() && received.try_recv().is_err());
    holder.fcntl_setlk(fd, &FREE).expect("freed");
    received.recv_timeout(LONG).expect("told");
    assert_eq!(ring.next_completion().map(|cqe| cqe.result), Some(Ok(0)));
    drop((ring, holder));
    end(world);
}

#[test]
fn a_cancelled_lock_leaves_its_queue() {
    let world = World::new();
    let ((holder, fd), mut ring, its) = held(&world);
    for which in [Cancel::UserData(1), Cancel::File(its.into()), Cancel::Any] {
        let wait = Sqe::fcntl_setlkw(its, ALL).user_data(1);
        submit(&mut ring, [wait, Sqe::cancel(which).user_data(2)]);
        let done = results(rest(&mut ring));
        assert_eq!(done[0], (1, Err(Errno::ECANCELED)), "{which:?}");
        assert!(done[1].1.is_ok());
        assert_eq!(locks(&world), (2, 0));
        submit(&mut ring, [Sqe::flock(its, LOCK_SH).user_data(1)]);
        assert_eq!(ring.cancel_now(which), 1);
        assert_eq!(results(rest(&mut ring)), [(1, Err(Errno::ECANCELED))]);
    }
    // A lock that was granted already is kept.
    submit(&mut ring, [Sqe::fcntl_setlkw(its, ALL).user_data(1)]);
    holder.fcntl_setlk(fd, &FREE).expect("freed");
    ring.prepare(Sqe::cancel(Cancel::UserData(1)).user_data(2))
        .expect("room");
    ring.submit().expect("submitted");
    let done = results(rest(&mut ring));
    assert_eq!(done, [(1, Ok(0)), (2, Err(Errno::ENOENT))]);
    assert_eq!(holder.fcntl_setlk(fd, &ALL), Err(Errno::EAGAIN));
    drop((ring, holder));
    end(world);
}

#[test]
fn a_lock_granted_before_its_cancel_completes_with_its_result() {
    for closes in [false, true] {
        let world = World::new();
        let mut ring = world.ring();
        let (its, other) = (open(ring.task()), open(ring.task()));
        ring.task().ofd_setlk(other, &ALL).expect("a lock");
        let mut batch = vec![
            Sqe::fcntl_setlkw(its, ALL).user_data(1),
            Sqe::ofd_setlk(other, FREE).user_data(2),
            Sqe::cancel(Cancel::UserData(1)).user_data(3),
        ];
        if closes {
            batch.insert(2, Sqe::close(its).user_data(4));
        }
        submit(&mut ring, batch);
        let done = results(rest(&mut ring));
        let woken = if closes { Err(Errno::EBADF) } else { Ok(0) };
        assert_eq!((done[0], done[2]), ((1, woken), (3, Err(Errno::EALREADY))));
        assert_eq!(locks(&world), (usize::from(!closes), 0));
        drop(ring);
        end(world);
    }
}

#[test]
fn a_linked_time_out_ends_the_wait() {
    let world = World::new();
    let ((holder, _), mut ring, its) = held(&world);
    let done = all(
        &mut ring,
        [
            Sqe::fcntl_setlkw(its, ALL).user_data(1).link(),
            Sqe::link_timeout(Duration::from_millis(20)).user_data(2),
        ],
    );
    let want = [(1, Err(Errno::ECANCELED)), (2, Err(Errno::ETIME))];
    assert_eq!((results(done), locks(&world)), (want.to_vec(), (2, 0)));
    drop(holder);
    let done = all(
        &mut ring,
        [
            Sqe::fcntl_setlkw(its, ALL).user_data(1).link(),
            Sqe::link_timeout(LONG).user_data(2),
        ],
    );
    assert_eq!(results(done), [(1, Ok(0)), (2, Err(Errno::ECANCELED))]);
    drop(ring);
    end(world);
}

#[test]
fn a_chain_continues_if_its_lock_is_granted() {
    let world = World::new();
    let ((holder, fd), mut ring, its) = held(&world);
    let chain = || {
        [
            Sqe::fcntl_setlkw(its, ALL).user_data(1).link(),
            Sqe::write(its, &b"mine"[..], 0).user_data(2).link(),
            Sqe::fcntl_setlk(its, FREE).user_data(3),
        ]
    };
    submit(&mut ring, chain());
    assert_eq!(ring.in_flight(), 3);
    holder.fcntl_setlk(fd, &FREE).expect("freed");
    assert_eq!(
        results(rest(&mut ring)),
        [(1, Ok(0)), (2, Ok(4)), (3, Ok(0))]
    );
    holder.fcntl_setlk(fd, &ALL).expect("free again");
    submit(&mut ring, chain());
    assert_eq!(ring.cancel_now(Cancel::UserData(1)), 1);
    let none = Err(Errno::ECANCELED);
    assert_eq!(results(rest(&mut ring)), [(1, none), (2, none), (3, none)]);
    drop((ring, holder));
    end(world);
}

#[test]
fn a_close_and_a_deadlock_are_reported() {
    let world = World::new();
    let ((holder, fd), mut ring, its) = held(&world);
    let close = Sqe::close(its).user_data(2);
    submit(&mut ring, [Sqe::fcntl_setlkw(its, ALL).user_data(1), close]);
    holder.fcntl_setlk(fd, &FREE).expect("freed");
    assert_eq!(
        results(rest(&mut ring)),
        [(1, Err(Errno::EBADF)), (2, Ok(0))]
    );
    assert_eq!(locks(&world), (1, 0), "the one of flock");
    let its = open(ring.task());
    let (first, second) = (Flock::new(F_WRLCK, 0, 1), Flock::new(F_WRLCK, 1, 1));
    holder.fcntl_setlk(fd, &first).expect("a lock");
    ring.task().fcntl_setlk(its, &second).expect("a lock");
    submit(&mut ring, [Sqe::fcntl_setlkw(its, first).user_data(1)]);
    assert_eq!(holder.fcntl_setlkw(fd, &second), Err(Errno::EDEADLK));
    holder.fcntl_setlk(fd, &FREE).expect("freed");
    assert_eq!(results(rest(&mut ring)), [(1, Ok(0))]);
    drop((ring, holder));
    end(world);
}

#[test]
fn a_lock_of_a_slot_belongs_to_the_direct_table() {
    let world = World::new();
    let mut ring = world.ring_with(|options| options.slots = 2);
    let fd = open(ring.task());
    let slot = openpath_ring::File::Slot(0);
    assert_eq!(
        one(&mut ring, Sqe::files_update(fd, Destination::Slot(0))).result,
        Ok(0)
    );
    assert_eq!(one(&mut ring, Sqe::fcntl_setlk(slot, ALL)).result, Ok(0));
    submit(&mut ring, [Sqe::fcntl_setlkw(fd, ALL).user_data(1)]);
    assert_eq!(locks(&world), (1, 1));
    submit(&mut ring, [Sqe::close(slot).user_data(2)]);
    assert_eq!(results(rest(&mut ring)), [(1, Ok(0)), (2, Ok(0))]);
    drop(ring);
    end(world);
}

#[test]
fn a_dropped_ring_leaves_the_queues_of_locks() {
    let world = World::new();
    let ((holder, fd), mut ring, its) = held(&world);
    submit(
        &mut ring,
        [Sqe::fcntl_setlkw(its, ALL), Sqe::ofd_setlkw(its, ALL)],
    );
    assert_eq!(locks(&world), (2, 2));
    let task = ring.into_task();
    assert_eq!(locks(&world), (2, 0));
    // A lock that was granted and not reported is freed.
    let mut ring = Ring::new(task, &world.pool, RingOptions::default()).expect("a ring");
    submit(&mut ring, [Sqe::fcntl_setlkw(its, ALL)]);
    holder.fcntl_setlk(fd, &FREE).expect("freed");
    assert_eq!(locks(&world), (2, 0));
    drop(ring);
    assert_eq!(locks(&world), (1, 0));
    drop(holder);
    end(world);
}

#[test]
fn very_many_waiting_locks_complete_once_each() {
    const MANY: u64 = 2000;
    let world = World::new();
    let holder = world.task();
    let fd = open(&holder);
    holder.fcntl_setlk(fd, &ALL).expect("a lock");
    let mut ring = world.ring_with(|options| options.entries = MANY as u32);
    let fds: Vec<Fd> = (0..10).map(|_| open(ring.task())).collect();
    let one_byte = |n: u64| Flock::new(F_WRLCK, n as i64, 1);
    let waits = (0..MANY).map(|n| {
        let fd = fds[(n % 10) as usize];
        Sqe::ofd_setlkw(fd, one_byte(n)).user_data(n)
    });
    submit(&mut ring, waits);
    assert_eq!((ring.in_flight(), world.pool.threads()), (MANY as usize, 0));
    assert_eq!(ring.cancel_now(Cancel::UserData(7)), 1);
    holder.close(fd).expect("closed");
    let done = results(rest(&mut ring));
    assert_eq!(done.len(), MANY as usize);
    for (n, result) in done {
        let want = if n == 7 { Err(Errno::ECANCELED) } else { Ok(0) };
        assert_eq!(result, want, "{n}");
    }
    drop(ring);
    drop(holder);
    end(world);
}

struct CountingWaker(AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

#[test]
fn a_future_waits_for_its_lock_and_leaves_the_queue_on_drop() {
    let world = World::new();
    let holder = world.task();
    let fd = open(&holder);
    holder.fcntl_setlk(fd, &ALL).expect("a lock");
    holder.flock(fd, LOCK_EX).expect("a lock");
    let options = RingOptions::default();
    let task = AsyncTask::new(world.task(), &world.pool, options).expect("a task");
    let its = open(task.task());
    let woken = Arc::new(CountingWaker(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&woken));
    {
        let local = task.local();
        let mut record = pin!(local.fcntl_setlkw(its, ALL));
        let mut whole = pin!(local.flock(its, LOCK_EX));
        let mut dropped = Box::pin(local.ofd_setlkw(its, ALL));
        assert!(poll(record.as_mut(), &waker).is_pending());
        assert!(poll(whole.as_mut(), &waker).is_pending());
        assert!(poll(dropped.as_mut(), &waker).is_pending());
        assert_eq!(locks(&world), (2, 3));
        drop(dropped);
        assert_eq!(locks(&world), (2, 2));
        holder.close(fd).expect("closed");
        assert_eq!(woken.0.load(Ordering::SeqCst), 2);
        assert_eq!(poll(record.as_mut(), &waker), Poll::Ready(Ok(())));
        assert_eq!(poll(whole.as_mut(), &waker), Poll::Ready(Ok(())));
    }
    assert_eq!((locks(&world), world.pool.threads()), ((2, 0), 0));
    drop((task, holder));
    end(world);
}
