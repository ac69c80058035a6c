// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests a panic at each point of an open, a close and similar calls, while another thread uses the
//! same table. The table stays consistent, no lock stays held, and at most that one file is lost.

use crate::backend::{World, name, number_at};
use crate::{config, join, setting, spawn};
use openpath_abi::Errno;
use openpath_abi::fcntl::{O_CREAT, O_PATH, O_RDONLY, O_RDWR};
use openpath_sync::fault::{self, Fault};
use openpath_vfs::Task;
use shuttle::Runner;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The call in which a thread panics.
type PanickingCall = fn(&Task) -> Result<(), Errno>;

/// The results of the schedules of one point.
#[derive(Default)]
struct Tally {
    /// Schedules in which the thread panicked.
    panicked: AtomicU64,
    /// Those of them that lost a pin.
    pins: AtomicU64,
}

/// The descriptors that are checked afterwards.
const CHECKED: i32 = 8;

/// The table of the thread that panics.
#[derive(Clone, Copy, PartialEq)]
enum VictimTable {
    /// Shared with the thread that goes on.
    Shared,
    /// Its own, with the same files.
    Own,
}

/// One schedule: a thread panics at point `point` of `call`, if it gets there.
fn panic_at(point: u64, call: PanickingCall, victim_table: VictimTable, tally: &Tally) {
    let world = World::new(6);
    let task = world.task();
    for file in 1..=3 {
        task.open(&name(file != 2, file), O_RDONLY, 0)
            .expect("open");
    }
    let bystander = task.clone_files().expect("a task");
    let victim = match victim_table {
        VictimTable::Shared => task.clone_files().expect("a task"),
        VictimTable::Own => task.fork().expect("a task"),
    };
    let victim = spawn(move || {
        fault::arm(point);
        let ended = catch_unwind(AssertUnwindSafe(|| call(&victim)));
        let passed = fault::disarm();
        if let Err(panic) = ended {
            assert!(panic.is::<Fault>(), "a panic that was not planted");
        }
        // The task works as before: another thread of the guest may use it.
        let fd = victim.open(&name(false, 3), O_RDONLY, 0).expect("open");
        assert_eq!(number_at(&victim, fd), Ok(3));
        victim.close(fd).expect("close");
        let reserved = if victim_table == VictimTable::Own {
            check_table(&victim)
        } else {
            0
        };
        (passed.is_none(), reserved)
    });
    let bystander = spawn(move || {
        let fd = bystander.open(&name(true, 4), O_RDONLY, 0).expect("open");
        assert_eq!(number_at(&bystander, fd), Ok(4));
        assert_eq!(bystander.dup2(fd, 2), Ok(2));
        bystander.close(fd).expect("close");
        assert_eq!(number_at(&bystander, 2), Ok(4));
    });
    join(bystander);
    let (panicked, reserved) = join(victim);
    assert_eq!((number_at(&task, 2), number_at(&task, 1)), (Ok(4), Ok(2)));
    let reserved = reserved + check_table(&task);
    drop(task);
    let lost = world.vfs.usage().pins - 3;
    assert!(
        lost <= usize::from(panicked) && reserved == 0,
        "{lost} pins and {reserved} descriptors lost"
    );
    world.record.assert_closed(usize::from(panicked));
    tally
        .panicked
        .fetch_add(u64::from(panicked), Ordering::Relaxed);
    tally.pins.fetch_add(lost as u64, Ordering::Relaxed);
}

/// Uses every part of the table and the names; returns the number of free descriptors that cannot
/// be claimed.
fn check_table(task: &Task) -> usize {
    let open = task.descriptors();
    for &fd in &open {
        let file = task.fstat(fd).expect("an open file");
        assert!((1..=99).contains(&file.ino));
    }
    let free = |fd: &i32| !open.contains(fd);
    let claimable = |&fd: &i32| match task.dup2(1, fd) {
        Ok(_) => task.close(fd).is_ok(),
        Err(errno) => {
            assert_eq!(errno, Errno::EBUSY);
            false
        }
    };
    let (claimable, reserved): (Vec<_>, Vec<_>) = (0..CHECKED).filter(free).partition(claimable);
    assert_eq!(
        task.dup(1).ok(),
        claimable.first().copied(),
        "not the lowest free descriptor"
    );
    task.close(claimable[0]).expect("close");
    for path in [name(true, 5), name(false, 5), b"/p99".to_vec()] {
        let fd = task.open(&path, O_CREAT | O_RDWR, 0o600).expect("open");
        task.close(fd).expect("close");
    }
    for path in [&b"/p6"[..], b"/p97", b"/p98"] {
        // The name may exist or not, but can be looked up.
        assert!(matches!(task.stat(path), Ok(_) | Err(Errno::ENOENT)));
    }
    task.unlink(b"/p99").expect("unlink");
    assert_eq!(task.stat(b"/p99").err(), Some(Errno::ENOENT));
    reserved.len()
}

/// Panics at each point of `call` in turn, in many schedules each.
fn panic_at_each_point(call: PanickingCall) -> [u64; 3] {
    let runs = setting("OPENPATH_SHUTTLE_RUNS", 300) / 20 + 1;
    let mut all = [0; 3];
    for point in 0.. {
        let tally = Arc::new(Tally::default());
        let theirs = Arc::clone(&tally);
        for victim_table in [VictimTable::Shared, VictimTable::Own] {
            let tally = Arc::clone(&theirs);
            let scenario = move || panic_at(point, call, victim_table, &tally);
            Runner::new(RandomScheduler::new(runs), config()).run(scenario.clone());
            Runner::new(PctScheduler::new(3, runs), config()).run(scenario);
        }
        let panicked = tally.panicked.load(Ordering::Relaxed);
        if panicked == 0 {
            break;
        }
        let lost = tally.pins.load(Ordering::Relaxed);
        all = [all[0] + 1, all[1] + panicked, all[2] + lost];
    }
    all
}

/// Runs `call` with a panic at each of its points, and prints the losses.
fn survives(what: &str, call: PanickingCall) {
    let [points, panics, pins] = panic_at_each_point(call);
    eprintln!("{what}: {points} points, {panics} panics, of which {pins} lost a pin");
    assert!(points > 0, "the call has no points");
}

#[test]
fn a_panic_in_a_cached_open_corrupts_nothing() {
    survives("open, cached", |task| {
        task.open(&name(false, 2), O_RDONLY, 0).map(drop)
    });
}

#[test]
fn a_panic_in_an_open_that_asks_the_back_end_corrupts_nothing() {
    survives("open, hooked", |task| {
        task.open(&name(true, 1), O_RDONLY, 0).map(drop)
    });
}

#[test]
fn a_panic_in_an_uncached_open_corrupts_nothing() {
    survives("open, not cached", |task| {
        task.open(&name(false, 6), O_RDWR, 0).map(drop)
    });
}

#[test]
fn a_panic_in_an_o_path_open_corrupts_nothing() {
    survives("open, O_PATH", |task| {
        task.open(&name(true, 3), O_PATH, 0).map(drop)
    });
}

#[test]
fn a_panic_in_a_creating_open_corrupts_nothing() {
    survives("open, O_CREAT", |task| {
        task.open(b"/h5", O_CREAT | O_RDWR, 0o600)?;
        task.open(b"/p98", O_CREAT | O_RDWR, 0o600).map(drop)
    });
}

#[test]
fn a_panic_in_a_failing_open_corrupts_nothing() {
    survives("open, failing", |task| {
        task.open(b"/p97", O_RDONLY, 0).map(drop)
    });
}

#[test]
fn a_panic_in_the_last_close_corrupts_nothing() {
    survives("close, hooked", |task| task.close(0));
}

#[test]
fn a_panic_in_a_dup_onto_an_open_descriptor_corrupts_nothing() {
    survives("dup2", |task| task.dup2(1, 0).map(drop));
}

#[test]
fn a_panic_in_a_dup_corrupts_nothing() {
    survives("dup", |task| task.dup(1).map(drop));
}

#[test]
fn a_panic_in_close_range_corrupts_nothing() {
    survives("close_range", |task| task.close_range(0, 0, 0));
}
