// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests chosen races on descriptors and open files, under a scheduler that chooses the
//! interleaving: a file is released once, after its last user, and calls that exclude each other
//! do.

use crate::backend::{World, build, name, number_at};
use crate::{explore, explore_often, join, spawn};
use openpath_abi::Errno;
use openpath_abi::fcntl::{O_APPEND, O_CLOEXEC, O_CREAT, O_RDONLY, O_RDWR, O_WRONLY};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Task, Vfs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn open(task: &Task, hooked: bool, file: u8) -> i32 {
    task.open(&name(hooked, file), O_RDONLY, 0).expect("open")
}

/// An instance over a tree in memory with a file `/f`, and a task.
fn memory(body: &[u8]) -> (Vfs, Task) {
    let vfs = build(MemFs::new(MemOptions::default()));
    let task = vfs.task(Cred::root()).expect("a task");
    let fd = task.open(b"/f", O_CREAT | O_WRONLY, 0o644).expect("open");
    assert_eq!(task.write(fd, body), Ok(body.len()));
    task.close(fd).expect("close");
    (vfs, task)
}

/// The file of a descriptor stays open until a read of it is over, and a read gets no file but one
/// that had the descriptor.
#[test]
fn reads_survive_close_and_reuse() {
    explore(|| {
        let world = World::new(3);
        let task = world.task();
        let fd = open(&task, true, 1);
        let [closer, reader] = [0; 2].map(|_| task.clone_files().expect("a task"));
        let closer = spawn(move || {
            closer.close(fd).expect("close");
            assert_eq!(open(&closer, true, 2), fd);
            closer.dup2(fd, fd + 1).expect("dup2");
            closer.close(fd).expect("close");
        });
        let reader = spawn(move || {
            for _ in 0..2 {
                let seen = number_at(&reader, fd);
                assert!(matches!(seen, Ok(1 | 2) | Err(Errno::EBADF)), "{seen:?}");
            }
        });
        join(closer);
        join(reader);
        assert_eq!(number_at(&task, fd + 1), Ok(2));
        drop(task);
        world.assert_at_rest();
    });
}

/// The slot of a closed file is reused at once for another file, at another descriptor.
#[test]
fn lookups_survive_the_reuse_of_a_file_slot() {
    explore_often(4, || {
        let world = World::new(2);
        let task = world.task();
        task.stat(&name(false, 2)).expect("stat");
        let [closer, reader] = [0; 2].map(|_| task.clone_files().expect("a task"));
        // Its only descriptor is not the lowest.
        let first = open(&closer, false, 1);
        closer.dup2(first, 5).expect("dup2");
        closer.close(first).expect("close");
        let closer = spawn(move || {
            closer.close(5).expect("close");
            assert_eq!(open(&closer, false, 2), first);
        });
        let reader = spawn(move || {
            let seen = number_at(&reader, 5);
            assert!(matches!(seen, Ok(1) | Err(Errno::EBADF)), "{seen:?}");
        });
        join(closer);
        join(reader);
        drop(task);
        world.assert_at_rest();
    });
}

/// A table grows to its second and third segment under lookups in each.
#[test]
fn lookups_succeed_while_the_table_grows() {
    explore(|| {
        let world = World::new(2);
        let task = world.task();
        let fd = open(&task, true, 1);
        let [grower, reader] = [0; 2].map(|_| task.clone_files().expect("a task"));
        let grower = spawn(move || {
            for far in [63, 64, 200] {
                assert_eq!(grower.dup2(fd, far), Ok(far));
            }
            grower.close(fd).expect("close");
            grower.close(200).expect("close");
        });
        let reader = spawn(move || {
            let mut last = true;
            for far in [200, 64, 63] {
                match number_at(&reader, far) {
                    Ok(1) => last = false,
                    Err(Errno::EBADF) if last || far == 200 => {}
                    other => panic!("{far}: {other:?}"),
                }
            }
        });
        join(grower);
        join(reader);
        assert_eq!(task.descriptors(), [63, 64]);
        assert_eq!(open(&task, false, 2), fd);
        drop(task);
        world.assert_at_rest();
    });
}

/// A file passes to another task while its opener still uses it.
#[test]
fn a_file_passes_to_another_task_while_its_opener_closes_it() {
    explore(|| {
        let world = World::new(2);
        let task = world.task();
        let fd = open(&task, true, 1);
        let file = task.file(fd).expect("a file");
        let other = world.task();
        let other = spawn(move || {
            let fd = other.install(&file, O_CLOEXEC).expect("install");
            let copy = file.clone();
            drop(file);
            assert_eq!(number_at(&other, fd), Ok(1));
            other.close(fd).expect("close");
            drop(copy);
        });
        let copy = task.dup(fd).expect("dup");
        task.close(fd).expect("close");
        assert_eq!(number_at(&task, copy), Ok(1));
        task.close(copy).expect("close");
        // Its slot may hold another file now, while the other task still has the first one.
        let next = open(&task, true, 2);
        assert_eq!(number_at(&task, next), Ok(2));
        join(other);
        drop(task);
        world.assert_at_rest();
    });
}

/// Three threads drop one file: one of them releases it.
#[test]
fn the_last_of_several_closes_releases_the_file() {
    explore(|| {
        let world = World::new(1);
        let task = world.task();
        let fd = open(&task, true, 1);
        let files = [0; 2].map(|_| task.file(fd).expect("a file"));
        let threads = files.map(|file| spawn(move || drop(file)));
        task.close(fd).expect("close");
        threads.into_iter().for_each(join);
        world.record.assert_closed(0);
        drop(task);
        world.assert_at_rest();
    });
}

/// The tasks of a table end at the same time: its files are closed once.
#[test]
fn the_last_task_of_a_table_closes_its_files() {
    explore(|| {
        let world = World::new(2);
        let task = world.task();
        open(&task, true, 1);
        open(&task, false, 2);
        let others = [0; 2].map(|_| task.clone_files().expect("a task"));
        let threads = others.map(|other| spawn(move || drop(other)));
        drop(task);
        threads.into_iter().for_each(join);
        world.assert_at_rest();
    });
}

/// A table is shared and left again, repeatedly.
#[test]
fn a_table_goes_between_one_owner_and_many() {
    explore(|| {
        let world = World::new(3);
        let task = world.task();
        let first = open(&task, true, 1);
        let other = task.clone_files().expect("a task");
        let other = spawn(move || {
            let fd = open(&other, true, 2);
            assert_eq!(number_at(&other, fd), Ok(2));
        });
        // Whether or not the other task is gone already.
        let own = open(&task, true, 3);
        assert_eq!(number_at(&task, own), Ok(3));
        let child = task.fork().expect("a task");
        task.close(first).expect("close");
        join(other);
        task.close(own).expect("close");
        let left = task.descriptors();
        assert_eq!(left.len(), 1);
        assert_eq!(number_at(&task, left[0]), Ok(2));
        assert_eq!(number_at(&child, first), Ok(1));
        drop((task, child));
        world.assert_at_rest();
    });
}

/// Reads of one open file get each byte once.
#[test]
fn reads_move_the_offset_one_at_a_time() {
    explore(|| {
        let (_vfs, task) = memory(b"abcdef");
        let fd = task.open(b"/f", O_RDONLY, 0).expect("open");
        let read = move |task: &Task| {
            let mut all = Vec::new();
            for _ in 0..2 {
                let mut some = [0; 2];
                let n = task.read(fd, &mut some).expect("read");
                all.push(some[..n].to_vec());
            }
            all
        };
        let other = task.clone_files().expect("a task");
        let other = spawn(move || read(&other));
        let mut all = read(&task);
        all.extend(join(other));
        all.sort();
        assert_eq!(all, [&b""[..], b"ab", b"cd", b"ef"].map(<[u8]>::to_vec));
    });
}

/// Appends follow one another, through one open file and through two.
#[test]
fn appends_do_not_overwrite_each_other() {
    explore(|| {
        let (_vfs, task) = memory(b"");
        let append = |task: &Task, fd: i32, data: &[u8; 2]| {
            assert_eq!(task.write(fd, data), Ok(2));
        };
        let open = |task: &Task| task.open(b"/f", O_WRONLY | O_APPEND, 0).expect("open");
        let fd = open(&task);
        let other = task.clone_files().expect("a task");
        let third = task.clone_files().expect("a task");
        let other = spawn(move || append(&other, fd, b"bb"));
        let third = spawn(move || append(&third, open(&third), b"cc"));
        append(&task, fd, b"aa");
        join(other);
        join(third);
        let mut body = [0; 9];
        let fd = task.open(b"/f", O_RDONLY, 0).expect("open");
        assert_eq!(task.read(fd, &mut body), Ok(6));
        let mut parts: Vec<_> = body[..6].chunks(2).collect();
        parts.sort();
        assert_eq!(parts, [b"aa", b"bb", b"cc"]);
    });
}

/// A file is not open for writing while a program runs from it.
#[test]
fn writers_and_programs_exclude_each_other() {
    explore(|| {
        let (_vfs, task) = memory(b"");
        let fd = task.open(b"/f", O_RDONLY, 0).expect("open");
        let other = task.fork().expect("a task");
        let writer = spawn(move || {
            let opened = other.open(b"/f", O_RDWR, 0);
            assert!(matches!(opened, Ok(_) | Err(Errno::ETXTBSY)), "{opened:?}");
            (opened.is_ok(), other)
        });
        let running = task.deny_write(fd);
        let (writes, other) = join(writer);
        assert!(!(writes && running.is_ok()), "both");
        drop((running, other));
        assert!(task.open(b"/f", O_WRONLY, 0).is_ok());
        assert!(task.deny_write(fd).is_err());
    });
}

/// The same, while another thread asks repeatedly whether the tree can become read-only, which it
/// cannot.
#[test]
fn writers_and_programs_exclude_each_other_beside_read_only_requests() {
    explore_often(4, || {
        let (_vfs, task) = memory(b"");
        task.open(b"/other", O_CREAT | O_WRONLY, 0o600)
            .expect("open");
        let fd = task.open(b"/f", O_RDONLY, 0).expect("open");
        let [writer, asker] = [0; 2].map(|_| task.fork().expect("a task"));
        // The system's atomics: no switch happens between a call's answer and its note.
        let written = Arc::new([const { AtomicBool::new(false) }; 2]);
        let running = Arc::clone(&written);
        let exclude = |both: &[AtomicBool; 2], which: usize| {
            both[which].store(true, Ordering::SeqCst);
            assert!(
                !both[1 - which].load(Ordering::SeqCst),
                "open for writing while it runs"
            );
        };
        let writer = spawn(move || {
            for _ in 0..2 {
                if let Ok(fd) = writer.open(b"/f", O_WRONLY, 0) {
                    exclude(&written, 0);
                    shuttle::thread::yield_now();
                    written[0].store(false, Ordering::SeqCst);
                    writer.close(fd).expect("close");
                }
            }
        });
        let asker = spawn(move || {
            for _ in 0..3 {
                assert_eq!(asker.remount_sb(b"/", true), Err(Errno::EBUSY));
            }
        });
        for _ in 0..2 {
            if let Ok(program) = task.deny_write(fd) {
                exclude(&running, 1);
                shuttle::thread::yield_now();
                running[1].store(false, Ordering::SeqCst);
                drop(program);
            }
        }
        join(writer);
        join(asker);
    });
}

/// A tree does not become read-only while a file in it is open for writing.
#[test]
fn writers_and_read_only_exclude_each_other() {
    explore(|| {
        let (_vfs, task) = memory(b"");
        let other = task.fork().expect("a task");
        let writer = spawn(move || {
            let opened = other.open(b"/f", O_RDWR, 0);
            assert!(matches!(opened, Ok(_) | Err(Errno::EROFS)), "{opened:?}");
            (opened.is_ok(), other)
        });
        let read_only = task.remount_sb(b"/", true);
        let (writes, _other) = join(writer);
        assert!(!(writes && read_only.is_ok()), "both");
    });
}
