// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a walk beside one rename, unmount, eviction or reuse of a slot finds the right file,
//! that an event beside a rename names one place, and an unlink beside an eviction frees the file.
//! The scenarios are so small that the chance of a missed bug can be stated, if asked for:
//! `OPENPATH_SHUTTLE_MISS=1e-6 OPENPATH_SHUTTLE_DEPTH=2 cargo xtask shuttle sure --nocapture`.
//!
//! With `n` threads and `k` scheduling points, a bug of depth `d` is missed by `r` runs with a
//! chance of at most (1 - 1 / (n k^(d-1)))^r. Two threads with 400 to 950 points need some 11,000
//! to 26,000 runs for 1e-6 at depth 2, which takes a minute, and 4 to 25 million at depth 3, which
//! takes hours.

use crate::backend::build;
use crate::{explore_surely, join, spawn};
use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_RDONLY};
use openpath_abi::inotify::{IN_CLOSE_NOWRITE, IN_NONBLOCK};
use openpath_abi::{AtFlags, Errno, UmountFlags, mount as m};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, MountFlags, Task, Vfs};

/// A directory with a file, everything cached, and two tasks.
fn world() -> (Vfs, Task, Task) {
    let vfs = build(MemFs::new(MemOptions::default()));
    let task = vfs.task(Cred::root()).expect("a task");
    task.mkdir(b"/d", 0o755).expect("mkdir");
    put(&task, b"/d/f");
    let other = task.fork().expect("a task");
    (vfs, task, other)
}

fn put(task: &Task, path: &[u8]) {
    let fd = task.open(path, O_CREAT, 0o644);
    task.close(fd.expect("a file")).expect("close");
}

fn number(task: &Task, path: &[u8]) -> Result<u64, Errno> {
    task.stat(path).map(|stat| stat.ino)
}

/// Checks that only the tree is in use.
fn at_rest(vfs: &Vfs, tasks: [Task; 2]) {
    at_rest_with(vfs, tasks, 3);
}

/// Like [`at_rest`], where the instance keeps this many pins.
fn at_rest_with(vfs: &Vfs, tasks: [Task; 2], pins: usize) {
    drop(tasks);
    vfs.collect();
    let usage = vfs.usage();
    assert_eq!((usage.pending_free, usage.pins), (0, pins), "{usage:?}");
}

/// A name is at one of its two places, in this order.
#[test]
fn a_lookup_beside_a_rename_finds_one_of_both_names() {
    explore_surely(|| {
        let (vfs, task, other) = world();
        let file = number(&task, b"/d/f");
        let walker = spawn(move || {
            let old = number(&other, b"/d/f");
            assert!(old == file || old == Err(Errno::ENOENT) && number(&other, b"/g") == file);
            other
        });
        task.rename(b"/d/f", b"/g").expect("rename");
        at_rest(&vfs, [join(walker), task]);
    });
}

/// An event of an open file has its old name and the old directory, or the new ones: a reader of a
/// dentry's name and parent notices a concurrent move. A lookup does not show this, since a moving
/// dentry is in no chain while its fields are written. It takes a walker that is before the dentry
/// in a chain meanwhile, which is a bug of depth 3.
#[test]
fn an_event_beside_a_rename_names_one_place() {
    const OLD: &[u8] = b"/d/first-half-of-it";
    const NEW: &[u8] = b"/e/second!part-here";
    explore_surely(|| {
        let (vfs, task, other) = world();
        task.mkdir(b"/e", 0o755).expect("mkdir");
        put(&task, OLD);
        let queue = task.inotify_init1(IN_NONBLOCK).expect("a queue");
        let watch = |dir| task.inotify_add_watch(queue, dir, IN_CLOSE_NOWRITE);
        assert_eq!((watch(b"/d"), watch(b"/e")), (Ok(1), Ok(2)));
        let fd = other.open(OLD, O_RDONLY, 0).expect("open");
        let closer = spawn(move || {
            other.close(fd).expect("close");
            other
        });
        task.rename(OLD, NEW).expect("rename");
        let other = join(closer);
        let mut event = [0; 64];
        assert_eq!(task.read(queue, &mut event), Ok(48), "not one event");
        let name = event[16..].split(|&byte| byte == 0).next();
        match (event[0], name.unwrap_or_default()) {
            (1, name) if name == &OLD[3..] => {}
            (2, name) if name == &NEW[3..] => {}
            (watch, name) => panic!("{watch}: {}", name.escape_ascii()),
        }
        task.close(queue).expect("close");
        at_rest_with(&vfs, [other, task], 4);
    });
}

/// A walk sees the mount or what it covers, and the mount goes with its last user.
#[test]
fn a_lookup_beside_an_unmount_finds_one_of_both_trees() {
    explore_surely(|| {
        let (vfs, task, other) = world();
        let tree = MemFs::new(MemOptions::default());
        let below = number(&task, b"/d/f");
        task.mount(tree, b"/d", MountFlags::default())
            .expect("mount");
        let walker = spawn(move || {
            let seen = number(&other, b"/d/f");
            assert!(seen == below || seen == Err(Errno::ENOENT), "{seen:?}");
            other
        });
        task.umount(b"/d", m::MNT_DETACH).expect("umount");
        assert_eq!(number(&task, b"/d/f"), below);
        let other = join(walker);
        // The next call on mounts frees it, if the walk was its last user.
        task.bind(b"/d", b"/d")
            .and_then(|()| task.umount(b"/d", UmountFlags::empty()))
            .expect("a mount");
        at_rest(&vfs, [other, task]);
    });
}

/// An evicted dentry is found again, unchanged.
#[test]
fn a_lookup_beside_an_eviction_finds_the_file() {
    explore_surely(|| {
        let (vfs, task, other) = world();
        let file = number(&task, b"/d/f");
        let walker = spawn(move || {
            assert_eq!(number(&other, b"/d/f"), file);
            other
        });
        vfs.shrink(16);
        assert_eq!(number(&task, b"/d/f"), file);
        at_rest(&vfs, [join(walker), task]);
    });
}

/// A removed file's slot is reused for another file.
#[test]
fn a_lookup_beside_the_reuse_of_a_slot_finds_no_wrong_file() {
    explore_surely(|| {
        let (vfs, task, other) = world();
        let old = number(&task, b"/d/f");
        let walker = spawn(move || {
            let seen = number(&other, b"/d/f");
            assert!(seen == old || seen == Err(Errno::ENOENT), "{seen:?}");
            other
        });
        task.unlinkat(AT_FDCWD, b"/d/f", AtFlags::empty())
            .expect("unlink");
        vfs.collect();
        put(&task, b"/d/g");
        assert_ne!(number(&task, b"/d/g"), old);
        at_rest(&vfs, [join(walker), task]);
    });
}

/// A file that is unlinked during an eviction check is freed all the same.
#[test]
fn an_unlink_beside_an_eviction_frees_the_file() {
    explore_surely(|| {
        let (vfs, task, other) = world();
        let fd = task.open(b"/d/f", O_RDONLY, 0).expect("open");
        let theirs = vfs.clone();
        let evictor = spawn(move || {
            theirs.shrink(16);
            other
        });
        task.unlinkat(AT_FDCWD, b"/d/f", AtFlags::empty())
            .expect("unlink");
        vfs.collect();
        let other = join(evictor);
        task.close(fd).expect("close");
        at_rest(&vfs, [other, task]);
        while vfs.shrink(16) != 0 {}
        let usage = vfs.usage();
        assert!(usage.dentries <= usage.mounts, "{usage:?}");
    });
}
