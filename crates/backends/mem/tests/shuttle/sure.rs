// SPDX-License-Identifier: MIT OR Apache-2.0
//! Walks against one change at a time, so small that every bug of depth 3 is as good as found:
//! `OPENPATH_SHUTTLE_MISS=1e-6 cargo xtask shuttle sure --nocapture`.

use crate::backend::build;
use crate::{explore_surely, join, spawn};
use openpath_abi::fcntl::{AT_FDCWD, O_CREAT};
use openpath_abi::{Errno, mount as m};
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

/// Nothing is in use but the tree.
fn at_rest(vfs: &Vfs, tasks: [Task; 2]) {
    drop(tasks);
    vfs.collect();
    let usage = vfs.usage();
    assert_eq!((usage.buried, usage.pins), (0, 3), "{usage:?}");
}

/// A name has one of its two places, in this order.
#[test]
fn sure_rename_against_lookup() {
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

/// A walk sees the mount or what it covers, and the mount goes with its last user.
#[test]
fn sure_umount_against_lookup() {
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
        at_rest(&vfs, [join(walker), task]);
    });
}

/// What is evicted is found again, as it was.
#[test]
fn sure_reclaim_against_lookup() {
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

/// A slot that was a removed file's is another one's.
#[test]
fn sure_reuse_against_lookup() {
    explore_surely(|| {
        let (vfs, task, other) = world();
        let old = number(&task, b"/d/f");
        let walker = spawn(move || {
            let seen = number(&other, b"/d/f");
            assert!(seen == old || seen == Err(Errno::ENOENT), "{seen:?}");
            other
        });
        task.unlinkat(AT_FDCWD, b"/d/f", 0).expect("unlink");
        vfs.collect();
        put(&task, b"/d/g");
        assert_ne!(number(&task, b"/d/g"), old);
        at_rest(&vfs, [join(walker), task]);
    });
}
