// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that every kind of close ends file locks before it returns, that locks count against the
//! limit of their tenant, and that one file can have very many.

use crate::world::*;
use openpath_abi::fcntl::*;
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, LOCK_SH};
use openpath_abi::{Errno, Flock};
use openpath_vfs::{Fd, LockOwner, Task, TenantLimits, Vfs};
use std::thread;

const WRITE: Flock = Flock::new(F_WRLCK, 0, 10);

fn open(task: &Task, path: &str) -> Fd {
    let fd = task.open(path.as_bytes(), O_CREAT | O_RDWR, 0o666);
    fd.expect("a file")
}

/// A task with three locks of the file at 0: by fcntl(2), of the open file description, and by
/// flock(2).
fn locked(vfs: &Vfs) -> Task {
    let task = root(vfs);
    assert_eq!(open(&task, "/f"), 0);
    task.fcntl_setlk(0, &WRITE).expect("a lock");
    task.ofd_setlk(0, &Flock::new(F_WRLCK, 10, 10))
        .expect("a lock");
    task.flock(0, LOCK_EX).expect("a lock");
    task
}

/// The kinds of locks that are held: `p` by fcntl(2), `o` of an open file description, `f` by
/// flock(2).
fn kinds(vfs: &Vfs) -> String {
    let letter = |owner| match owner {
        LockOwner::Table(_) | LockOwner::Face(..) => 'p',
        LockOwner::File(_) => 'o',
        LockOwner::Flock(_) => 'f',
    };
    vfs.locks().iter().map(|lock| letter(lock.owner)).collect()
}

/// The name of a kind of close, the call, and the kinds of locks that are left.
type CloseCase = (&'static str, fn(&Task), &'static str);

#[test]
fn every_kind_of_close_ends_locks_before_it_returns() {
    let ways: [CloseCase; 9] = [
        ("close", |t| t.close(0).expect("closed"), ""),
        (
            "close_range",
            |t| t.close_range(0, 9, 0).expect("closed"),
            "",
        ),
        ("dup2", |t| assert_eq!(t.dup2(open(t, "/g"), 0), Ok(0)), ""),
        (
            "cloexec",
            |t| {
                t.fcntl(0, F_SETFD, 1).expect("a flag");
                t.exec().expect("a program");
            },
            "",
        ),
        (
            "a duplicate",
            |t| t.close(t.dup(0).expect("a duplicate")).expect("closed"),
            "of",
        ),
        (
            "a second open",
            |t| t.close(open(t, "/f")).expect("closed"),
            "of",
        ),
        ("take_file", |t| drop(t.take_file(0).expect("a file")), ""),
        (
            "unshare",
            |t| {
                let thread = t.clone_files().expect("a thread");
                thread.unshare_files().expect("a table");
                thread.close(0).expect("closed");
            },
            "pof",
        ),
        ("exec", |t| t.exec().expect("a program"), "pof"),
    ];
    for (name, way, left) in ways {
        let vfs = world();
        let task = locked(&vfs);
        assert_eq!(kinds(&vfs), "pof");
        way(&task);
        assert_eq!(kinds(&vfs), left, "{name}");
        drop(task);
        assert_eq!(kinds(&vfs), "", "{name}, after the table is dropped");
        assert_eq!(vfs.root_tenant().stats().locks, 0);
    }
}

#[test]
fn leaving_a_shared_table_releases_no_locks() {
    let vfs = world();
    let task = locked(&vfs);
    let thread = task.clone_files().expect("a thread");
    drop(task);
    assert_eq!(kinds(&vfs), "pof");
    thread
        .fcntl_setlk(0, &Flock::new(F_RDLCK, 0, 5))
        .expect("a lock of the shared table");
    assert_eq!(vfs.locks().len(), 4);
    drop(thread);
    assert_eq!(kinds(&vfs), "");
}

#[test]
fn an_open_file_in_transit_keeps_its_locks() {
    let vfs = world();
    let task = locked(&vfs);
    let file = task.file(0).expect("a file");
    drop(task);
    assert_eq!(kinds(&vfs), "of");
    let other = root(&vfs);
    let fd = other.install(&file, O_RDONLY).expect("a descriptor");
    drop(file);
    assert_eq!(kinds(&vfs), "of");
    other.close(fd).expect("closed");
    assert_eq!(kinds(&vfs), "");
}

#[test]
fn a_tenant_is_charged_for_its_locks_until_they_end() {
    let vfs = world();
    let tenant = vfs.tenant(TenantLimits::default().locks_max(3));
    let task = root(&vfs);
    task.set_tenant(&tenant).expect("a tenant of this Vfs");
    let fd = open(&task, "/f");
    let byte = |kind, at| Flock::new(kind, at, 1);
    task.fcntl_setlk(fd, &WRITE).expect("one");
    task.fcntl_setlk(fd, &byte(F_UNLCK, 5))
        .expect("one lock becomes two");
    assert_eq!(
        task.fcntl_setlk(fd, &byte(F_RDLCK, 2)),
        Err(Errno::ENOLCK),
        "four"
    );
    task.flock(fd, LOCK_SH).expect("three");
    assert_eq!(task.fcntl_setlk(fd, &byte(F_UNLCK, 2)), Err(Errno::ENOLCK));
    assert_eq!(task.ofd_setlk(fd, &byte(F_RDLCK, 50)), Err(Errno::ENOLCK));
    assert_eq!(tenant.stats().locks, 3);
    assert_eq!(
        task.fcntl_setlk(fd, &byte(F_WRLCK, 5)),
        Ok(()),
        "two locks become one"
    );
    assert_eq!(tenant.stats().locks, 2);
    // A waiter is charged to its own tenant when its lock is granted.
    let other = root(&vfs);
    assert_eq!(open(&other, "/f"), 0);
    let interrupter = other.interrupter();
    let waits = thread::spawn(move || {
        let done = other.fcntl_setlkw(0, &WRITE);
        (other, done)
    });
    while !vfs.locks().iter().any(|lock| lock.waits) {
        thread::yield_now();
    }
    assert_eq!(
        (tenant.stats().locks, vfs.root_tenant().stats().locks),
        (2, 0)
    );
    drop(task);
    let (other, done) = waits.join().expect("a thread");
    assert_eq!((done, interrupter.withdraw()), (Ok(()), false));
    assert_eq!(
        (tenant.stats().locks, vfs.root_tenant().stats().locks),
        (0, 1)
    );
    drop(other);
    assert_eq!(vfs.root_tenant().stats().locks, 0);
}

#[test]
fn a_waiter_whose_tenant_is_at_its_limit_fails_with_enolck() {
    let vfs = world();
    let tenant = vfs.tenant(TenantLimits::default().locks_max(0));
    let (holds, waits) = (root(&vfs), root(&vfs));
    waits.set_tenant(&tenant).expect("a tenant of this Vfs");
    assert_eq!((open(&holds, "/f"), open(&waits, "/f")), (0, 0));
    holds.flock(0, LOCK_EX).expect("a lock");
    let told = thread::spawn(move || waits.flock(0, LOCK_EX));
    while !vfs.locks().iter().any(|lock| lock.waits) {
        thread::yield_now();
    }
    holds.close(0).expect("closed");
    assert_eq!(told.join().expect("a thread"), Err(Errno::ENOLCK));
    assert!(vfs.locks().is_empty());
}

#[test]
fn a_list_of_locks_has_the_columns_of_proc_locks() {
    let vfs = world();
    let task = locked(&vfs);
    task.set_pid(77);
    task.fcntl_setlk(0, &Flock::new(F_RDLCK, 30, 0))
        .expect("a lock");
    let stat = task.fstat(0).expect("stat");
    let place = format!("{:02x}:{:02x}:{}", stat.dev >> 8, stat.dev & 0xff, stat.ino);
    let lines: Vec<String> = task
        .locks(0)
        .expect("locks")
        .iter()
        .map(|l| l.to_string())
        .collect();
    let pid = vfs.locks()[0].pid;
    assert_eq!(
        lines,
        [
            format!("POSIX  ADVISORY  WRITE {pid} {place} 0 9"),
            format!("POSIX  ADVISORY  READ  77 {place} 30 EOF"),
            format!("OFDLCK ADVISORY  WRITE -1 {place} 10 19"),
            format!("FLOCK  ADVISORY  WRITE {pid} {place} 0 EOF"),
        ]
    );
    assert_eq!(task.locks(BAD), Err(Errno::EBADF));
}

#[test]
fn one_file_can_have_100000_locked_ranges() {
    let vfs = world();
    let task = root(&vfs);
    let other = root(&vfs);
    let (fd, theirs) = (open(&task, "/f"), open(&other, "/f"));
    for at in 0..100_000 {
        task.fcntl_setlk(fd, &Flock::new(F_WRLCK, 2 * at, 1))
            .expect("a lock");
    }
    assert_eq!(vfs.root_tenant().stats().locks, 100_000);
    for at in (0..100_000).step_by(7) {
        let free = Flock::new(F_WRLCK, 2 * at + 1, 1);
        assert_eq!(
            other.fcntl_getlk(theirs, &free).expect("a lock").kind,
            F_UNLCK
        );
        let taken = other.fcntl_getlk(theirs, &Flock::new(F_RDLCK, 2 * at, 2));
        assert_eq!(taken.expect("a lock").start, 2 * at);
    }
    assert_eq!(other.flock(theirs, LOCK_EX | LOCK_NB), Ok(()));
    // All ranges merge into one.
    task.fcntl_setlk(fd, &Flock::new(F_WRLCK, 0, 0))
        .expect("a lock");
    assert_eq!(vfs.root_tenant().stats().locks, 2);
}
