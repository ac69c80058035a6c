// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests directories of which all names are cached (complete ones): absent names need no lookup in
//! the backend, and no existing name is ever missed.

use crate::world::*;
use openpath_abi::fcntl::{AT_EMPTY_PATH, AT_FDCWD, O_RDONLY};
use openpath_abi::rename::{RENAME_EXCHANGE, RENAME_WHITEOUT};
use openpath_abi::resolve::RESOLVE_CACHED;
use openpath_abi::{Errno, OFlags, OpenHow};
use openpath_vfs::{Task, Vfs};
use std::sync::atomic::{AtomicU64, Ordering};

/// The result of an open from the cache alone.
fn cached(task: &Task, path: &str) -> String {
    let how = OpenHow {
        resolve: RESOLVE_CACHED,
        ..OpenHow::default()
    };
    say(task.shut(task.openat2(AT_FDCWD, path.as_bytes(), &how)))
}

fn entries(vfs: &Vfs) -> u32 {
    vfs.usage().dentries
}

#[test]
fn absent_names_leave_no_entries() {
    let vfs = world();
    let task = root(&vfs);
    task.dir("/d", 0o755, (0, 0));
    task.dir("/d/e", 0o700, (0, 0));
    task.data("/d/f", b"x");
    let stranger = user(&vfs, 7, &[], &[]);
    let before = entries(&vfs);
    for i in 0..20_000 {
        for dir in ["", "/d", "/d/e", "/absent"] {
            let path = format!("{dir}/name-{i}");
            assert_eq!(task.open(path.as_bytes(), O_RDONLY, 0), Err(Errno::ENOENT));
            if i < 500 {
                assert_eq!(task.stat(path.as_bytes()).err(), Some(Errno::ENOENT));
                assert_eq!(task.unlink(path.as_bytes()), Err(Errno::ENOENT));
                assert_eq!(task.rename(path.as_bytes(), b"/x"), Err(Errno::ENOENT));
                let long = format!("{path}-{}", "l".repeat(200));
                assert_eq!(task.open(long.as_bytes(), O_RDONLY, 0), Err(Errno::ENOENT));
                assert_eq!(cached(&task, &path), "ENOENT");
            }
        }
        let path = format!("/d/new-{i}");
        let denied = stranger.open(
            path.as_bytes(),
            OFlags::from_bits_retain((flags("CREAT|WR")).bits()),
            0o600,
        );
        assert_eq!(denied, Err(Errno::EACCES));
        let secret = format!("/d/e/new-{i}");
        assert_eq!(
            stranger.open(secret.as_bytes(), O_RDONLY, 0),
            Err(Errno::EACCES)
        );
    }
    assert_eq!(entries(&vfs), before);
    let long = format!("/d/{}", "l".repeat(256));
    assert_eq!(
        task.open(long.as_bytes(), O_RDONLY, 0),
        Err(Errno::ENAMETOOLONG)
    );
    assert_eq!(cached(&task, "/d/f"), "OK");
}

#[test]
fn a_directory_becomes_complete_again_when_all_names_are_cached() {
    let vfs = world();
    let task = root(&vfs);
    task.dir("/d", 0o755, (0, 0));
    for name in ["a", "b", "c"] {
        task.data(&format!("/d/{name}"), b"x");
    }
    assert_eq!(cached(&task, "/d/none"), "ENOENT");
    vfs.shrink(u32::MAX);
    for name in ["a", "b"] {
        assert_eq!(say(task.stat(format!("/d/{name}").as_bytes())), "OK");
        assert_eq!(cached(&task, &format!("/d/none-{name}")), "EAGAIN");
    }
    // A name that was never looked up is not cached, and no other name is taken for it.
    assert_eq!(say(task.stat(b"/d/none-1")), "ENOENT");
    assert_eq!(cached(&task, "/d/none-2"), "EAGAIN");
    assert_eq!(say(task.stat(b"/d/c")), "OK");
    assert_eq!(cached(&task, "/d/none-3"), "EAGAIN");
    // The backend is asked once more, and counts the names.
    assert_eq!(say(task.stat(b"/d/none-4")), "ENOENT");
    let before = entries(&vfs);
    for i in 5..50 {
        assert_eq!(cached(&task, &format!("/d/none-{i}")), "ENOENT");
        assert_eq!(say(task.stat(format!("/d/none-{i}").as_bytes())), "ENOENT");
    }
    assert_eq!(entries(&vfs), before);
    // Eviction of any name ends completeness.
    vfs.shrink(u32::MAX);
    assert_eq!(cached(&task, "/d/a"), "EAGAIN");
    assert_eq!(say(task.stat(b"/d/a")), "OK");
}

#[test]
fn every_call_that_adds_or_removes_a_name_is_seen_at_once() {
    let vfs = world();
    let task = root(&vfs);
    for dir in ["/d", "/o"] {
        task.dir(dir, 0o755, (0, 0));
    }
    let is = |path: &str, answer: &str| assert_eq!(cached(&task, path), answer, "{path}");
    for round in 0..3 {
        is("/d/f", "ENOENT");
        task.data("/d/f", b"x");
        is("/d/f", "OK");
        task.link(b"/d/f", b"/o/g").expect("link");
        is("/o/g", "OK");
        task.rename(b"/d/f", b"/o/h").expect("rename");
        is("/d/f", "ENOENT");
        is("/o/h", "OK");
        task.data("/d/i", b"y");
        task.rename(b"/d/i", b"/o/g").expect("rename over");
        is("/d/i", "ENOENT");
        is("/o/g", "OK");
        task.dir("/d/s", 0o755, (0, 0));
        is("/d/s/x", "ENOENT");
        let cwd = AT_FDCWD;
        task.renameat2(cwd, b"/d/s", cwd, b"/o/g", RENAME_EXCHANGE)
            .expect("exchange");
        is("/o/g/x", "ENOENT");
        is("/d/s", "OK");
        task.renameat2(cwd, b"/o/h", cwd, b"/o/k", RENAME_WHITEOUT)
            .expect("whiteout");
        // The name left there is found, though not in the cache at first.
        is("/o/h", "EAGAIN");
        assert_eq!(say(task.lstat(b"/o/h")), "OK");
        let fd = task
            .open(
                b"/d",
                OFlags::from_bits_retain((flags("TMPFILE|RW")).bits()),
                0o600,
            )
            .expect("tmp");
        is("/d/t", "ENOENT");
        task.linkat(fd, b"", cwd, b"/d/t", AT_EMPTY_PATH)
            .expect("linkat");
        is("/d/t", "OK");
        task.close(fd).expect("close");
        task.dir("/d/u", 0o755, (0, 0));
        task.rename(b"/o/g", b"/d/u")
            .expect("directory over another");
        is("/o/g", "EAGAIN");
        is("/d/u/x", "ENOENT");
        task.rmdir(b"/d/u").expect("rmdir");
        for name in ["/d/s", "/d/t", "/o/h", "/o/k"] {
            assert_eq!(say(task.unlink(name.as_bytes())), "OK", "{round} {name}");
        }
        is("/d/t", "ENOENT");
        // A lookup in the backend finds that nothing is left there.
        assert_eq!(say(task.stat(b"/o/none")), "ENOENT");
        is("/o/none-2", "ENOENT");
    }
}

#[test]
fn an_absent_long_path_is_cached_until_it_is_created() {
    let vfs = world();
    let task = root(&vfs);
    let mut dir = String::new();
    for i in 0..9 {
        dir.push_str(&format!("/directory-{i}"));
        task.dir(&dir, 0o755, (0, 0));
    }
    let path = format!("{dir}/name");
    let absent = || {
        for _ in 0..4 {
            assert_eq!(task.open(path.as_bytes(), O_RDONLY, 0), Err(Errno::ENOENT));
        }
    };
    let before = entries(&vfs);
    for round in 0..3 {
        absent();
        // A change in the same directory, and one on the way.
        task.data(&format!("{dir}/other"), b"x");
        absent();
        task.rename(b"/directory-0", b"/moved").expect("rename");
        absent();
        task.rename(b"/moved", b"/directory-0").expect("rename");
        absent();
        task.chmod(dir.as_bytes(), 0o700).expect("chmod");
        let stranger = user(&vfs, 7, &[], &[]);
        assert_eq!(
            stranger.open(path.as_bytes(), O_RDONLY, 0),
            Err(Errno::EACCES)
        );
        task.chmod(dir.as_bytes(), 0o755).expect("chmod");
        absent();
        if round == 1 {
            vfs.shrink(u32::MAX);
            absent();
        }
        task.data(&path, b"x");
        assert_eq!(
            say(task.shut(task.open(path.as_bytes(), O_RDONLY, 0))),
            "OK"
        );
        task.unlink(path.as_bytes()).expect("unlink");
        task.unlink(format!("{dir}/other").as_bytes())
            .expect("unlink");
        absent();
    }
    vfs.collect();
    assert!(entries(&vfs) <= before + 1);
}

/// Runs `reader` in threads and tasks of its own while `writer` runs.
fn beside(vfs: &Vfs, writer: impl FnOnce(&Task), reader: impl Fn(&Task) + Sync) {
    let ended = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let task = root(vfs);
            while ended.load(Ordering::Acquire) == 0 {
                reader(&task);
            }
        });
        writer(&root(vfs));
        ended.store(1, Ordering::Release);
    });
}

#[test]
fn a_created_name_is_never_missed_and_a_removed_one_never_found() {
    let vfs = world();
    root(&vfs).dir("/d", 0o755, (0, 0));
    let (made, gone) = (AtomicU64::new(0), AtomicU64::new(0));
    let name = |i: u64| format!("/d/{i}").into_bytes();
    let writer = |task: &Task| {
        for i in 1..20_000 {
            let fd = task.open(
                &name(i),
                OFlags::from_bits_retain((flags("CREAT|EXCL|WR")).bits()),
                0o600,
            );
            made.store(i, Ordering::SeqCst);
            task.close(fd.expect("create")).expect("close");
            if i > 4 {
                task.unlink(&name(i - 4)).expect("unlink");
                gone.store(i - 4, Ordering::SeqCst);
            }
            if i % 1000 == 0 {
                vfs.shrink(64);
            }
        }
    };
    beside(&vfs, writer, |task| {
        let last = made.load(Ordering::SeqCst);
        let found = task.stat(&name(last)).is_ok();
        let still = gone.load(Ordering::SeqCst) < last;
        assert!(last == 0 || found || !still || made.load(Ordering::SeqCst) > last);
        let went = gone.load(Ordering::SeqCst);
        assert!(went == 0 || task.stat(&name(went)).is_err());
    });
}

#[test]
fn a_name_replaced_by_renames_is_never_absent() {
    let vfs = world();
    let task = root(&vfs);
    task.dir("/d", 0o755, (0, 0));
    task.data("/d/name", b"x");
    let writer = |task: &Task| {
        for i in 0..20_000 {
            let fd = task.open(
                b"/d/new",
                OFlags::from_bits_retain((flags("CREAT|WR")).bits()),
                0o600,
            );
            task.close(fd.expect("create")).expect("close");
            task.rename(b"/d/new", b"/d/name").expect("rename");
            if i % 2000 == 0 {
                vfs.shrink(64);
            }
        }
    };
    beside(&vfs, writer, |task| {
        assert_eq!(say(task.stat(b"/d/name")), "OK");
    });
}

#[test]
fn a_file_that_is_renamed_repeatedly_always_has_a_name() {
    let vfs = world();
    let task = root(&vfs);
    task.dir("/d", 0o755, (0, 0));
    task.dir("/e", 0o755, (0, 0));
    task.data("/d/0", b"x");
    let at = AtomicU64::new(0);
    let name = |i: u64| {
        let dir = if i.is_multiple_of(3) { "d" } else { "e" };
        format!("/{dir}/{i}").into_bytes()
    };
    let writer = |task: &Task| {
        for i in 0..20_000 {
            task.rename(&name(i), &name(i + 1)).expect("rename");
            at.store(i + 1, Ordering::SeqCst);
        }
    };
    beside(&vfs, writer, |task| {
        // The number only grows: a reader that misses one name and then the next must find that it
        // has grown meanwhile.
        let first = at.load(Ordering::SeqCst);
        let missed = (first..first + 2).all(|i| task.stat(&name(i)).is_err());
        assert!(!missed || at.load(Ordering::SeqCst) > first);
    });
}
