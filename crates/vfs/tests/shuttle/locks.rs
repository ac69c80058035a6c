// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests file locks under a scheduler that chooses the interleaving: none outlives its owner, even
//! if one thread closes while another locks, and every wait ends.

use crate::backend::build;
use crate::{explore_often, join, spawn};
use openpath_abi::fcntl::{O_CREAT, O_RDWR};
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_SH};
use openpath_abi::{Errno, Flock};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Fd, Task, Vfs};
use std::task::{Poll, Waker};

const WRITE: Flock = Flock::new(F_WRLCK, 0, 10);
const FREE: Flock = Flock::new(F_UNLCK, 0, 0);

fn world() -> Vfs {
    build(MemFs::new(MemOptions::default()))
}

fn guest(vfs: &Vfs) -> (Task, Fd) {
    let task = vfs.task(Cred::root()).expect("a task");
    let fd = task.open(b"/f", O_CREAT | O_RDWR, 0o666).expect("a file");
    (task, fd)
}

fn assert_at_rest(vfs: &Vfs) {
    assert!(vfs.locks().is_empty(), "a lock is left");
    assert_eq!(vfs.root_tenant().stats().locks, 0);
}

#[test]
fn a_lock_beside_a_close_ends_or_is_refused() {
    explore_often(2, || {
        let vfs = world();
        let (task, fd) = guest(&vfs);
        let closer = task.clone_files().expect("a thread");
        let locks = spawn(move || {
            let done = task.fcntl_setlk(fd, &WRITE);
            assert!(matches!(done, Ok(()) | Err(Errno::EBADF)), "{done:?}");
            task
        });
        let closes = spawn(move || closer.close(fd).expect("closed"));
        join(closes);
        let task = locks.join().expect("a thread");
        assert_at_rest(&vfs);
        drop(task);
    });
}

#[test]
fn a_lock_beside_the_last_close_of_its_file_leaves_nothing() {
    explore_often(2, || {
        let vfs = world();
        let (task, fd) = guest(&vfs);
        let closer = task.clone_files().expect("a thread");
        let locks = spawn(move || {
            let done = task.flock(fd, LOCK_EX).and(task.ofd_setlk(fd, &WRITE));
            assert!(matches!(done, Ok(()) | Err(Errno::EBADF)), "{done:?}");
            task
        });
        let closes = spawn(move || closer.close(fd).expect("closed"));
        join(closes);
        let task = locks.join().expect("a thread");
        assert_at_rest(&vfs);
        drop(task);
    });
}

#[test]
fn every_wait_for_a_lock_ends() {
    explore_often(2, || {
        let vfs = world();
        let guests = [F_WRLCK, F_RDLCK, F_WRLCK].map(|kind| {
            let (task, fd) = guest(&vfs);
            spawn(move || {
                task.fcntl_setlkw(fd, &Flock::new(kind, 0, 10))
                    .expect("a lock");
                task.fcntl_setlkw(fd, &FREE).expect("none");
                task.flock(fd, if kind == F_WRLCK { LOCK_EX } else { LOCK_SH })
                    .expect("a lock");
                task.close(fd).expect("closed");
            })
        });
        guests.into_iter().for_each(join);
        assert_at_rest(&vfs);
    });
}

#[test]
fn an_interrupted_wait_has_a_lock_or_none() {
    explore_often(2, || {
        let vfs = world();
        let (holder, held) = guest(&vfs);
        let (task, fd) = guest(&vfs);
        holder.fcntl_setlk(held, &WRITE).expect("a lock");
        let interrupter = task.interrupter();
        let waits = spawn(move || {
            let done = task.fcntl_setlkw(fd, &WRITE);
            assert!(matches!(done, Ok(()) | Err(Errno::EINTR)), "{done:?}");
            let free = task.fcntl_setlk(fd, &FREE);
            assert_eq!(free, Ok(()), "an unlock failed");
        });
        let ends = spawn(move || holder.close(held).expect("closed"));
        interrupter.interrupt();
        join(ends);
        join(waits);
        assert_at_rest(&vfs);
    });
}

#[test]
fn two_tasks_do_not_deadlock() {
    explore_often(2, || {
        let vfs = world();
        let guests = [0, 1].map(|at| {
            let (task, fd) = guest(&vfs);
            spawn(move || {
                let byte = |at| Flock::new(F_WRLCK, at, 1);
                task.fcntl_setlkw(fd, &byte(at)).expect("no deadlock yet");
                let done = task.fcntl_setlkw(fd, &byte(1 - at));
                assert!(matches!(done, Ok(()) | Err(Errno::EDEADLK)), "{done:?}");
                task.close(fd).expect("closed");
            })
        });
        guests.into_iter().for_each(join);
        assert_at_rest(&vfs);
    });
}

/// What happens to a wait without a thread while its lock is granted.
#[derive(Clone, Copy)]
enum Then {
    /// It is dropped.
    Dropped,
    /// It is ended, and its result taken.
    Ended,
    /// Another thread of its table closes the file.
    Closed,
}

#[test]
fn a_wait_without_a_thread_locks_or_lets_the_next_waiter_go_on() {
    explore_often(2, || {
        for then in [Then::Dropped, Then::Ended, Then::Closed] {
            let vfs = world();
            let [(holder, fh), (task, fd), (next, fnext)] = [(); 3].map(|()| guest(&vfs));
            holder.fcntl_setlk(fh, &WRITE).expect("a lock");
            let wait = task.fcntl_setlkw_later(fd, &WRITE).expect("a place");
            let wait = wait.expect("nothing conflicts");
            let waits = spawn(move || {
                next.fcntl_setlkw(fnext, &WRITE).expect("a lock");
                next.fcntl_setlk(fnext, &FREE).expect("none");
                next
            });
            let frees = spawn(move || holder.close(fh).expect("closed"));
            match then {
                Then::Dropped => drop(wait),
                Then::Ended => {
                    let told = task.lock_end(&wait);
                    assert!(matches!(told, None | Some(Ok(()))), "{told:?}");
                    drop(wait);
                    let holds = task.locks(fd).expect("a file");
                    let holds = holds
                        .iter()
                        .any(|lock| !lock.waits && lock.pid == task.pid());
                    assert_eq!(holds, told.is_some());
                    task.fcntl_setlk(fd, &FREE).expect("none");
                }
                Then::Closed => {
                    let closer = task.clone_files().expect("a thread");
                    let closes = spawn(move || closer.close(fd).expect("closed"));
                    let told = task.lock_wait(&wait, Waker::noop());
                    assert!(!matches!(told, Poll::Ready(Err(errno)) if errno != Errno::EBADF));
                    join(closes);
                    drop(wait);
                }
            }
            join(frees);
            let next = waits.join().expect("the next waiter panicked");
            assert_at_rest(&vfs);
            drop((task, next));
        }
    });
}
