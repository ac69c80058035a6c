// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests walks beside changes of names and mounts and beside eviction of dentries, under a
//! scheduler that chooses the interleaving: an existing name is always found, and nothing is left
//! at the end.

use crate::backend::build;
use crate::{explore, join, spawn};
use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_EXCL, O_RDONLY, O_WRONLY};
use openpath_abi::rename::RENAME_EXCHANGE;
use openpath_abi::{Errno, OFlags, UmountFlags};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, MountFlags, SuperBlock, Task, Vfs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn tree() -> Arc<SuperBlock> {
    MemFs::new(MemOptions::default())
}

fn world() -> (Vfs, Task) {
    let vfs = build(tree());
    let task = vfs.task(Cred::root()).expect("a task");
    (vfs, task)
}

fn dir(task: &Task, path: &[u8]) {
    task.mkdir(path, 0o755).expect("mkdir");
}

/// A file that contains one letter.
fn put(task: &Task, path: &[u8], letter: u8) {
    let fd = task.open(path, O_CREAT | O_WRONLY, 0o644).expect("open");
    assert_eq!(task.write(fd, &[letter]), Ok(1));
    task.close(fd).expect("close");
}

/// The letter in the file at `path`.
fn letter(task: &Task, path: &[u8]) -> Result<u8, Errno> {
    let fd = task.open(path, O_RDONLY, 0)?;
    let mut body = [0; 2];
    assert_eq!(task.read(fd, &mut body), Ok(1));
    task.close(fd).expect("close");
    Ok(body[0])
}

/// Checks that nothing is left when the tasks are gone.
fn at_rest(vfs: &Vfs) {
    assert_eq!(vfs.usage().pins, 3);
    vfs.collect();
    assert_eq!(vfs.usage().pending_free, 0);
}

/// A walk that misses the old name finds the new one.
#[test]
fn a_renamed_file_is_never_lost() {
    explore(|| {
        let (vfs, task) = world();
        dir(&task, b"/d");
        put(&task, b"/a", b'a');
        let other = task.fork().expect("a task");
        let walker = spawn(move || {
            let old = letter(&other, b"/a");
            if old == Err(Errno::ENOENT) {
                assert_eq!(letter(&other, b"/d/b"), Ok(b'a'));
            } else {
                assert_eq!(old, Ok(b'a'));
            }
        });
        task.rename(b"/a", b"/d/b").expect("rename");
        join(walker);
        assert_eq!(letter(&task, b"/a"), Err(Errno::ENOENT));
        drop(task);
        at_rest(&vfs);
    });
}

/// A name that another file is renamed to exists at any time.
#[test]
fn a_replaced_name_is_always_there() {
    explore(|| {
        let (vfs, task) = world();
        dir(&task, b"/d");
        put(&task, b"/d/a", b'a');
        put(&task, b"/b", b'b');
        let other = task.fork().expect("a task");
        let walker = spawn(move || {
            let found = letter(&other, b"/d/a");
            assert!(matches!(found, Ok(b'a' | b'b')), "{found:?}");
        });
        task.rename(b"/b", b"/d/a").expect("rename");
        join(walker);
        assert_eq!(letter(&task, b"/d/a"), Ok(b'b'));
        drop(task);
        at_rest(&vfs);
    });
}

/// While dentries are evicted and directories become complete again, existing names are found and
/// absent ones are not.
#[test]
fn completeness_follows_eviction() {
    explore(|| {
        let (vfs, task) = world();
        dir(&task, b"/d");
        put(&task, b"/d/a", b'a');
        let other = task.fork().expect("a task");
        let made = Arc::new(AtomicBool::new(false));
        let said = Arc::clone(&made);
        let walker = spawn(move || {
            for _ in 0..2 {
                assert_eq!(letter(&other, b"/d/none"), Err(Errno::ENOENT));
                assert_eq!(letter(&other, b"/d/a"), Ok(b'a'));
                let before = made.load(Ordering::SeqCst);
                let found = other.stat(b"/d/b");
                assert!(found.is_ok() || !before, "a created name was missed");
            }
        });
        vfs.shrink(u32::MAX);
        assert_eq!(letter(&task, b"/d/none"), Err(Errno::ENOENT));
        put(&task, b"/d/b", b'b');
        said.store(true, Ordering::SeqCst);
        vfs.shrink(u32::MAX);
        join(walker);
        drop(task);
        at_rest(&vfs);
    });
}

/// Two names that are exchanged both exist at any time.
#[test]
fn exchanged_names_are_always_there() {
    explore(|| {
        let (vfs, task) = world();
        for path in [&b"/x"[..], b"/y"] {
            dir(&task, path);
            put(&task, &[path, b"/f"].concat(), path[1]);
        }
        let other = task.fork().expect("a task");
        let walker = spawn(move || {
            for path in [b"/x/f", b"/y/f"] {
                assert!(matches!(letter(&other, path), Ok(b'x' | b'y')));
            }
        });
        let exchange = || task.renameat2(AT_FDCWD, b"/x", AT_FDCWD, b"/y", RENAME_EXCHANGE);
        exchange().expect("rename");
        assert_eq!(letter(&task, b"/x/f"), Ok(b'y'));
        exchange().expect("rename");
        join(walker);
        assert_eq!(letter(&task, b"/x/f"), Ok(b'x'));
        drop(task);
        at_rest(&vfs);
    });
}

/// A walk up from a moving directory ends in one of its parents.
#[test]
fn a_walk_up_from_a_moving_directory_ends_in_a_parent() {
    explore(|| {
        let (vfs, task) = world();
        for path in [&b"/p"[..], b"/q", b"/p/d"] {
            dir(&task, path);
        }
        put(&task, b"/p/f", b'p');
        put(&task, b"/q/f", b'q');
        let other = task.fork().expect("a task");
        other.chdir(b"/p/d").expect("chdir");
        let walker = spawn(move || {
            assert!(matches!(letter(&other, b"../f"), Ok(b'p' | b'q')));
            assert_eq!(letter(&other, b"../../q/f"), Ok(b'q'));
        });
        task.rename(b"/p/d", b"/q/d").expect("rename");
        join(walker);
        drop(task);
        at_rest(&vfs);
    });
}

/// Dentries are evicted under walks, which ask the backend again.
#[test]
fn entries_are_reclaimed_under_walks() {
    explore(|| {
        let (vfs, task) = world();
        dir(&task, b"/d");
        put(&task, b"/d/f", b'f');
        put(&task, b"/d/g", b'g');
        let (reclaimer, theirs) = (vfs.clone(), task.fork().expect("a task"));
        let reclaimer = spawn(move || {
            reclaimer.shrink(64);
            reclaimer.collect();
        });
        let other = spawn(move || {
            theirs.unlink(b"/d/g").expect("unlink");
            assert_eq!(letter(&theirs, b"/d/g"), Err(Errno::ENOENT));
        });
        assert_eq!(letter(&task, b"/d/f"), Ok(b'f'));
        assert!(matches!(
            letter(&task, b"/d/g"),
            Ok(b'g') | Err(Errno::ENOENT)
        ));
        join(reclaimer);
        join(other);
        drop(task);
        at_rest(&vfs);
    });
}

/// An unlinked file lives as long as it is open, and no longer.
#[test]
fn an_unlinked_file_goes_with_its_last_user() {
    explore(|| {
        let (vfs, task) = world();
        put(&task, b"/f", b'f');
        let fd = task.open(b"/f", O_RDONLY, 0).expect("open");
        let other = task.clone_files().expect("a task");
        let other = spawn(move || {
            let mut body = [0; 2];
            let read = other.pread(fd, &mut body, 0);
            assert!(matches!(read, Ok(1) | Err(Errno::EBADF)), "{read:?}");
        });
        let third = task.fork().expect("a task");
        let third = spawn(move || {
            let found = letter(&third, b"/f");
            assert!(matches!(found, Ok(b'f') | Err(Errno::ENOENT)), "{found:?}");
        });
        task.unlink(b"/f").expect("unlink");
        task.close(fd).expect("close");
        join(other);
        join(third);
        drop(task);
        at_rest(&vfs);
    });
}

/// Of two exclusive creates of a name, one succeeds, and one dentry is made.
#[test]
fn a_name_is_created_once() {
    explore(|| {
        let (vfs, task) = world();
        let other = task.fork().expect("a task");
        let create = |task: &Task, flags: OFlags| {
            let fd = task.open(b"/new", O_CREAT | O_WRONLY | flags, 0o600)?;
            task.close(fd)
        };
        let third = task.fork().expect("a task");
        let other = spawn(move || create(&other, O_EXCL));
        let third = spawn(move || create(&third, O_RDONLY));
        let mine = create(&task, O_EXCL);
        let [other, third] = [join(other), join(third)];
        assert_eq!(third, Ok(()));
        let made = [mine, other].iter().filter(|r| r.is_ok()).count();
        assert!(made <= 1 && task.stat(b"/new").is_ok(), "{made}");
        drop(task);
        at_rest(&vfs);
    });
}

/// Nothing is created in a removed directory.
#[test]
fn a_removed_directory_stays_empty() {
    explore(|| {
        let (vfs, task) = world();
        dir(&task, b"/d");
        let other = task.fork().expect("a task");
        let creator = spawn(move || {
            let made = other.open(b"/d/f", O_CREAT | O_WRONLY, 0o600);
            made.map(|fd| other.close(fd).expect("close"))
        });
        let removed = task.rmdir(b"/d");
        match (removed, join(creator)) {
            (Ok(()), Err(Errno::ENOENT)) | (Err(Errno::ENOTEMPTY), Ok(())) => {}
            other => panic!("{other:?}"),
        }
        drop(task);
        at_rest(&vfs);
    });
}

/// A walk through a mount point ends in the mounted tree or in the covered one, and a mount in use
/// is not removed.
#[test]
fn mounts_come_and_go_under_walks() {
    explore(|| {
        let (vfs, task) = world();
        dir(&task, b"/m");
        put(&task, b"/m/f", b'u');
        task.mount(tree(), b"/m", MountFlags::default())
            .expect("mount");
        put(&task, b"/m/f", b'm');
        let other = task.fork().expect("a task");
        let walker = spawn(move || {
            let fd = other.open(b"/m/f", O_RDONLY, 0).expect("open");
            let mut body = [0; 2];
            assert_eq!(other.pread(fd, &mut body, 0), Ok(1));
            (body[0], fd, other)
        });
        let gone = task.umount(b"/m", UmountFlags::empty());
        let (seen, fd, other) = join(walker);
        match (gone, seen) {
            (Ok(()), b'u') | (Err(Errno::EBUSY), b'm') => {}
            // The walk checked before the unmount and held nothing.
            other => panic!("{other:?}"),
        }
        other.close(fd).expect("close");
        if gone.is_err() {
            task.umount(b"/m", UmountFlags::empty()).expect("umount");
        }
        assert_eq!(letter(&task, b"/m/f"), Ok(b'u'));
        drop((task, other));
        at_rest(&vfs);
    });
}
