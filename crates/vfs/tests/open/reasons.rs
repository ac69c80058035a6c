// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a walk reports the right reason for each way out of the lock-free mode.

use crate::world::*;
use openpath_vfs::{Reason, Task};

/// The reasons that `call` added, and how often each.
fn reasons(task: &Task, call: impl FnOnce(&Task)) -> Vec<(&'static str, u64)> {
    let before = task.reasons();
    call(task);
    let after = task.reasons();
    assert!(after.total() >= before.total());
    let new = after
        .iter()
        .map(|(why, n)| (why.name(), n - before.of(why)));
    new.filter(|(_, n)| *n != 0).collect()
}

#[test]
fn each_exit_from_the_lock_free_mode_has_a_reason() {
    let vfs = world();
    let task = root(&vfs);
    task.dir("/d", 0o755, (0, 0));
    task.data("/d/f", b"x");
    task.link_to("/l", "d/f");
    let open = |path: &'static str, names: &'static str| {
        move |task: &Task| {
            let _answer = task.shut(task.open(path.as_bytes(), flags(names), 0o644));
        }
    };
    assert_eq!(reasons(&task, open("/d/f", "RD")), []);
    // All names of the directory are cached.
    assert_eq!(reasons(&task, open("/d/none", "RD")), []);
    assert_eq!(reasons(&task, open("/d/new", "RW|CREAT")), [("create", 1)]);
    assert_eq!(reasons(&task, open("/d/new", "RW|CREAT")), []);
    assert_eq!(reasons(&task, open("/d/f/x", "RD")), [("refusal", 1)]);
    // Only the first walk has to move its access time.
    assert_eq!(reasons(&task, open("/l", "RD")), [("access-time", 1)]);
    assert_eq!(reasons(&task, open("/l", "RD")), []);

    let other = user(&vfs, 7, &[], &[]);
    task.dir("/secret", 0o700, (0, 0));
    assert_eq!(reasons(&other, open("/secret/x", "RD")), [("refusal", 1)]);
    vfs.shrink(u32::MAX);
    assert_eq!(reasons(&task, open("/d/none", "RD")), [("miss", 1)]);
    assert_eq!(reasons(&task, open("/d/none", "RD")), []);
    assert_eq!(reasons(&task, open("/d/f", "RD")), [("miss", 1)]);
    assert_eq!(task.restarts(), task.reasons().total());
    assert_eq!(other.reasons().of(Reason::Refusal), 1);
}
