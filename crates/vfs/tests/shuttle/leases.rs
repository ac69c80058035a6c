// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests leases under a scheduler that chooses the interleaving: a lease and an open do not miss
//! each other, and every wait ends.

use crate::backend::{build, like};
use crate::{explore_often, join, spawn};
use openpath_abi::fcntl::{O_CREAT, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY};
use openpath_abi::lock::{F_GETLEASE, F_RDLCK, F_SETLEASE, F_UNLCK, F_WRLCK};
use openpath_abi::{Delegation, Errno, OFlags};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Fd, Profile, Task, Vfs};

fn delegation(kind: i16) -> Delegation {
    Delegation {
        kind: kind.cast_unsigned(),
        ..Delegation::default()
    }
}

fn world() -> (Vfs, Task, Fd) {
    let vfs = build(MemFs::new(MemOptions::default()));
    let task = vfs.task(Cred::root()).expect("a task");
    let fd = task.open(b"/f", O_CREAT | O_RDONLY, 0o666).expect("a file");
    (vfs, task, fd)
}

fn lease(task: &Task, fd: Fd, kind: i16) -> Result<(), Errno> {
    task.fcntl(fd, F_SETLEASE, kind as u64).map(drop)
}

/// The one that comes second finds the other.
fn taker_against_opener(kind: i16, flags: OFlags) {
    let (vfs, task, fd) = world();
    let other = vfs.task(Cred::root()).expect("a task");
    let opens = spawn(move || {
        let opened = other.open(b"/f", flags | O_NONBLOCK, 0);
        assert!(matches!(opened, Ok(_) | Err(Errno::EAGAIN)), "{opened:?}");
        (opened.is_ok(), other)
    });
    let taken = lease(&task, fd, kind);
    assert!(matches!(taken, Ok(()) | Err(Errno::EAGAIN)), "{taken:?}");
    let (opened, other) = opens.join().expect("a thread");
    assert!(!(opened && taken.is_ok()), "both");
    let asked = taken.is_ok() && task.fcntl(fd, F_GETLEASE, 0) != Ok(kind as u64);
    assert!(
        opened || asked || taken.is_err(),
        "refused without a conflict"
    );
    drop((task, other));
    assert!(vfs.leases().is_empty());
}

#[test]
fn a_lease_and_an_open_do_not_miss_each_other() {
    explore_often(2, || taker_against_opener(F_WRLCK, O_RDONLY));
    explore_often(2, || taker_against_opener(F_RDLCK, O_WRONLY));
    explore_often(1, || {
        taker_against_opener(F_WRLCK, OFlags::from_bits_retain((O_RDWR | O_CREAT).bits()))
    });
}

#[test]
fn every_wait_for_a_lease_ends() {
    explore_often(2, || {
        let (vfs, task, fd) = world();
        lease(&task, fd, F_WRLCK).expect("a lease");
        let waits = [O_RDONLY, O_WRONLY].map(|flags| {
            let other = vfs.task(Cred::root()).expect("a task");
            spawn(move || {
                let fd = other.open(b"/f", flags, 0).expect("open");
                other.close(fd).expect("closed");
            })
        });
        // Downgraded, if no file is open for writing yet; released; or ended with its file.
        let _lowered = lease(&task, fd, F_RDLCK);
        task.close(fd).expect("closed");
        waits.into_iter().for_each(join);
        assert!(vfs.leases().is_empty());
    });
}

#[test]
fn an_interrupted_open_has_opened_or_not() {
    explore_often(2, || {
        let (vfs, task, fd) = world();
        lease(&task, fd, F_RDLCK).expect("a lease");
        let other = vfs.task(Cred::root()).expect("a task");
        let interrupter = other.interrupter();
        let waits = spawn(move || {
            let opened = other.open(b"/f", O_WRONLY, 0);
            assert!(matches!(opened, Ok(_) | Err(Errno::EINTR)), "{opened:?}");
        });
        let ends = spawn(move || {
            let done = lease(&task, fd, F_UNLCK);
            assert_eq!(done, Ok(()));
        });
        interrupter.interrupt();
        join(ends);
        join(waits);
        assert!(vfs.leases().is_empty());
    });
}

/// What a holder sees of its file stays unchanged until the delegation is broken.
#[test]
fn a_delegation_and_a_change_do_not_miss_each_other() {
    explore_often(2, || {
        let vfs = like(MemFs::new(MemOptions::default()), Profile::V7_2);
        let task = vfs.task(Cred::root()).expect("a task");
        let fd = task.open(b"/f", O_CREAT | O_RDONLY, 0o666);
        let fd = fd.expect("a file");
        let other = vfs.task(Cred::root()).expect("a task");
        let changes = spawn(move || other.chmod(b"/f", 0o600).expect("a mode"));
        let taken = task.setdeleg(fd, &delegation(F_RDLCK));
        assert!(matches!(taken, Ok(()) | Err(Errno::EAGAIN)), "{taken:?}");
        let mode = || task.stat(b"/f").expect("a file").mode;
        if taken.is_ok() {
            let (before, after) = (mode(), mode());
            let held = task.getdeleg(fd, &delegation(F_UNLCK)).expect("a file");
            let asked = held.kind != F_RDLCK.cast_unsigned();
            assert!(asked || before == after);
            let given = task.setdeleg(fd, &delegation(F_UNLCK));
            given.expect("released");
        }
        join(changes);
        assert!(vfs.leases().is_empty());
    });
}

/// A delegation that is taken after others were broken, and before they are waited for, is broken
/// too.
#[test]
fn a_delegation_taken_again_is_broken_again() {
    explore_often(2, || {
        let vfs = like(MemFs::new(MemOptions::default()), Profile::V7_2);
        let task = vfs.task(Cred::root()).expect("a task");
        let fd = task.open(b"/f", O_CREAT | O_RDONLY, 0o666);
        let fd = fd.expect("a file");
        let taken = task.setdeleg(fd, &delegation(F_RDLCK));
        taken.expect("a delegation");
        let other = vfs.task(Cred::root()).expect("a task");
        let changes = spawn(move || other.chmod(b"/f", 0o600).expect("a mode"));
        let given = task.setdeleg(fd, &delegation(F_UNLCK));
        given.expect("released");
        let again = task.setdeleg(fd, &delegation(F_RDLCK));
        assert!(matches!(again, Ok(()) | Err(Errno::EAGAIN)), "{again:?}");
        let changed = || task.stat(b"/f").expect("a file").mode & 0o777 == 0o600;
        let held = || {
            task.getdeleg(fd, &delegation(F_UNLCK))
                .expect("a file")
                .kind
        };
        while again.is_ok() && held() == F_RDLCK.cast_unsigned() && !changed() {
            shuttle::thread::yield_now();
        }
        // It may have none.
        let _none = task.setdeleg(fd, &delegation(F_UNLCK));
        join(changes);
        assert!(vfs.leases().is_empty());
    });
}
