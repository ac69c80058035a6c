// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that calls which must not wait ask only the backends that answer at once, and otherwise
//! fail without a change of the cache.

use super::backend::{At, Scene, scene, tree};
use openpath_abi::fcntl::{AT_EMPTY_PATH, AT_FDCWD, O_PATH, O_RDONLY};
use openpath_abi::{AtFlags, Errno, OpenHow, StatxMask, mode, resolve};
use openpath_vfs::{Caching, Check, ExplainOp, MountFlags, Reason, Task, TryError, flag};
use std::sync::Arc;
use std::thread;

fn how(flags: u32) -> OpenHow {
    OpenHow {
        flags: u64::from(flags),
        mode: 0,
        resolve: resolve::RESOLVE_CACHED,
    }
}

/// A cached open; its explanation must give the same answer.
fn cached(task: &Task, path: &[u8], flags: u32) -> Result<(), Errno> {
    let how = how(flags);
    let why = task.explain(&ExplainOp::Openat2 {
        dirfd: AT_FDCWD,
        path,
        how,
    });
    let fd = task.openat2(AT_FDCWD, path, &how);
    if let Ok(fd) = fd {
        task.close(fd).expect("close");
    }
    let answer = fd.map(drop);
    assert_eq!(why.result, answer, "{why}");
    if answer == Err(Errno::EAGAIN) {
        assert_eq!(why.refused_by(), Some(Check::Cached), "{why}");
    }
    answer
}

fn trying(caching: Caching) -> Scene {
    let s = scene(caching, true);
    let d = s.world.dir(&s.root, "d");
    s.world.file(&d, "f");
    s
}

#[test]
fn a_miss_is_looked_up_without_a_wait_and_cached() {
    let s = trying(Caching::Keep);
    let fd = s
        .task
        .openat2(AT_FDCWD, b"/d/f", &how(O_RDONLY.bits()))
        .expect("asked");
    s.task.close(fd).expect("close");
    assert_eq!(s.world.lookups(), 2);
    assert_eq!(cached(&s.task, b"/d/f", O_RDONLY.bits()), Ok(()));
    assert_eq!(
        s.task
            .try_statx(AT_FDCWD, b"/d/g", AtFlags::empty(), StatxMask::empty())
            .err(),
        Some(TryError::Errno(Errno::ENOENT))
    );
    assert_eq!(s.world.lookups(), 1);
    assert_eq!(
        cached(&s.task, b"/d/g", O_RDONLY.bits()),
        Err(Errno::ENOENT)
    );
    assert_eq!(cached(&s.task, b"/d/f", O_PATH.bits()), Ok(()));
    assert_eq!(s.world.lookups(), 0);
}

#[test]
fn a_back_end_that_would_wait_gives_eagain_and_caches_nothing() {
    let s = trying(Caching::Keep);
    s.world.set_slow(true);
    for _ in 0..2 {
        assert_eq!(
            cached(&s.task, b"/d/f", O_RDONLY.bits()),
            Err(Errno::EAGAIN)
        );
        assert_eq!(s.task.last_reason(), Some(Reason::WouldWait));
        assert_eq!(
            s.task.try_open(b"/d/f", O_RDONLY, 0),
            Err(TryError::WouldBlock)
        );
    }
    s.task.stat(b"/d/f").expect("when it may wait");
    assert_eq!(cached(&s.task, b"/d/f", O_RDONLY.bits()), Ok(()));
}

#[test]
fn a_tree_that_may_wait_is_not_asked_even_beneath_one_that_never_does() {
    let s = trying(Caching::Keep);
    let (world, upper) = tree(Caching::Keep, false);
    world.file(upper.root(), "g");
    s.task
        .mount(Arc::clone(&upper), b"/d", MountFlags::default())
        .expect("mount");
    assert_eq!(
        cached(&s.task, b"/d/g", O_RDONLY.bits()),
        Err(Errno::EAGAIN)
    );
    assert_eq!(s.task.last_reason(), Some(Reason::Miss));
    // The tree reaches that directory by a name that is looked up.
    s.tree.forget_name(&s.root, b"d");
    assert_eq!(
        cached(&s.task, b"/d/g", O_RDONLY.bits()),
        Err(Errno::EAGAIN)
    );
    assert_eq!(world.lookups(), 0);
    s.task.stat(b"/d/g").expect("stat");
    assert_eq!(cached(&s.task, b"/d/g", O_RDONLY.bits()), Ok(()));
}

#[test]
fn a_revalidating_tree_that_never_waits_is_asked_at_each_cached_open() {
    let s = scene(Caching::Keep, false);
    s.world.dir(&s.root, "m");
    let (world, upper) = tree(Caching::Confirm, true);
    world.file(upper.root(), "f");
    s.task
        .mount(Arc::clone(&upper), b"/m", MountFlags::default())
        .expect("mount");
    let open = || cached(&s.task, b"/m/f", O_RDONLY.bits());
    assert_eq!(open(), Ok(()));
    assert!(world.lookups() > 0);
    assert_eq!(open(), Ok(()));
    assert!(world.lookups() > 0);
    let file = s.task.open(b"/m/f", O_RDONLY, 0).expect("open");
    let by_fd = || {
        s.task
            .try_statx(file, b"", AT_EMPTY_PATH, StatxMask::empty())
            .err()
    };
    assert_eq!(by_fd(), None);
    world.set_slow(true);
    assert_eq!(by_fd(), Some(TryError::WouldBlock));
    assert_eq!(open(), Err(Errno::EAGAIN));
    assert_eq!(cached(&s.task, b"/m", O_RDONLY.bits()), Err(Errno::EAGAIN));
    world.set_slow(false);
    world.take(upper.root(), "f");
    assert_eq!(open(), Err(Errno::ENOENT));
}

#[test]
fn a_revalidating_tree_that_may_wait_fails_each_cached_open() {
    let s = scene(Caching::Confirm, false);
    s.world.file(&s.root, "f");
    s.task.stat(b"/f").expect("stat");
    assert_eq!(cached(&s.task, b"/f", O_RDONLY.bits()), Err(Errno::EAGAIN));
    assert_eq!(s.task.last_reason(), Some(Reason::Revalidate));
}

#[test]
fn a_try_does_not_wait_for_a_lookup_of_the_same_name() {
    let s = trying(Caching::Keep);
    s.task.stat(b"/d").expect("stat");
    let gate = s.world.close_gate(At::Lookup);
    let task = s.task.fork().expect("a second task");
    thread::scope(|scope| {
        let other = scope.spawn(move || task.stat(b"/d/f").map(drop));
        gate.wait();
        assert_eq!(
            s.task.try_open(b"/d/f", O_RDONLY, 0),
            Err(TryError::WouldBlock)
        );
        assert_eq!(s.task.last_reason(), Some(Reason::Held));
        let none = s.task.try_open(b"/d/none", O_RDONLY, 0);
        assert_eq!(
            none,
            Err(TryError::Errno(Errno::ENOENT)),
            "another name is looked up"
        );
        gate.open();
        other.join().expect("thread").expect("stat");
    });
    assert_eq!(cached(&s.task, b"/d/f", O_RDONLY.bits()), Ok(()));
}

#[test]
fn a_try_does_not_wait_for_a_change_of_the_directory() {
    let s = trying(Caching::Keep);
    s.task.stat(b"/d").expect("stat");
    let gate = s.world.close_gate(At::Change);
    let task = s.task.fork().expect("a second task");
    thread::scope(|scope| {
        // mkdir holds the directory's names while the backend is asked.
        let other = scope.spawn(move || task.mkdir(b"/d/new", 0o755));
        gate.wait();
        assert_eq!(
            s.task.try_open(b"/d/f", O_RDONLY, 0),
            Err(TryError::WouldBlock)
        );
        assert_eq!(s.task.last_reason(), Some(Reason::Held));
        gate.open();
        other.join().expect("thread").expect("mkdir");
    });
}

#[test]
fn a_file_with_an_open_hook_is_opened_without_a_wait_or_not() {
    for tries in [true, false] {
        let s = scene(Caching::Keep, tries);
        let f = s.world.file(&s.root, "f");
        s.task.stat(b"/f").expect("stat");
        f.set_flags(flag::OPEN_HOOK);
        let expected = if tries { Ok(()) } else { Err(Errno::EAGAIN) };
        assert_eq!(cached(&s.task, b"/f", O_RDONLY.bits()), expected);
        s.world.set_slow(true);
        let tried = s.task.try_open(b"/f", O_RDONLY, 0);
        assert_eq!(tried, Err(TryError::WouldBlock));
        assert_eq!(s.task.last_reason(), Some(Reason::OpenHook));
        s.task.open(b"/f", O_RDONLY, 0).expect("when it may wait");
        f.clear_flags(flag::OPEN_HOOK);
        assert_eq!(cached(&s.task, b"/f", O_RDONLY.bits()), Ok(()));
    }
}

#[test]
fn a_link_is_read_without_a_wait_or_not() {
    let s = trying(Caching::Keep);
    let l = s.world.inode(mode::S_IFLNK | 0o777);
    let later = openpath_abi::Timespec {
        sec: i64::from(u32::MAX),
        nsec: 0,
    };
    l.update(|attr| attr.atime = later);
    let d = s.world.dirs()[&s.root.ino()][&b"d"[..]].clone();
    s.world.put(&d, "l", &l);
    s.task.lstat(b"/d/l").expect("lstat");
    s.world.set_slow(true);
    assert_eq!(
        cached(&s.task, b"/d/l", O_RDONLY.bits()),
        Err(Errno::EAGAIN)
    );
    assert_eq!(s.task.last_reason(), Some(Reason::WouldWait));
    assert_eq!(
        s.task.try_readlinkat(AT_FDCWD, b"/d/l"),
        Err(TryError::WouldBlock)
    );
    s.world.set_slow(false);
    assert_eq!(s.task.try_readlinkat(AT_FDCWD, b"/d/l"), Ok(b"f".to_vec()));
    assert_eq!(cached(&s.task, b"/d/l", O_RDONLY.bits()), Ok(()));
}
