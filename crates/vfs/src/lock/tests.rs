// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests which waiters for a file lock a release or a lowered lock wakes (all that nothing blocks
//! any more, and no others), and that circles of waits get `EDEADLK`. An interrupted or finished
//! wait must leave no waiter and no entry of the wait-for graph.

use super::context::LockContext;
use super::graph::Graph;
use super::queue::Queue;
use super::ranges::{LockRequest, Ranges};
use super::wait::{Wakes, WhenBlocked};
use super::waiter_charge::WaiterCharge;
use crate::instance::{Shared, Vfs};
use crate::lock_call::LockKind::{Read, Write};
use crate::lock_call::{LockKind, LockOwner, Range};
use crate::mount::rootfs;
use crate::tenant::TenantRef;
use openpath_abi::{Errno, Timespec};
use openpath_sync::{Mutex, Waiter};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

fn vfs() -> Vfs {
    let root = rootfs(Timespec::new(0, 0));
    Vfs::builder().build(root).expect("a Vfs")
}

fn context() -> LockContext {
    LockContext {
        place: (0, 0),
        state: Mutex::default(),
        leases: Mutex::default(),
    }
}

fn ask(vfs: &Vfs, owner: u64, start: i64, end: i64, kind: LockKind) -> LockRequest {
    LockRequest {
        owner: LockOwner::Table(owner),
        range: Range { start, end },
        kind,
        pid: owner as i32,
        tenant: TenantRef::new(&vfs.root_tenant()),
        charge: WaiterCharge::default(),
    }
}

/// One that is waited for by ten thousand, without their threads.
#[test]
fn each_release_wakes_one_of_ten_thousand() {
    const MANY: u64 = 10_000;
    let vfs = vfs();
    let (mut ranges, mut queue, mut graph) =
        (Ranges::default(), Queue::default(), Graph::default());
    ranges.set(ask(&vfs, 0, 0, 9, Write)).expect("a lock");
    for owner in 1..=MANY {
        let ask = ask(&vfs, owner, 0, 9, Write);
        let place = queue.enter(ask, &ranges, &mut graph, 10, || 7, &mut Wakes::new());
        assert!(place.is_ok());
    }
    for owner in 0..MANY {
        let freed = ranges.free_all(LockOwner::Table(owner)).expect("its lock");
        let mut wakes = Wakes::new();
        queue.settle(freed, &mut ranges, &mut graph, 10, &mut wakes);
        assert_eq!(wakes.len(), 1);
        let next = ranges.iter().next().map(|held| held.owner);
        assert_eq!(next, Some(LockOwner::Table(owner + 1)), "the first waiter");
    }
    assert!(queue.is_empty() && graph.is_empty());
}

/// One owner that waits in many lines, each of which it leaves by itself.
#[test]
fn many_waits_of_one_owner_end_in_any_order() {
    const MANY: u64 = 50_000;
    let owner = LockOwner::Table(1);
    let mut graph = Graph::default();
    let waits: Vec<u64> = (0..MANY).map(|at| graph.enter(owner, at % 100)).collect();
    for line in 0..100 {
        assert_eq!(graph.waits_in(owner, line), Some(waits[line as usize]));
    }
    // From both ends: a list would be gone through for each.
    for at in 0..MANY / 2 {
        for at in [at, MANY - 1 - at] {
            graph.leave(owner, at % 100, waits[at as usize]);
        }
    }
    assert!(graph.is_empty());
}

impl LockContext {
    /// Gives the owner the lock now, or with `wait` when nothing blocks it any more; `wait` is the
    /// sleeping thread.
    fn set(&self, vfs: &Shared, ask: LockRequest, wait: Option<&Waiter>) -> Result<(), Errno> {
        match (self.ask(&vfs.locks, ask, WhenBlocked::asleep(wait))?, wait) {
            (Some(place), Some(sleeper)) => self.wait(&vfs.locks, &place, sleeper),
            _ => Ok(()),
        }
    }
}

struct Scene {
    vfs: Vfs,
    files: [LockContext; 13],
}

impl Scene {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            vfs: vfs(),
            files: core::array::from_fn(|_| context()),
        })
    }

    fn set(&self, file: usize, owner: u64, kind: LockKind) -> Result<(), Errno> {
        let ask = ask(&self.vfs, owner, 0, 9, kind);
        self.files[file].set(&self.vfs.0, ask, None)
    }

    fn free(&self, file: usize, owner: u64) {
        self.files[file].free_all(&self.vfs.0.locks, LockOwner::Table(owner));
    }

    /// Waits in a thread of its own; what comes of it, and how to interrupt it.
    fn wait(
        self: &Arc<Self>,
        file: usize,
        owner: u64,
        kind: LockKind,
    ) -> (Receiver<Result<(), Errno>>, Waiter) {
        let before = self.waiting(file);
        let started = self.start(file, owner, kind);
        while self.waiting(file) == before {
            thread::yield_now();
        }
        started
    }

    /// The same, whether or not it waits.
    fn start(
        self: &Arc<Self>,
        file: usize,
        owner: u64,
        kind: LockKind,
    ) -> (Receiver<Result<(), Errno>>, Waiter) {
        let (told, heard) = channel();
        let (scene, sleeper) = (Arc::clone(self), Waiter::default());
        let own = sleeper.clone();
        thread::spawn(move || {
            let ask = ask(&scene.vfs, owner, 0, 9, kind);
            let done = scene.files[file].set(&scene.vfs.0, ask, Some(&own));
            // The asking thread may have gone.
            let _heard = told.send(done);
        });
        (heard, sleeper)
    }

    fn waiting(&self, file: usize) -> usize {
        let state = self.files[file].state.lock();
        let [records, _] = state.lists();
        records.queue.iter().count()
    }

    fn is_quiet(&self) -> bool {
        let nobody = (0..self.files.len()).all(|file| self.waiting(file) == 0);
        nobody && self.vfs.0.locks.graph.lock().is_empty()
    }
}

const SOON: Duration = Duration::from_secs(20);
const A_WHILE: Duration = Duration::from_millis(20);

#[test]
fn all_who_can_go_on_do_and_nobody_else() {
    let scene = Scene::new();
    assert_eq!(scene.set(0, 1, Write), Ok(()));
    let (writer, _) = scene.wait(0, 2, Write);
    let readers = [3, 4, 5].map(|owner| scene.wait(0, owner, Read));
    // Lowered: readers go on, past the writer that came first.
    assert_eq!(scene.set(0, 1, Read), Ok(()));
    for (reader, _) in &readers {
        assert_eq!(reader.recv_timeout(SOON), Ok(Ok(())));
    }
    for owner in [1, 3, 4] {
        scene.free(0, owner);
        assert!(writer.recv_timeout(A_WHILE).is_err());
    }
    scene.free(0, 5);
    assert_eq!(writer.recv_timeout(SOON), Ok(Ok(())));
    assert!(scene.is_quiet());
}

#[test]
fn a_grant_that_lowers_a_lock_lets_others_go_on() {
    let vfs = vfs();
    let (mut ranges, mut queue, mut graph) =
        (Ranges::default(), Queue::default(), Graph::default());
    for ask in [ask(&vfs, 1, 0, 9, Write), ask(&vfs, 2, 10, 19, Write)] {
        assert_eq!(ranges.set(ask), Ok(false));
    }
    // 3 wants nothing of what 2 frees, but what 1 lowers when it gets the rest.
    for (line, ask) in [ask(&vfs, 1, 0, 19, Read), ask(&vfs, 3, 0, 9, Read)]
        .into_iter()
        .enumerate()
    {
        let place = queue.enter(
            ask,
            &ranges,
            &mut graph,
            10,
            || line as u64,
            &mut Wakes::new(),
        );
        assert!(place.is_ok());
    }
    let freed = ranges.free_all(LockOwner::Table(2)).expect("its lock");
    let mut wakes = Wakes::new();
    queue.settle(freed, &mut ranges, &mut graph, 10, &mut wakes);
    assert_eq!(wakes.len(), 2);
    assert!(queue.is_empty() && graph.is_empty());
}

#[test]
fn who_is_interrupted_leaves_nothing() {
    let scene = Scene::new();
    assert_eq!(scene.set(0, 1, Write), Ok(()));
    let (waits, sleeper) = scene.wait(0, 2, Write);
    let (other, _) = scene.wait(0, 3, Write);
    sleeper.interrupt();
    assert_eq!(waits.recv_timeout(SOON), Ok(Err(Errno::EINTR)));
    assert_eq!((scene.waiting(0), sleeper.withdraw()), (1, false));
    scene.free(0, 1);
    assert_eq!(other.recv_timeout(SOON), Ok(Ok(())));
    assert!(scene.is_quiet());
}

#[test]
fn who_holds_a_part_may_raise_it_before_others() {
    let scene = Scene::new();
    assert_eq!(scene.set(0, 1, Read), Ok(()));
    assert_eq!(scene.set(0, 2, Read), Ok(()));
    let (stranger, _) = scene.wait(0, 3, Write);
    let (raises, _) = scene.wait(0, 1, Write);
    scene.free(0, 2);
    assert_eq!(raises.recv_timeout(SOON), Ok(Ok(())));
    assert!(stranger.recv_timeout(A_WHILE).is_err());
    scene.free(0, 1);
    assert_eq!(stranger.recv_timeout(SOON), Ok(Ok(())));
    assert!(scene.is_quiet());
}

/// Owner n holds file n and waits for file n - 1: a chain that ends at owner 0.
fn chain(scene: &Arc<Scene>, length: u64) -> Vec<(Receiver<Result<(), Errno>>, Waiter)> {
    for owner in 0..=length {
        assert_eq!(scene.set(owner as usize, owner, Write), Ok(()));
    }
    let links = 1..=length;
    links
        .map(|owner| scene.wait(owner as usize - 1, owner, Write))
        .collect()
}

#[test]
fn a_circle_is_refused_if_it_is_found_in_as_many_hops_as_linux_makes() {
    for length in [1, 2, 10, 11, 12] {
        let scene = Scene::new();
        let waits = chain(&scene, length);
        let last = length as usize;
        let closes = ask(&scene.vfs, 0, 0, 9, Write);
        let found = thread::scope(|s| {
            let sleeper = Waiter::default();
            let own = sleeper.clone();
            let scene = &scene;
            let asks = s.spawn(move || scene.files[last].set(&scene.vfs.0, closes, Some(&own)));
            while !asks.is_finished() && scene.waiting(last) == 0 {
                thread::yield_now();
            }
            let waited = scene.waiting(last) != 0;
            sleeper.interrupt();
            let done = asks.join().expect("a thread");
            assert_eq!(
                done,
                Err(if waited { Errno::EINTR } else { Errno::EDEADLK })
            );
            !waited
        });
        assert_eq!(found, length <= 11, "{length} waiters");
        for owner in 0..=length {
            scene.free(owner as usize, owner);
        }
        for (waits, _) in waits {
            assert_eq!(waits.recv_timeout(SOON), Ok(Ok(())));
        }
        assert!(scene.is_quiet());
    }
}

#[test]
fn a_circle_that_closes_while_one_waits_is_refused_to_him() {
    let scene = Scene::new();
    assert_eq!(scene.set(0, 1, Read), Ok(()));
    assert_eq!(scene.set(0, 2, Read), Ok(()));
    assert_eq!(scene.set(1, 3, Write), Ok(()));
    // In the way of 3 is 1 first, and 2 waits for 3, of which 1 knows nothing.
    let (three, _) = scene.wait(0, 3, Write);
    let (two, _) = scene.wait(1, 2, Write);
    scene.free(0, 1);
    assert_eq!(three.recv_timeout(SOON), Ok(Err(Errno::EDEADLK)));
    scene.free(1, 3);
    assert_eq!(two.recv_timeout(SOON), Ok(Ok(())));
    assert!(scene.is_quiet());
}

#[test]
fn a_circle_that_another_who_waits_makes_visible_is_refused() {
    let scene = Scene::new();
    // 1 comes before 2, but has some of what 3 wants only when 3 waits already.
    let set = |owner, start, end| {
        let ask = ask(&scene.vfs, owner, start, end, Read);
        scene.files[0].set(&scene.vfs.0, ask, None)
    };
    assert_eq!(set(1, 20, 29), Ok(()));
    assert_eq!(set(2, 0, 9), Ok(()));
    assert_eq!(scene.set(1, 3, Write), Ok(()));
    let (three, _) = scene.wait(0, 3, Write);
    assert_eq!(set(1, 0, 9), Ok(()));
    let (one, _) = scene.wait(1, 1, Write);
    let before = scene.waiting(0);
    // Its line waits for 1 from now on.
    let (four, sleeper) = scene.start(0, 4, Write);
    assert_eq!(three.recv_timeout(SOON), Ok(Err(Errno::EDEADLK)));
    assert_eq!(scene.waiting(0), before);
    sleeper.interrupt();
    assert_eq!(four.recv_timeout(SOON), Ok(Err(Errno::EINTR)));
    scene.free(1, 3);
    assert_eq!(one.recv_timeout(SOON), Ok(Ok(())));
    assert!(scene.is_quiet());
}

#[test]
fn threads_that_take_turns_and_are_interrupted_lose_nothing() {
    let scene = Scene::new();
    let total = thread::scope(|s| {
        let threads: Vec<_> = (1..=8_u64)
            .map(|owner| {
                let scene = &scene;
                s.spawn(move || {
                    let (sleeper, mut served) = (Waiter::default(), 0_u32);
                    for turn in 0..300_u64 {
                        if (turn + owner).is_multiple_of(5) {
                            sleeper.interrupt();
                        }
                        let kind = if turn.is_multiple_of(3) { Read } else { Write };
                        let ask = ask(&scene.vfs, owner, turn as i64 % 4, 9, kind);
                        match scene.files[0].set(&scene.vfs.0, ask, Some(&sleeper)) {
                            Ok(()) => served += 1,
                            other => assert_eq!(other, Err(Errno::EINTR)),
                        }
                        scene.free(0, owner);
                    }
                    served
                })
            })
            .collect();
        let served = threads
            .into_iter()
            .map(|thread| thread.join().expect("a thread"));
        served.sum::<u32>()
    });
    assert!(total > 0 && scene.is_quiet());
    assert_eq!(scene.vfs.root_tenant().stats().locks, 0);
}
