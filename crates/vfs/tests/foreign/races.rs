// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a name that is invalidated while the backend looks it up, revalidates or changes it
//! is looked up again at its next use.

use super::backend::{At, Scene, scene};
use openpath_abi::Errno;
use openpath_vfs::{Caching, Task};
use std::thread;

/// Runs `call` in another thread until `at` in the backend, changes the tree and invalidates the
/// name `f` there, and lets the call end.
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
        // The invalidation does not wait for the call.
        s.tree.forget_name(&s.root, b"f");
        gate.open();
        ended.join().expect("the call ends")
    })
}

#[test]
fn a_negative_lookup_is_void_if_the_name_comes_meanwhile() {
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
    s.task.stat(b"/f").expect("the new name");
}

#[test]
fn a_positive_lookup_is_void_if_the_name_goes_meanwhile() {
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
fn a_revalidation_is_void_if_the_name_is_invalidated_meanwhile() {
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
fn a_created_name_is_looked_up_if_invalidated_during_the_create() {
    let s = scene(Caching::Keep, false);
    // The second lookup caches an absent name.
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
fn a_renamed_name_is_looked_up_if_invalidated_during_the_rename() {
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
fn a_removed_name_is_looked_up_if_invalidated_during_the_unlink() {
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
    s.task.stat(b"/f").expect("the name is there again");
}
