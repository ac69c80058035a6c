// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests random calls of two or three threads on one descriptor table: a sequential order explains
//! every history, and nothing is left at the end.

use crate::backend::{World, name};
use crate::history::{Counter, History, table};
use crate::model::Call;
use crate::{explore_often, join, spawn};
use openpath_abi::fcntl::O_RDONLY;
use openpath_vfs::Task;
use shuttle::rand::{Rng, thread_rng};

/// The descriptors that calls name: most are open, or will be soon.
const FDS: i32 = 5;

fn fd() -> i32 {
    thread_rng().gen_range(0..FDS)
}

/// A random call, which opens `file` if it opens a file.
fn any_call(file: u8) -> Call {
    let coin = thread_rng().gen_range(0..2) == 0;
    match thread_rng().gen_range(0..20) {
        0..=4 => Call::Open {
            hooked: coin,
            file,
            cloexec: thread_rng().gen_range(0..2) == 0,
        },
        5 => Call::OpenNothing,
        6..=8 => Call::Close(fd()),
        9 | 10 => Call::Dup(fd()),
        11 => Call::DupFrom(fd(), fd()),
        12..=14 => Call::DupTo(fd(), fd(), coin),
        15 => {
            let first = fd();
            Call::CloseRange(first, first + thread_rng().gen_range(0..3))
        }
        16 | 17 => Call::Read(fd()),
        18 => Call::SetCloexec(fd(), coin),
        _ => [Call::List, Call::Fork, Call::Share][thread_rng().gen_range(0..3)],
    }
}

/// The calls of a thread; the last one may leave the table.
fn any_calls(thread: u8, calls: u8, leaves: bool) -> Vec<Call> {
    let mut all: Vec<_> = (0..calls)
        .map(|n| any_call(3 + thread * calls + n))
        .collect();
    if leaves {
        all.push([Call::Unshare, Call::Exec][thread_rng().gen_range(0..2)]);
        all.push(Call::Close(fd()));
    }
    all
}

/// A task with descriptors 0 and 1 open, and 2 as a duplicate of 0.
fn begin(world: &World) -> Task {
    let task = world.task();
    for file in 1..=2 {
        task.open(&name(true, file), O_RDONLY, 0).expect("open");
    }
    task.dup(0).expect("dup");
    task
}

/// Makes random calls in `threads` threads.
fn random(threads: u8, calls: u8, limit: i32, leaves: bool) {
    let world = World::new(3 + threads * calls);
    let task = begin(&world);
    for file in (4..3 + threads * calls).step_by(2) {
        // Half of the names are cached.
        task.stat(&name(false, file)).expect("stat");
    }
    task.set_rlimit_nofile(limit as u64);
    let before = table(&task);
    let watch = Counter::default();
    let spawned: Vec<_> = (0..threads)
        .map(|thread| {
            let other = task.clone_files().expect("a task");
            let calls = any_calls(thread, calls, leaves && thread == 0);
            let watch = watch.clone();
            spawn(move || watch.run(&other, &calls))
        })
        .collect();
    let history = History {
        threads: spawned.into_iter().map(join).collect(),
        after: table(&task),
        before,
        limit,
    };
    history.assert_explained();
    drop(task);
    world.assert_at_rest();
}

#[test]
fn two_threads_with_free_descriptors_have_a_sequential_history() {
    explore_often(4, || random(2, 4, 1024, false));
}

#[test]
fn three_threads_with_free_descriptors_have_a_sequential_history() {
    explore_often(4, || random(3, 3, 1024, false));
}

#[test]
fn three_threads_at_the_limit_have_a_sequential_history() {
    explore_often(2, || random(3, 3, 4, false));
}

#[test]
fn two_threads_of_which_one_leaves_have_a_sequential_history() {
    explore_often(2, || random(2, 3, 1024, true));
}

#[test]
fn three_threads_of_which_one_leaves_have_a_sequential_history() {
    explore_often(2, || random(3, 2, 6, true));
}
