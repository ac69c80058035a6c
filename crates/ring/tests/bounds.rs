// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a ring refuses entries beyond its bounds, that blocked calls delay no cached call and
//! leave workers to other rings, and that a dropped ring leaves nothing behind.

mod common;

use common::{World, all, one, open, over_host, rest, results};
use openpath_abi::Errno;
use openpath_ring::{Cancel, Pool, PoolOptions, Ring, RingOptions, Sqe};
use std::sync::mpsc;
use std::time::Duration;

fn pool(set: impl FnOnce(&mut PoolOptions)) -> World {
    let mut options = PoolOptions::default();
    set(&mut options);
    World::with(options, false)
}

/// Submits opens that block at the gate.
fn block(ring: &mut Ring, count: u64) {
    for n in 0..count {
        ring.prepare(open(&format!("/slow/w{n}")).user_data(n))
            .expect("room");
    }
    assert_eq!(ring.submit(), Ok(count as usize));
}

#[test]
fn blocked_lookups_delay_no_cached_open_of_any_tenant() {
    let world = pool(|options| options.threads_max = 8);
    let mut blocked = world.ring();
    block(&mut blocked, 100);
    world.gate.await_waiting(6);
    let other = world.vfs.tenant(Default::default());
    let mut rings = [world.ring(), world.ring()];
    rings[1]
        .task()
        .set_tenant(&other)
        .expect("a tenant of this Vfs");
    for ring in &mut rings {
        for n in 0..1000 {
            let done = all(ring, [open(&format!("/d/f{}", n % 10)), Sqe::close(0)]);
            assert!(done.iter().all(|cqe| cqe.result == Ok(0)));
        }
    }
    for sqe in [open("/d/f0").user_data(500), Sqe::close(0).user_data(500)] {
        blocked.prepare(sqe).unwrap();
    }
    blocked.submit().unwrap();
    // Closes of the host may wait.
    let left = usize::from(over_host());
    assert_eq!(blocked.ready(), 2 - left, "nor of the same ring");
    let stats = world.pool.stats();
    assert_eq!(
        (stats.queued, stats.threads <= 8),
        (94 + left, true),
        "six are blocked"
    );
    assert_eq!(other.stats().activity.opens_inline, 1000);
    assert_eq!(
        world.vfs.root_tenant().stats().activity.opens_offloaded,
        100
    );
    world.gate.open();
    assert_eq!(rest(&mut blocked).len(), 102);
    drop((blocked, rings));
    world.assert_at_rest();
}

#[test]
fn a_ring_with_many_blocked_calls_leaves_workers_to_others() {
    let world = pool(|options| options.threads_max = 4);
    let mut hog = world.ring();
    block(&mut hog, 100);
    world.gate.await_waiting(3);
    let mut other = world.ring();
    for n in 0..20 {
        let open = one(&mut other, open(&format!("/slow/x{n}")));
        assert_eq!(open.result, Ok(n), "a miss of another ring is served");
    }
    assert_eq!(world.pool.threads(), 4);
    world.gate.open();
    rest(&mut hog);
    drop((hog, other));
    world.assert_at_rest();
}

#[test]
fn entries_beyond_the_bounds_are_refused_and_stay_prepared() {
    let world = World::new();
    let mut ring = world.ring_with(|options| {
        options.entries = 4;
        options.completions = 4;
    });
    for n in 0..4 {
        ring.prepare(open("/slow/w").user_data(n)).unwrap();
    }
    let full = ring.prepare(Sqe::nop()).expect_err("full");
    assert_eq!(Errno::from(full), Errno::EBUSY);
    assert_eq!(ring.submit(), Ok(4));
    ring.prepare(Sqe::nop().user_data(9)).unwrap();
    assert_eq!(ring.submit(), Err(Errno::EBUSY), "every place is promised");
    world.gate.open();
    assert_eq!(ring.wait(4, None), Ok(4));
    assert_eq!(
        ring.submit(),
        Err(Errno::EBUSY),
        "or has something that was not taken"
    );
    assert!(ring.next_completion().is_some());
    assert_eq!(ring.submit(), Ok(1), "it stayed prepared");
    assert_eq!(rest(&mut ring).len(), 4);
    drop(ring);
    for (entries, completions) in [(0, 0), (1 << 16, 0), (8, 4), (8, 1 << 17)] {
        let mut options = RingOptions::default();
        options.entries = entries;
        options.completions = completions;
        let wrong = Ring::new(world.task(), &world.pool, options);
        assert_eq!(wrong.err(), Some(Errno::EINVAL));
    }
    world.assert_at_rest();
}

#[test]
fn a_full_ring_can_be_cancelled() {
    let world = World::new();
    let mut ring = world.ring_with(|options| options.entries = 2);
    for n in 0..4 {
        let time = Sqe::timeout(Duration::from_secs(600)).user_data(n);
        ring.prepare(time).unwrap();
        ring.submit().unwrap();
    }
    ring.prepare(Sqe::cancel_all(Cancel::Any)).unwrap();
    assert_eq!(ring.submit(), Err(Errno::EBUSY));
    assert_eq!(
        (
            ring.cancel_now(Cancel::UserData(2)),
            ring.cancel_now(Cancel::Any)
        ),
        (1, 3)
    );
    let done = results(std::iter::from_fn(|| ring.next_completion()).collect());
    assert_eq!(done, [0, 1, 2, 3].map(|n| (n, Err(Errno::ECANCELED))));
    drop(ring);
    world.assert_at_rest();
}

#[test]
fn a_dropped_ring_leaves_nothing_open() {
    let world = World::new();
    let mut ring = world.ring();
    block(&mut ring, 100);
    ring.prepare(open("/d/f1")).unwrap();
    ring.prepare(open("/slow/x").offload()).unwrap();
    ring.submit().unwrap();
    world.gate.await_waiting(1);
    let task = ring.into_task();
    assert_eq!(task.descriptors(), [], "nobody heard of what was opened");
    world.gate.open();
    drop(task);
    world.assert_at_rest();
}

#[test]
fn a_taken_completion_keeps_its_descriptor() {
    let world = World::new();
    let mut ring = world.ring();
    assert_eq!(one(&mut ring, open("/d/f1")).result, Ok(0));
    ring.prepare(open("/d/f2")).unwrap();
    ring.submit().unwrap();
    assert_eq!(ring.into_task().descriptors(), [0]);
    world.assert_at_rest();
}

#[test]
fn threads_are_started_on_demand_and_end_when_idle() {
    let world = pool(|options| options.idle = Duration::from_millis(20));
    let mut ring = world.ring();
    one(&mut ring, open("/slow/x"));
    assert_eq!(world.pool.stats().started, 1);
    while world.pool.threads() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(one(&mut ring, open("/slow/y")).result, Ok(1));
    assert_eq!(world.pool.stats().started, 2);
    drop(ring);
    world.assert_at_rest();
}

#[test]
fn dropping_a_pool_does_not_wait_for_stuck_calls() {
    let world = pool(|options| options.shutdown_timeout = Duration::from_millis(20));
    let mut ring = world.ring();
    block(&mut ring, 1);
    world.gate.await_waiting(1);
    let World {
        pool, gate, vfs, ..
    } = world;
    drop((ring, pool));
    gate.open();
    drop(vfs);
}

#[test]
fn a_hook_is_called_when_there_is_something_to_do() {
    let world = World::new();
    let (sender, received) = mpsc::channel();
    let mut ring = world.ring();
    ring.on_completion(move || {
        let _heard = sender.send(());
    });
    let patience = Duration::from_secs(60);
    for n in 0..50 {
        ring.prepare(open(&format!("/slow/x{n}")).user_data(n))
            .unwrap();
        ring.submit().unwrap();
        let done = loop {
            received.recv_timeout(patience).expect("the hook");
            if let Some(done) = ring.next_completion() {
                break done;
            }
        };
        assert_eq!(done.user_data, n);
    }
    ring.prepare(Sqe::timeout(Duration::from_millis(5)))
        .unwrap();
    ring.submit().unwrap();
    loop {
        received.recv_timeout(patience).expect("the hook");
        if let Some(cqe) = ring.next_completion() {
            assert_eq!(cqe.result, Err(Errno::ETIME));
            break;
        }
    }
    drop(ring);
    world.assert_at_rest();
}

#[test]
fn an_interrupt_ends_a_wait() {
    let world = World::new();
    let mut ring = world.ring();
    block(&mut ring, 1);
    let interrupter = ring.interrupter();
    let other = std::thread::spawn(move || interrupter.interrupt());
    assert_eq!(ring.wait(1, None), Err(Errno::EINTR));
    other.join().unwrap();
    assert_eq!(
        ring.wait(1, Some(Duration::from_millis(5))),
        Err(Errno::ETIME)
    );
    world.gate.open();
    assert_eq!(results(rest(&mut ring)), [(0, Ok(0))]);
    assert_eq!(ring.wait(5, None), Ok(0), "nothing is under way");
    drop(ring);
    world.assert_at_rest();
}

#[test]
fn rings_are_send_and_pools_are_shared() {
    const fn is_send<T: Send>() {}
    const fn is_shared<T: Send + Sync>() {}
    is_send::<Ring>();
    is_shared::<Pool>();
}
