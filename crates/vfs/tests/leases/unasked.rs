// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests rules of leases that the running kernel cannot be asked about: a lease is broken when its
//! time is up, and changes of names and attributes break delegations. An open that must not wait
//! breaks a lease and fails.

use crate::world::*;
use openpath_abi::fcntl::*;
use openpath_abi::lock::{F_GETLEASE, F_RDLCK, F_SETLEASE, F_UNLCK, F_WRLCK};
use openpath_abi::{AtFlags, Delegation, Errno, XattrFlags};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Fd, LockKind, Profile, Reason, Sysctl, Task, TryError, Tuning, Vfs};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// A `Vfs` of Linux 7.2 with this break time in seconds.
fn vfs(seconds: u32) -> Vfs {
    let sysctl = Sysctl::default().lease_break_time(seconds);
    let builder = Vfs::builder().profile(Profile::V7_2).sysctl(sysctl);
    let vfs = builder.build(MemFs::new(MemOptions::default()));
    let vfs = vfs.expect("a Vfs");
    let task = root(&vfs);
    task.mkdir(b"/d", 0o777).expect("a directory");
    for file in [&b"/f"[..], b"/d/f", b"/d/g"] {
        let fd = task.open(file, O_CREAT | O_RDWR, 0o666).expect("a file");
        task.write(fd, b"bytes").expect("bytes");
        task.close(fd).expect("closed");
    }
    vfs
}

fn lease(task: &Task, fd: Fd, kind: i16) -> Result<(), Errno> {
    task.fcntl(fd, F_SETLEASE, kind as u64).map(drop)
}

fn leased(task: &Task, fd: Fd) -> i16 {
    task.fcntl(fd, F_GETLEASE, 0).expect("a file") as i16
}

fn delegation(kind: i16) -> Delegation {
    Delegation {
        kind: kind.cast_unsigned(),
        ..Delegation::default()
    }
}

fn delegated(task: &Task, fd: Fd) -> i16 {
    let told = task.getdeleg(fd, &Delegation::default());
    told.expect("a file").kind.cast_signed()
}

/// A task that holds a delegation or a lease on the file that it has open.
fn holder(vfs: &Vfs, path: &str) -> (Task, Fd) {
    let task = root(vfs);
    let fd = task.open(path.as_bytes(), O_RDONLY, 0).expect("open");
    (task, fd)
}

#[test]
fn a_lease_is_broken_by_force_when_its_time_is_up() {
    let vfs = vfs(1);
    let (task, fd) = holder(&vfs, "/f");
    lease(&task, fd, F_WRLCK).expect("a lease");
    let other = root(&vfs);
    let began = Instant::now();
    let reader = other.open(b"/f", O_RDONLY, 0).expect("open");
    assert!(
        began.elapsed() >= Duration::from_millis(900),
        "the opener did not wait"
    );
    assert_eq!(leased(&task, fd), F_RDLCK, "lowered");
    let writer = other.open(b"/f", O_WRONLY, 0).expect("open");
    assert_eq!(leased(&task, fd), F_UNLCK, "the lease was not broken");
    assert_eq!(lease(&task, fd, F_UNLCK), Err(Errno::EAGAIN));
    assert!(vfs.leases().is_empty());
    for fd in [reader, writer] {
        other.close(fd).expect("closed");
    }
}

#[test]
fn a_break_without_a_waiter_ends_when_the_lease_is_next_checked() {
    let vfs = vfs(1);
    let (task, fd) = holder(&vfs, "/f");
    lease(&task, fd, F_RDLCK).expect("a lease");
    let other = root(&vfs);
    let flags = O_WRONLY | O_NONBLOCK;
    assert_eq!(other.open(b"/f", flags, 0), Err(Errno::EAGAIN));
    thread::sleep(Duration::from_millis(1100));
    assert_eq!(leased(&task, fd), F_UNLCK);
    assert!(other.open(b"/f", flags, 0).is_ok());
}

#[test]
fn without_a_break_time_an_open_waits_for_the_holder() {
    let vfs = vfs(0);
    let (task, fd) = holder(&vfs, "/f");
    lease(&task, fd, F_RDLCK).expect("a lease");
    let other = root(&vfs);
    let interrupter = other.interrupter();
    let waits = thread::spawn(move || other.open(b"/f", O_WRONLY, 0));
    thread::sleep(Duration::from_millis(200));
    assert!(!waits.is_finished());
    interrupter.interrupt();
    assert_eq!(waits.join().expect("a thread"), Err(Errno::EINTR));
    assert_eq!(
        leased(&task, fd),
        F_UNLCK,
        "the break did not reach the lease"
    );
}

#[test]
fn leases_enable_off_refuses_leases() {
    let sysctl = Sysctl::default().leases_enable(false);
    let builder = Vfs::builder().sysctl(sysctl);
    let vfs = builder.build(MemFs::new(MemOptions::default()));
    let vfs = vfs.expect("a Vfs");
    let task = root(&vfs);
    let fd = task.open(b"/f", O_CREAT | O_RDONLY, 0o666).expect("a file");
    assert_eq!(lease(&task, fd, F_RDLCK), Err(Errno::EINVAL));
    let other = task.open(b"/f", O_RDWR, 0).expect("a file");
    assert_eq!(
        lease(&task, fd, F_RDLCK),
        Err(Errno::EAGAIN),
        "a conflict comes first"
    );
    assert_eq!(lease(&task, other, F_UNLCK), Err(Errno::EAGAIN));
}

#[test]
fn an_open_that_must_not_wait_breaks_the_lease_and_says_why() {
    let vfs = vfs(0);
    let (task, fd) = holder(&vfs, "/f");
    lease(&task, fd, F_RDLCK).expect("a lease");
    let other = root(&vfs);
    let tried = other
        .try_open(b"/f", O_RDONLY, 0)
        .expect("no lease conflicts");
    other.close(tried).expect("closed");
    let before = other.reasons().of(Reason::Leased);
    let tried = other.try_open(b"/f", O_WRONLY, 0);
    assert_eq!(tried, Err(TryError::WouldBlock));
    assert_eq!(other.reasons().of(Reason::Leased), before + 1);
    assert_eq!(leased(&task, fd), F_UNLCK);
    let tried = other.try_open(b"/f", O_WRONLY | O_NONBLOCK, 0);
    assert!(
        matches!(tried, Err(TryError::Errno(Errno::EAGAIN))),
        "{tried:?}"
    );
}

#[test]
fn a_holder_gets_one_notice_per_break() {
    let vfs = vfs(0);
    let (task, fd) = holder(&vfs, "/f");
    task.set_pid(7);
    lease(&task, fd, F_WRLCK).expect("a lease");
    let other = root(&vfs);
    let open = |flags| other.open(b"/f", flags | O_NONBLOCK, 0);
    assert_eq!(open(O_RDONLY), Err(Errno::EAGAIN));
    let breaks = vfs.lease_breaks();
    let soon = || breaks.recv_timeout(Duration::ZERO);
    assert_eq!(soon(), None, "a late listener hears only later notices");
    lease(&task, fd, F_UNLCK).expect("released");
    lease(&task, fd, F_WRLCK).expect("a lease");
    assert_eq!(open(O_RDONLY), Err(Errno::EAGAIN));
    assert_eq!(open(O_RDONLY), Err(Errno::EAGAIN));
    assert_eq!(open(O_WRONLY), Err(Errno::EAGAIN));
    // One notice for both, because neither was taken.
    let told = soon().expect("a notice");
    assert_eq!((told.fd, told.pid, told.owner.pid), (fd, 7, 7));
    assert_eq!((told.kind, told.becomes), (LockKind::Write, None));
    assert_eq!(soon(), None);
    lease(&task, fd, F_UNLCK).expect("released");
    lease(&task, fd, F_RDLCK).expect("a lease");
    assert_eq!(open(O_WRONLY), Err(Errno::EAGAIN));
    task.close(fd).expect("closed");
    assert_eq!(soon(), None, "the notice came again");
    let (said, heard) = mpsc::channel();
    let listener = thread::spawn(move || said.send(breaks.recv()));
    drop((task, other, vfs));
    assert_eq!(heard.recv().expect("an answer"), None);
    listener.join().expect("a thread").expect("heard");
}

#[test]
fn an_overdue_lease_can_be_released_until_it_is_checked() {
    let vfs = vfs(1);
    let other = root(&vfs);
    for looks in [false, true] {
        let (task, fd) = holder(&vfs, "/f");
        lease(&task, fd, F_WRLCK).expect("a lease");
        let asks = other.open(b"/f", O_RDWR | O_NONBLOCK, 0);
        assert_eq!(asks, Err(Errno::EAGAIN));
        thread::sleep(Duration::from_millis(1100));
        if looks {
            assert_eq!(leased(&task, fd), F_UNLCK);
        }
        let given_back = lease(&task, fd, F_UNLCK);
        assert_eq!(given_back.is_ok(), !looks, "{given_back:?}");
    }
}

/// Changes of a directory `/d` with files `f` and `g` in it, and of those files.
type Change = (&'static str, fn(&Task) -> Result<(), Errno>);

const CHANGES: [Change; 10] = [
    ("mkdir", |t| t.mkdir(b"/d/new", 0o777)),
    ("mknod", |t| t.mknod(b"/d/pipe", 0o010_666, 0)),
    ("symlink", |t| t.symlink(b"f", b"/d/link")),
    ("create", |t| {
        let fd = t.open(b"/d/made", O_CREAT | O_RDONLY, 0o666)?;
        t.close(fd)
    }),
    ("link", |t| t.link(b"/d/g", b"/d/h")),
    ("unlink", |t| t.unlink(b"/d/h")),
    ("rmdir", |t| t.rmdir(b"/d/new")),
    ("rename within", |t| t.rename(b"/d/g", b"/d/gg")),
    ("rename out", |t| t.rename(b"/d/gg", b"/out")),
    ("rename in", |t| t.rename(b"/out", b"/d/g")),
];

/// Each of `changes` waits until the holder releases its delegation of `path`, and then succeeds.
fn each_asks_for_the_delegation_of(path: &str, changes: &[Change]) {
    let vfs = vfs(0);
    let (task, fd) = holder(&vfs, path);
    for &(what, change) in changes {
        task.setdeleg(fd, &delegation(F_RDLCK))
            .expect("a delegation");
        let other = root(&vfs);
        let waits = thread::spawn(move || change(&other));
        while delegated(&task, fd) == F_RDLCK {
            assert!(!waits.is_finished(), "{what} breaks no delegation");
            thread::yield_now();
        }
        assert!(!waits.is_finished(), "{what} does not wait");
        task.setdeleg(fd, &delegation(F_UNLCK)).expect("released");
        assert_eq!(waits.join().expect("a thread"), Ok(()), "{what}");
    }
}

#[test]
fn changes_of_names_break_the_delegation_of_their_directory() {
    each_asks_for_the_delegation_of("/d", &CHANGES);
}

#[test]
fn changes_of_names_and_attributes_break_the_delegation_of_a_file() {
    let changes: [Change; 10] = [
        ("chmod", |t| t.chmod(b"/d/f", 0o600)),
        ("chown", |t| t.chown(b"/d/f", 1, 1)),
        ("utimens", |t| {
            let now = [openpath_abi::TimeSet::Now; 2];
            t.utimensat(AT_FDCWD, Some(b"/d/f"), now, AtFlags::empty())
        }),
        ("setxattr", |t| {
            t.setxattr(b"/d/f", b"user.x", b"1", XattrFlags::empty())
        }),
        ("removexattr", |t| t.removexattr(b"/d/f", b"user.x")),
        ("link", |t| t.link(b"/d/f", b"/d/h")),
        ("rename", |t| t.rename(b"/d/h", b"/d/ff")),
        ("rename over", |t| t.rename(b"/d/g", b"/d/f")),
        ("truncate", |t| t.truncate(b"/d/ff", 1)),
        ("unlink", |t| t.unlink(b"/d/ff")),
    ];
    each_asks_for_the_delegation_of("/d/f", &changes);
}

#[test]
fn calls_that_change_nothing_of_a_file_do_not_break_its_delegation() {
    let vfs = vfs(0);
    let (task, fd) = holder(&vfs, "/d");
    task.setdeleg(fd, &delegation(F_RDLCK))
        .expect("a delegation");
    let other = root(&vfs);
    assert_eq!(other.mkdir(b"/d/f", 0o777), Err(Errno::EEXIST));
    assert_eq!(other.unlink(b"/d/none"), Err(Errno::ENOENT));
    assert_eq!(other.rmdir(b"/d/f"), Err(Errno::ENOTDIR));
    let fd_f = other.open(b"/d/f", O_CREAT | O_RDWR, 0o666).expect("open");
    other.write(fd_f, b"more").expect("bytes");
    other.chmod(b"/d/f", 0o600).expect("a mode");
    other.rename(b"/d", b"/e").expect("renamed");
    other.rename(b"/e", b"/d").expect("renamed");
    other.readlink(b"/d/f").expect_err("no link");
    assert_eq!(delegated(&task, fd), F_RDLCK);
    let dir = other.open(b"/d", O_RDONLY, 0).expect("open");
    other.getdents64(dir, 1024).expect("names");
    assert_eq!(delegated(&task, fd), F_RDLCK);
}

#[test]
fn changes_of_names_do_not_break_a_lease() {
    let vfs = vfs(0);
    let (task, fd) = holder(&vfs, "/d/f");
    lease(&task, fd, F_RDLCK).expect("a lease");
    let other = root(&vfs);
    other.chmod(b"/d/f", 0o600).expect("a mode");
    other.link(b"/d/f", b"/d/h").expect("a link");
    other.rename(b"/d/h", b"/d/i").expect("renamed");
    other.unlink(b"/d/f").expect("unlinked");
    assert_eq!(leased(&task, fd), F_RDLCK);
}

#[test]
fn an_interrupted_wait_for_a_delegation_changes_nothing() {
    let vfs = vfs(0);
    let (task, fd) = holder(&vfs, "/d");
    task.setdeleg(fd, &delegation(F_RDLCK))
        .expect("a delegation");
    for (what, change) in CHANGES {
        if ["rmdir", "unlink", "rename out", "rename in"].contains(&what) {
            continue;
        }
        let other = root(&vfs);
        let interrupter = other.interrupter();
        let waits = thread::spawn(move || change(&other));
        thread::sleep(Duration::from_millis(20));
        interrupter.interrupt();
        assert_eq!(waits.join().expect("a thread"), Err(Errno::EINTR), "{what}");
    }
    let names = root(&vfs);
    for gone in ["new", "pipe", "link", "made", "h", "gg"] {
        let path = format!("/d/{gone}");
        assert_eq!(
            names.stat(path.as_bytes()).map(drop),
            Err(Errno::ENOENT),
            "{gone}"
        );
    }
}

#[test]
fn a_delegation_taken_during_a_break_is_broken_too() {
    let vfs = vfs(0);
    let (first, fd) = holder(&vfs, "/d");
    let (second, other) = holder(&vfs, "/d");
    for (task, fd) in [(&first, fd), (&second, other)] {
        let taken = task.setdeleg(fd, &delegation(F_RDLCK));
        taken.expect("a delegation");
    }
    let changer = root(&vfs);
    let waits = thread::spawn(move || changer.mkdir(b"/d/new", 0o777));
    for (task, fd) in [(&first, fd), (&second, other)] {
        while delegated(task, fd) == F_RDLCK {
            thread::yield_now();
        }
        let given = task.setdeleg(fd, &delegation(F_UNLCK));
        given.expect("released");
        // Takes it again at once, if possible.
        let again = task.setdeleg(fd, &delegation(F_RDLCK));
        assert!(matches!(again, Ok(()) | Err(Errno::EAGAIN)), "{again:?}");
    }
    for _ in 0..1000 {
        for (task, fd) in [(&first, fd), (&second, other)] {
            if delegated(task, fd) != F_RDLCK {
                // It may have none.
                let _none = task.setdeleg(fd, &delegation(F_UNLCK));
            }
        }
        if waits.is_finished() {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    assert!(waits.is_finished(), "a holder was never asked");
    assert_eq!(waits.join().expect("a thread"), Ok(()));
}

#[test]
fn a_truncating_open_breaks_a_delegation_and_does_not_wait() {
    let vfs = vfs(0);
    let (task, fd) = holder(&vfs, "/f");
    let taken = task.setdeleg(fd, &delegation(F_RDLCK));
    taken.expect("a delegation");
    let other = root(&vfs);
    let cut = other.open(b"/f", O_RDONLY | O_TRUNC, 0);
    assert_eq!(cut, Err(Errno::EAGAIN));
    assert_eq!(
        delegated(&task, fd),
        F_UNLCK,
        "the break did not reach the delegation"
    );
    assert_eq!(other.stat(b"/f").expect("a file").size, 5);
    let given = task.setdeleg(fd, &delegation(F_UNLCK));
    given.expect("released");
    assert!(other.open(b"/f", O_RDONLY | O_TRUNC, 0).is_ok());
}

#[test]
fn a_break_names_the_descriptor_that_set_the_lease_last() {
    let vfs = vfs(0);
    let breaks = vfs.lease_breaks();
    let (task, fd) = holder(&vfs, "/f");
    task.set_pid(7);
    lease(&task, fd, F_RDLCK).expect("a lease");
    task.fcntl(fd, F_SETOWN, 0).expect("nobody");
    let copy = task.dup(fd).expect("a copy");
    lease(&task, copy, F_RDLCK).expect("the same lease");
    let other = root(&vfs);
    let opened = other.open(b"/f", O_WRONLY | O_NONBLOCK, 0);
    assert_eq!(opened, Err(Errno::EAGAIN));
    let told = breaks.recv_timeout(Duration::MAX).expect("a notice");
    assert_eq!((told.fd, told.owner.pid), (copy, 7));
}

#[test]
fn a_cached_open_waits_for_leases() {
    let vfs = vfs(0);
    let (task, fd) = holder(&vfs, "/f");
    lease(&task, fd, F_RDLCK).expect("a lease");
    let other = root(&vfs);
    let waits = thread::spawn(move || {
        let how = openpath_abi::OpenHow {
            flags: u64::from(O_WRONLY),
            mode: 0,
            resolve: openpath_abi::resolve::RESOLVE_CACHED,
        };
        other.openat2(AT_FDCWD, b"/f", &how)
    });
    while leased(&task, fd) == F_RDLCK {
        thread::yield_now();
    }
    thread::sleep(Duration::from_millis(50));
    assert!(!waits.is_finished());
    lease(&task, fd, F_UNLCK).expect("released");
    assert!(waits.join().expect("a thread").is_ok());
}

#[test]
fn setdeleg_checks_arguments_and_owner() {
    let older = world();
    let task = root(&older);
    let fd = task.open(b"/f", O_CREAT | O_RDONLY, 0o666).expect("a file");
    assert_eq!(task.setdeleg(fd, &delegation(F_RDLCK)), Err(Errno::EINVAL));
    assert_eq!(task.getdeleg(fd, &delegation(0)), Err(Errno::EINVAL));
    let vfs = vfs(0);
    let task = root(&vfs);
    let dir = task.open(b"/d", O_RDONLY, 0).expect("open");
    let file = task.open(b"/f", O_RDONLY, 0).expect("open");
    let place = task.open(b"/f", O_PATH, 0).expect("open");
    let odd = Delegation {
        flags: 1,
        ..delegation(F_RDLCK)
    };
    let padded = Delegation {
        pad: 1,
        ..delegation(F_RDLCK)
    };
    for (fd, asked, answer) in [
        (BAD, delegation(F_RDLCK), Err(Errno::EBADF)),
        (place, odd, Err(Errno::EBADF)),
        (file, odd, Err(Errno::EINVAL)),
        (file, padded, Err(Errno::EINVAL)),
        (file, delegation(7), Err(Errno::EINVAL)),
        (dir, delegation(F_WRLCK), Err(Errno::EINVAL)),
        (dir, delegation(F_UNLCK), Err(Errno::EAGAIN)),
        (dir, delegation(F_RDLCK), Ok(())),
        (file, delegation(F_WRLCK), Ok(())),
        (file, delegation(F_RDLCK), Ok(())),
    ] {
        assert_eq!(task.setdeleg(fd, &asked), answer, "{fd} {asked:?}");
    }
    assert_eq!(
        (delegated(&task, dir), delegated(&task, file)),
        (F_RDLCK, F_RDLCK)
    );
    assert_eq!(
        leased(&task, file),
        F_UNLCK,
        "a delegation counts as a lease"
    );
    assert_eq!(lease(&task, dir, F_RDLCK), Err(Errno::EINVAL));
    let stranger = vfs.task(Cred::user(5, 5, &[])).expect("a task");
    let theirs = stranger.open(b"/f", O_RDONLY, 0).expect("open");
    assert_eq!(
        stranger.setdeleg(theirs, &delegation(F_RDLCK)),
        Err(Errno::EACCES)
    );
    let writer = task.open(b"/d/f", O_RDWR, 0).expect("open");
    assert_eq!(
        task.setdeleg(writer, &delegation(F_RDLCK)),
        Err(Errno::EAGAIN)
    );
    let lines: Vec<String> = vfs.leases().iter().map(ToString::to_string).collect();
    assert!(
        lines
            .iter()
            .all(|line| line.starts_with("DELEG  ACTIVE    READ  ")),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 2);
}

#[test]
fn a_lease_ends_with_its_descriptor_without_reference_hand_over() {
    let mut tuning = Tuning::default();
    tuning.reference_hand_over = false;
    let builder = Vfs::builder().tuning(tuning);
    let vfs = builder.build(MemFs::new(MemOptions::default()));
    let vfs = vfs.expect("a Vfs");
    let task = root(&vfs);
    let fd = task.open(b"/f", O_CREAT | O_RDONLY, 0o666).expect("a file");
    let other = task.open(b"/f", O_RDONLY, 0).expect("open");
    assert_eq!(lease(&task, fd, F_WRLCK), Err(Errno::EAGAIN));
    task.close(other).expect("closed");
    assert_eq!(lease(&task, fd, F_WRLCK), Ok(()));
    task.close(fd).expect("closed");
    assert!(vfs.leases().is_empty());
}
