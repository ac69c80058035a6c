// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the lowest free descriptor comes next, that duplicates share an offset, that forks
//! copy tables, and that tasks share them and pass files, as in Linux. Also that a limit bounds
//! descriptors, that owners and signals are kept for the host, and that writers and programs
//! exclude each other (`ETXTBSY`).

use openpath_abi::Errno;
use openpath_abi::fcntl::{
    F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_GETOWN, F_GETSIG, F_OWNER_PGRP, F_SETFD, F_SETOWN,
    F_SETSIG, FD_CLOEXEC, O_CLOEXEC, O_CREAT, O_PATH, O_RDONLY, O_RDWR, O_WRONLY,
};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, OwnerEx, Task, Vfs};

fn task() -> (Vfs, Task) {
    let vfs = Vfs::builder()
        .build(MemFs::new(MemOptions::default()))
        .unwrap();
    let task = vfs.task(Cred::root()).unwrap();
    let fd = task.open(b"/f", O_CREAT | O_RDWR, 0o644).unwrap();
    assert_eq!(task.write(fd, b"hello"), Ok(5));
    task.close(fd).unwrap();
    (vfs, task)
}

#[test]
fn the_lowest_free_descriptor_is_next() {
    let (_vfs, task) = task();
    let open = || task.open(b"/f", O_RDONLY, 0).unwrap();
    assert_eq!([open(), open(), open()], [0, 1, 2]);
    task.close(1).unwrap();
    assert_eq!(task.close(1), Err(Errno::EBADF));
    assert_eq!(open(), 1);
    assert_eq!(task.dup(0), Ok(3));
    assert_eq!(task.dup2(0, 9), Ok(9));
    assert_eq!(task.fcntl(0, F_DUPFD, 9), Ok(10));
    assert_eq!(task.fcntl(0, F_DUPFD_CLOEXEC, 5), Ok(5));
    assert_eq!(task.fcntl(5, F_GETFD, 0), Ok(u64::from(FD_CLOEXEC)));
    assert_eq!(task.descriptors(), [0, 1, 2, 3, 5, 9, 10]);
    task.close_range(1, 9, 0).unwrap();
    assert_eq!(task.descriptors(), [0, 10]);
}

#[test]
fn duplicates_share_the_offset_and_opens_do_not() {
    let (_vfs, task) = task();
    let mut buf = [0; 2];
    let one = task.open(b"/f", O_RDONLY, 0).unwrap();
    let two = task.dup(one).unwrap();
    let other = task.open(b"/f", O_RDONLY, 0).unwrap();
    assert_eq!(task.read(one, &mut buf), Ok(2));
    assert_eq!((task.read(two, &mut buf), &buf), (Ok(2), b"ll"));
    assert_eq!((task.read(other, &mut buf), &buf), (Ok(2), b"he"));
}

#[test]
fn a_fork_copies_the_table_and_shares_the_files() {
    let (vfs, task) = task();
    let fd = task.open(b"/f", O_RDONLY, 0).unwrap();
    let child = task.fork().unwrap();
    task.close(fd).unwrap();
    let mut buf = [0; 9];
    assert_eq!(child.read(fd, &mut buf), Ok(5));
    drop(task);
    assert_eq!(child.descriptors(), [fd]);
    drop(child);
    assert_eq!(vfs.usage().pins, 3, "only the mounts' own pins are left");
}

#[test]
fn a_shared_table_is_one_table_until_it_is_unshared() {
    let (vfs, task) = task();
    let fd = task.open(b"/f", O_RDWR, 0).unwrap();
    let other = task.clone_files().unwrap();
    let second = std::thread::spawn(move || {
        let second = other.open(b"/f", O_RDONLY | O_CLOEXEC, 0).unwrap();
        assert_eq!(other.pwrite(fd, b"J", 0), Ok(1));
        other.close(fd).unwrap();
        second
    });
    let second = second.join().unwrap();
    assert_eq!(task.descriptors(), [second]);
    let other = task.clone_files().unwrap();
    other.unshare_files().unwrap();
    other.close(second).unwrap();
    assert_eq!(task.descriptors(), [second]);
    task.exec().unwrap();
    assert!(task.descriptors().is_empty());
    drop((task, other));
    assert_eq!(vfs.usage().pins, 3);
}

#[test]
fn a_file_passes_from_task_to_task() {
    let (vfs, task) = task();
    let fd = task.open(b"/f", O_RDONLY, 0).unwrap();
    let file = task.file(fd).unwrap();
    task.close(fd).unwrap();
    let other = vfs.task(Cred::root()).unwrap();
    let got = std::thread::spawn(move || {
        let fd = other.install(&file, O_CLOEXEC).unwrap();
        drop(file);
        let mut buf = [0; 9];
        let got = other.read(fd, &mut buf);
        other.close(fd).unwrap();
        got
    });
    assert_eq!(got.join().unwrap(), Ok(5));
    drop(task);
    assert_eq!(vfs.usage().pins, 3);
}

#[test]
fn rlimit_nofile_bounds_descriptors() {
    let (_vfs, task) = task();
    task.set_rlimit_nofile(2);
    task.open(b"/f", O_RDONLY, 0).unwrap();
    task.open(b"/f", O_RDONLY, 0).unwrap();
    assert_eq!(task.open(b"/nope", O_RDONLY, 0), Err(Errno::EMFILE));
    assert_eq!(
        task.open(b"/new", O_CREAT | O_WRONLY, 0o600),
        Err(Errno::EMFILE)
    );
    assert_eq!(task.stat(b"/new").err(), Some(Errno::ENOENT));
    assert_eq!(task.dup(0), Err(Errno::EMFILE));
    assert_eq!(task.dup2(0, 2), Err(Errno::EBADF));
    assert_eq!(task.fcntl(0, F_DUPFD, 2), Err(Errno::EINVAL));
    assert_eq!(task.dup2(0, 1), Ok(1));
    assert_eq!(task.fcntl(1, F_SETFD, 1), Ok(0));
}

#[test]
fn writers_and_programs_exclude_each_other() {
    let (_vfs, task) = task();
    let reader = task.open(b"/f", O_RDONLY, 0).unwrap();
    let writer = task.open(b"/f", O_WRONLY, 0).unwrap();
    assert_eq!(task.deny_write(reader).err(), Some(Errno::ETXTBSY));
    task.close(writer).unwrap();
    let running = task.deny_write(reader).unwrap();
    assert_eq!(task.open(b"/f", O_RDWR, 0), Err(Errno::ETXTBSY));
    assert_eq!(task.truncate(b"/f", 0), Err(Errno::ETXTBSY));
    drop(running);
    assert!(task.open(b"/f", O_RDWR, 0).is_ok());
}

#[test]
fn owners_and_signals_of_descriptors_are_kept_for_the_host() {
    let (_vfs, task) = task();
    let fd = task.open(b"/f", O_RDONLY, 0).unwrap();
    // There are no processes here to look among, so any number does.
    let nobody = 4_000_000_u32;
    assert_eq!(task.fcntl(fd, F_SETOWN, u64::from(nobody)), Ok(0));
    assert_eq!(task.fcntl(fd, F_GETOWN, 0), Ok(u64::from(nobody)));
    let group = (-7_i32).cast_unsigned();
    assert_eq!(task.fcntl(fd, F_SETOWN, u64::from(group)), Ok(0));
    assert_eq!(task.fcntl(fd, F_GETOWN, 0), Ok(u64::from(group)));
    let owner = OwnerEx {
        kind: F_OWNER_PGRP,
        pid: 7,
    };
    assert_eq!(task.getown_ex(fd), Ok(owner));
    assert_eq!(task.fcntl(fd, F_SETSIG, 65), Err(Errno::EINVAL));
    assert_eq!(task.fcntl(fd, F_SETSIG, 10), Ok(0));
    assert_eq!(task.fcntl(fd, F_GETSIG, 0), Ok(10));
    let least = i32::MIN.cast_unsigned();
    assert_eq!(
        task.fcntl(fd, F_SETOWN, u64::from(least)),
        Err(Errno::EINVAL)
    );
    let place = task.open(b"/f", O_PATH, 0).unwrap();
    assert_eq!(task.fcntl(place, F_GETOWN, 0), Err(Errno::EBADF));
}
