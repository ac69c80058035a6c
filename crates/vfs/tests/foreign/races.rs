// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that are forgotten while a backend is being asked for them, or changes them.

use super::backend::{At, Scene, scene};
use openpath_abi::Errno;
use openpath_vfs::{Caching, Task};
use std::thread;

/// Runs `call` in another thread as far as `at` in the backend, changes the tree and has the name
/// `f` forgotten there, and lets the call end.
fn meanwhile<R: Send>(
    s: &Scene,
    at: At,
    call: impl FnOnce(&Task) -> R + Send,
    change: impl FnOnce(),
) -> R {
    let gate = s.world.close_gate(at);
    let task = s.task.fork().expect("a second task");
    thread::scope(|scope| {
        let ended = scope.spawn(move || call(&task));
        gate.wait();
        change();
        // It does not wait for the call that is going on.
        s.tree.forget_name(&s.root, b"f");
        gate.open();
        ended.join().expect("the call ends")
    })
}

#[test]
fn a_lookup_that_found_nothing_is_not_believed_when_the_name_came_meanwhile() {
    let s = scene(Caching::Keep, false);
    let was = meanwhile(
        &s,
        At::Lookup,
        |task| task.stat(b"/f").err(),
        || {
            s.world.file(&s.root, "f");
        },
    );
    assert_eq!(was, Some(Errno::ENOENT));
    s.task.stat(b"/f").expect("it came");
}

#[test]
fn a_lookup_that_found_a_file_is_not_believed_when_that_went_meanwhile() {
    let s = scene(Caching::Keep, false);
    s.world.file(&s.root, "f");
    meanwhile(
        &s,
        At::Lookup,
        |task| task.stat(b"/f").map(drop),
        || s.world.take(&s.root, "f"),
    )
    .expect("stat");
    assert_eq!(s.task.stat(b"/f").err(), Some(Errno::ENOENT));
}

#[test]
fn a_confirmation_is_not_believed_when_the_name_was_forgotten_again_meanwhile() {
    let s = scene(Caching::Keep, false);
    s.world.file(&s.root, "f");
    s.task.stat(b"/f").expect("stat");
    s.tree.forget_name(&s.root, b"f");
    let _any = meanwhile(
        &s,
        At::Lookup,
        |task| task.stat(b"/f").map(drop),
        || s.world.take(&s.root, "f"),
    );
    assert_eq!(s.task.stat(b"/f").err(), Some(Errno::ENOENT));
}

#[test]
fn what_we_made_is_asked_for_when_it_was_forgotten_before_we_knew() {
    let s = scene(Caching::Keep, false);
    // The second time an absent name is cached.
    for _ in 0..2 {
        meanwhile(
            &s,
            At::Change,
            |task| task.mkdir(b"/f", 0o755),
            || s.world.take(&s.root, "f"),
        )
        .expect("mkdir");
        assert_eq!(s.task.stat(b"/f").err(), Some(Errno::ENOENT));
    }
}

#[test]
fn what_we_renamed_is_asked_for_when_it_was_forgotten_before_we_knew() {
    let s = scene(Caching::Keep, false);
    s.world.file(&s.root, "old");
    s.task.stat(b"/old").expect("stat");
    assert_eq!(s.task.stat(b"/f").err(), Some(Errno::ENOENT));
    let rename = |task: &Task| task.rename(b"/old", b"/f");
    meanwhile(&s, At::Change, rename, || s.world.take(&s.root, "f")).expect("rename");
    assert_eq!(s.task.stat(b"/f").err(), Some(Errno::ENOENT));
    assert_eq!(s.task.stat(b"/old").err(), Some(Errno::ENOENT));
}

#[test]
fn what_we_removed_may_be_there_again() {
    let s = scene(Caching::Keep, false);
    s.world.file(&s.root, "f");
    s.task.stat(b"/f").expect("stat");
    meanwhile(
        &s,
        At::Change,
        |task| task.unlink(b"/f"),
        || {
            s.world.file(&s.root, "f");
        },
    )
    .expect("unlink");
    s.task.stat(b"/f").expect("it came again");
}
