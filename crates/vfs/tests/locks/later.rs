// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a lock request that waits without a thread is granted, dropped or ended without a
//! lost lock or wake-up. Tests also locks whose owners a front end such as the FUSE server names
//! ([`LockFace`](openpath_vfs::LockFace)).

use crate::world::*;
use openpath_abi::fcntl::*;
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN};
use openpath_abi::{Errno, Flock};
use openpath_vfs::{Fd, LockKind, LockWait, Task, TenantLimits, Vfs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake, Waker};
use std::thread;

const WRITE: Flock = Flock::new(F_WRLCK, 0, 10);
const FREE: Flock = Flock::new(F_UNLCK, 0, 10);

fn open(task: &Task) -> Fd {
    task.open(b"/f", O_CREAT | O_RDWR, 0o666).expect("a file")
}

/// Two tasks with a file open; the first has it locked.
fn pair(vfs: &Vfs) -> [(Task, Fd); 2] {
    let pair = [root(vfs), root(vfs)].map(|task| {
        let fd = open(&task);
        (task, fd)
    });
    let (task, fd) = &pair[0];
    task.fcntl_setlk(*fd, &WRITE).expect("a lock");
    pair
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn counting_waker() -> (Arc<Wakes>, Waker) {
    let wakes = Arc::<Wakes>::default();
    (Arc::clone(&wakes), Waker::from(wakes))
}

fn later(task: &Task, fd: Fd, ask: &Flock) -> LockWait {
    let wait = task
        .fcntl_setlkw_later(fd, ask)
        .expect("the wait was refused");
    wait.expect("nothing conflicts")
}

fn locks(vfs: &Vfs) -> (usize, usize) {
    let all = vfs.locks();
    let waits = all.iter().filter(|lock| lock.waits).count();
    (all.len() - waits, waits)
}

#[test]
fn an_unlock_wakes_its_waiter_once() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    let wait = later(&b, fb, &WRITE);
    let (wakes, waker) = counting_waker();
    assert_eq!(b.lock_wait(&wait, &waker), Poll::Pending);
    assert_eq!(locks(&vfs), (1, 1));
    let freed = thread::spawn(move || {
        a.fcntl_setlk(fa, &FREE).expect("free");
        a
    });
    let a = freed.join().expect("freed");
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert_eq!(b.lock_wait(&wait, &waker), Poll::Ready(Ok(())));
    assert_eq!(locks(&vfs), (1, 0));
    drop(wait);
    assert_eq!(
        a.fcntl_setlk(fa, &WRITE),
        Err(Errno::EAGAIN),
        "a taken lock was released"
    );
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
}

#[test]
fn an_ended_wait_leaves_nothing() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    let (wakes, waker) = counting_waker();
    let wait = later(&b, fb, &WRITE);
    assert!(b.lock_wait(&wait, &waker).is_pending());
    assert_eq!(b.lock_end(&wait), None);
    assert_eq!(locks(&vfs), (1, 0));
    drop(wait);
    let wait = later(&b, fb, &WRITE);
    drop(wait);
    assert_eq!(locks(&vfs), (1, 0));
    a.fcntl_setlk(fa, &FREE).expect("free");
    assert_eq!((locks(&vfs), wakes.0.load(Ordering::SeqCst)), ((0, 0), 0));
}

#[test]
fn a_grant_before_the_end_is_reported_and_an_untaken_one_is_released() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    let wait = later(&b, fb, &WRITE);
    a.fcntl_setlk(fa, &FREE).expect("free");
    assert_eq!(b.lock_end(&wait), Some(Ok(())));
    drop(wait);
    assert_eq!(locks(&vfs), (1, 0));
    let wait = later(&a, fa, &WRITE);
    b.fcntl_setlk(fb, &FREE).expect("free");
    assert_eq!(locks(&vfs), (1, 0));
    drop(wait);
    assert_eq!(locks(&vfs), (0, 0));
}

/// The locked spans: process of the owner, start, end, kind.
fn spans(vfs: &Vfs) -> Vec<(i32, i64, Option<i64>, LockKind)> {
    let all = vfs.locks();
    assert!(all.iter().all(|lock| !lock.waits), "{all:?}");
    all.iter()
        .map(|lock| (lock.pid, lock.start, lock.end, lock.kind))
        .collect()
}

#[test]
fn a_dropped_grant_restores_the_previous_lock() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    a.fcntl_setlk(fa, &FREE).expect("free");
    let read = Flock::new(F_RDLCK, 0, 100);
    a.fcntl_setlk(fa, &read).expect("a lock");
    b.fcntl_setlk(fb, &read).expect("read locks are shared");
    let wait = later(&b, fb, &Flock::new(F_WRLCK, 50, 10));
    a.fcntl_setlk(fa, &Flock::new(F_UNLCK, 0, 0)).expect("free");
    assert_eq!(
        a.fcntl_setlk(fa, &Flock::new(F_RDLCK, 50, 1)),
        Err(Errno::EAGAIN)
    );
    a.fcntl_setlk(fa, &Flock::new(F_RDLCK, 0, 50))
        .expect("no conflict with the claim");
    drop(wait);
    a.fcntl_setlk(fa, &Flock::new(F_RDLCK, 50, 1))
        .expect("the claim is gone");
    a.fcntl_setlk(fa, &Flock::new(F_UNLCK, 0, 0)).expect("free");
    assert_eq!(spans(&vfs), [(b.pid(), 0, Some(99), LockKind::Read)]);
}

#[test]
fn a_dropped_grant_keeps_a_lock_that_another_thread_took() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    let wait = later(&b, fb, &WRITE);
    a.fcntl_setlk(fa, &FREE).expect("free");
    let thread = b.clone_files().expect("a thread");
    thread
        .fcntl_setlk(fb, &WRITE)
        .expect("the table owns the claim");
    drop(wait);
    assert_eq!(a.fcntl_setlk(fa, &WRITE), Err(Errno::EAGAIN));
    // The grant is taken after another thread unlocked its range: the range is locked again.
    thread.fcntl_setlk(fb, &FREE).expect("free");
    a.fcntl_setlk(fa, &WRITE).expect("a lock");
    let wait = later(&b, fb, &WRITE);
    a.fcntl_setlk(fa, &FREE).expect("free");
    thread.fcntl_setlk(fb, &FREE).expect("nothing");
    assert_eq!(b.lock_end(&wait), Some(Ok(())));
    assert_eq!(a.fcntl_setlk(fa, &WRITE), Err(Errno::EAGAIN));
}

#[test]
fn an_untaken_grant_ends_with_its_table_or_face() {
    for by_face in [false, true] {
        let vfs = world();
        let [(a, fa), (b, fb)] = pair(&vfs);
        let face = b.lock_face();
        let wait = match by_face {
            true => face.setlkw(&b, fb, 1, &WRITE),
            false => b.fcntl_setlkw_later(fb, &WRITE),
        };
        let wait = wait
            .expect("the wait was refused")
            .expect("nothing conflicts");
        a.fcntl_setlk(fa, &FREE).expect("free");
        let next = later(&a, fa, &WRITE);
        if by_face {
            drop(face);
        } else {
            b.close(fb).expect("closed");
        }
        assert_eq!(
            a.lock_end(&next),
            Some(Ok(())),
            "the next waiter was not granted"
        );
        let told = match by_face {
            true => wait.poll(Waker::noop()),
            false => b.lock_wait(&wait, Waker::noop()),
        };
        assert_eq!(told, Poll::Ready(Err(Errno::EBADF)));
        drop(wait);
        assert_eq!(locks(&vfs), (1, 0));
    }
}

#[test]
fn a_late_grant_of_a_closed_file_keeps_later_locks() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    let wait = later(&b, fb, &WRITE);
    b.close(fb).expect("closed");
    a.fcntl_setlk(fa, &FREE).expect("free");
    let again = open(&b);
    assert_eq!(again, fb, "the number is reused");
    b.fcntl_setlk(again, &WRITE).expect("a lock");
    for _ in 0..2 {
        let told = b.lock_wait(&wait, Waker::noop());
        assert_eq!(told, Poll::Ready(Err(Errno::EBADF)));
    }
    drop(wait);
    assert_eq!(locks(&vfs), (1, 0), "only the later lock is left");
}

#[test]
fn a_taken_grant_does_not_end_a_later_lock() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    let wait = later(&b, fb, &WRITE);
    a.fcntl_setlk(fa, &FREE).expect("free");
    assert_eq!(b.lock_wait(&wait, Waker::noop()), Poll::Ready(Ok(())));
    b.close(fb).expect("closed");
    assert_eq!(open(&b), fb);
    b.fcntl_setlk(fb, &WRITE).expect("a lock");
    let _told = b.lock_wait(&wait, Waker::noop());
    drop(wait);
    assert_eq!(
        a.fcntl_setlk(fa, &WRITE),
        Err(Errno::EAGAIN),
        "the later lock was released"
    );
}

#[test]
fn a_dropped_flock_grant_leaves_no_lock() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    for fd in [(&a, fa), (&b, fb)] {
        fd.0.flock(fd.1, LOCK_SH).expect("read locks are shared");
    }
    let wait = b.flock_later(fb, LOCK_EX).expect("a place");
    let wait = wait.expect("nothing conflicts");
    a.flock(fa, LOCK_UN).expect("free");
    assert_eq!(a.flock(fa, LOCK_SH | LOCK_NB), Err(Errno::EAGAIN));
    drop(wait);
    a.flock(fa, LOCK_EX | LOCK_NB)
        .expect("the old lock is left");
}

#[test]
fn a_dropped_grant_wakes_the_next_waiter() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    let c = root(&vfs);
    let fc = open(&c);
    let (first, second) = (later(&b, fb, &WRITE), later(&c, fc, &WRITE));
    let (wakes, waker) = counting_waker();
    assert!(c.lock_wait(&second, &waker).is_pending());
    a.fcntl_setlk(fa, &FREE).expect("free");
    assert_eq!(
        wakes.0.load(Ordering::SeqCst),
        0,
        "the first waiter has the claim"
    );
    drop(first);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert_eq!(c.lock_wait(&second, &waker), Poll::Ready(Ok(())));
    assert_eq!(locks(&vfs), (1, 0));
}

#[test]
fn a_grant_that_would_merge_locks_can_be_dropped_at_the_limit() {
    let vfs = world();
    let tenant = vfs.tenant(TenantLimits::default().locks_max(3));
    let [(a, fa), (b, fb)] = pair(&vfs);
    a.fcntl_setlk(fa, &Flock::new(F_UNLCK, 0, 0)).expect("free");
    a.fcntl_setlk(fa, &Flock::new(F_WRLCK, 10, 10))
        .expect("a lock");
    b.set_tenant(&tenant).expect("a tenant of this Vfs");
    for start in [0, 20] {
        b.fcntl_setlk(fb, &Flock::new(F_WRLCK, start, 10))
            .expect("a lock");
    }
    let wait = later(&b, fb, &Flock::new(F_WRLCK, 10, 10));
    a.fcntl_setlk(fa, &Flock::new(F_UNLCK, 0, 0)).expect("free");
    assert_eq!(tenant.stats().locks, 3);
    drop(wait);
    assert_eq!(tenant.stats().locks, 2);
    let own = |start| (b.pid(), start, Some(start + 9), LockKind::Write);
    assert_eq!(spans(&vfs), [own(0), own(20)]);
}

#[test]
fn the_charge_of_a_wait_counts_beside_other_locks() {
    let vfs = world();
    let tenant = vfs.tenant(TenantLimits::default().locks_max(2));
    let [(a, fa), (b, fb)] = pair(&vfs);
    b.set_tenant(&tenant).expect("a tenant of this Vfs");
    b.fcntl_setlk(fb, &Flock::new(F_WRLCK, 20, 10))
        .expect("a lock");
    let wait = later(&b, fb, &WRITE);
    assert_eq!(tenant.stats().locks, 2);
    a.fcntl_setlk(fa, &FREE).expect("free");
    assert_eq!(b.lock_end(&wait), Some(Ok(())));
    assert_eq!((tenant.stats().locks, locks(&vfs)), (2, (2, 0)));
}

#[test]
fn a_grant_that_needs_more_locks_than_allowed_fails_with_enolck() {
    let vfs = world();
    let tenant = vfs.tenant(TenantLimits::default().locks_max(2));
    let [(a, fa), (b, fb)] = pair(&vfs);
    let read = |start, len| Flock::new(F_RDLCK, start, len);
    a.fcntl_setlk(fa, &read(0, 10)).expect("a lock");
    b.set_tenant(&tenant).expect("a tenant of this Vfs");
    b.fcntl_setlk(fb, &read(0, 100)).expect("a lock");
    // One lock would become three.
    let wait = later(&b, fb, &Flock::new(F_WRLCK, 5, 1));
    a.fcntl_setlk(fa, &FREE).expect("free");
    for _ in 0..2 {
        assert_eq!(
            b.lock_wait(&wait, Waker::noop()),
            Poll::Ready(Err(Errno::ENOLCK))
        );
    }
    a.fcntl_setlk(fa, &read(5, 1)).expect("the claim is gone");
    assert_eq!(tenant.stats().locks, 1);
    drop(wait);
    let its = (b.pid(), 0, Some(99), LockKind::Read);
    assert!(spans(&vfs).contains(&its));
}

#[test]
fn a_lock_granted_after_the_close_ends() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    for heard in [true, false] {
        let wait = later(&b, fb, &WRITE);
        b.close(fb).expect("closed");
        a.fcntl_setlk(fa, &FREE).expect("free");
        if heard {
            let told = b.lock_wait(&wait, Waker::noop());
            assert_eq!(told, Poll::Ready(Err(Errno::EBADF)));
        }
        drop(wait);
        assert_eq!(locks(&vfs), (0, 0));
        assert_eq!(open(&b), fb);
        a.fcntl_setlk(fa, &WRITE).expect("a lock");
    }
}

#[test]
fn a_lock_granted_to_a_dropped_table_ends() {
    for looks in [false, true] {
        let vfs = world();
        let [(a, fa), (b, fb)] = pair(&vfs);
        let other = b.clone_files().expect("a thread");
        let wait = later(&b, fb, &WRITE);
        // The requesting table is dropped with the other thread.
        b.unshare_files().expect("unshare failed");
        drop(other);
        a.fcntl_setlk(fa, &FREE).expect("free");
        if looks {
            assert_eq!(
                wait.poll(Waker::noop()),
                Poll::Ready(Ok(())),
                "a poll reports the grant"
            );
        } else {
            let told = b.lock_wait(&wait, Waker::noop());
            assert_eq!(told, Poll::Ready(Err(Errno::EBADF)));
        }
        drop(wait);
        assert_eq!(locks(&vfs), (0, 0));
    }
}

#[test]
fn the_charge_of_a_wait_becomes_the_charge_of_its_lock() {
    let vfs = world();
    let tenant = vfs.tenant(TenantLimits::default().locks_max(1));
    let [(a, fa), (b, fb)] = pair(&vfs);
    b.set_tenant(&tenant).expect("a tenant of this Vfs");
    let wait = later(&b, fb, &WRITE);
    assert_eq!(tenant.stats().locks, 1);
    a.fcntl_setlk(fa, &FREE).expect("free");
    assert_eq!(tenant.stats().locks, 1, "the charge was dropped between");
    assert_eq!(b.lock_wait(&wait, Waker::noop()), Poll::Ready(Ok(())));
    drop(wait);
    assert_eq!((tenant.stats().locks, locks(&vfs)), (1, (1, 0)));
    b.close(fb).expect("closed");
    assert_eq!(tenant.stats().locks, 0);
}

#[test]
fn a_lock_granted_after_its_face_is_gone_ends_with_the_wait() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    let face = b.lock_face();
    let wait = face
        .setlkw(&b, fb, 1, &WRITE)
        .expect("the wait was refused");
    let wait = wait.expect("nothing conflicts");
    drop(face);
    a.fcntl_setlk(fa, &FREE).expect("free");
    assert_eq!(
        wait.poll(Waker::noop()),
        Poll::Ready(Ok(())),
        "the grant is not reported"
    );
    drop(wait);
    assert_eq!(locks(&vfs), (0, 0));
}

#[test]
fn a_deadlock_is_refused_however_its_members_wait() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    let second = |kind| Flock::new(kind, 10, 10);
    b.fcntl_setlk(fb, &second(F_WRLCK)).expect("a lock");
    let wait = later(&b, fb, &WRITE);
    let closes = a.fcntl_setlkw_later(fa, &second(F_WRLCK));
    assert_eq!(closes.map(|_| ()), Err(Errno::EDEADLK));
    assert_eq!(a.fcntl_setlkw(fa, &second(F_WRLCK)), Err(Errno::EDEADLK));
    drop(wait);
    let wait = later(&a, fa, &second(F_WRLCK));
    b.fcntl_setlk(fb, &second(F_UNLCK)).expect("free");
    assert_eq!(a.lock_end(&wait), Some(Ok(())));
}

#[test]
fn ofd_and_flock_requests_wait_without_a_thread() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    let wait = b.ofd_setlkw_later(fb, &WRITE).expect("a place");
    let wait = wait.expect("nothing conflicts");
    a.fcntl_setlk(fa, &FREE).expect("free");
    assert_eq!(wait.end(), Some(Ok(())));
    a.flock(fa, LOCK_SH).expect("a lock");
    assert!(
        b.flock_later(fb, LOCK_SH)
            .expect("read locks are shared")
            .is_none()
    );
    let nb = b.flock_later(fb, LOCK_EX | LOCK_NB);
    assert_eq!(nb.map(|_| ()), Err(Errno::EAGAIN));
    let wait = b
        .flock_later(fb, LOCK_EX)
        .expect("a place")
        .expect("nothing conflicts");
    a.flock(fa, LOCK_UN).expect("free");
    assert_eq!(wait.end(), Some(Ok(())));
    assert_eq!(a.flock(fa, LOCK_SH | LOCK_NB), Err(Errno::EAGAIN));
}

#[test]
fn a_wait_without_a_thread_is_charged_as_a_lock() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    b.set_tenant(&vfs.tenant(TenantLimits::default().locks_max(1)))
        .expect("a tenant of this Vfs");
    let wait = later(&b, fb, &WRITE);
    let second = b.fcntl_setlkw_later(fb, &WRITE);
    assert_eq!(second.map(|_| ()), Err(Errno::ENOLCK));
    a.fcntl_setlk(fa, &FREE).expect("free");
    assert_eq!(
        b.lock_end(&wait),
        Some(Ok(())),
        "the tenant has room for one lock"
    );
    drop(wait);
    b.fcntl_setlk(fb, &FREE).expect("free");
    a.fcntl_setlk(fa, &WRITE).expect("a lock");
    for _ in 0..3 {
        drop(later(&b, fb, &WRITE));
    }
}

#[test]
fn a_panicking_waker_affects_no_other_waiter() {
    struct Fails;
    impl Wake for Fails {
        fn wake(self: Arc<Self>) {
            panic!("a host's own");
        }
    }
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    let c = root(&vfs);
    let fc = open(&c);
    let read = Flock::new(F_RDLCK, 0, 10);
    let first = later(&b, fb, &read);
    let fails = Waker::from(Arc::new(Fails));
    assert!(b.lock_wait(&first, &fails).is_pending());
    let (wakes, waker) = counting_waker();
    let second = later(&c, fc, &read);
    assert!(c.lock_wait(&second, &waker).is_pending());
    a.fcntl_setlk(fa, &FREE).expect("free");
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    assert_eq!(locks(&vfs), (2, 0));
}

#[test]
fn owners_of_a_face_conflict_with_tables_and_end_with_the_face() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    let (face, other) = (b.lock_face(), b.lock_face());
    let by = |pid, ask: &Flock| Flock { pid, ..*ask };
    assert_eq!(face.setlk(&b, fb, 1, &WRITE), Err(Errno::EAGAIN));
    let seen = face.getlk(&b, fb, 1, &WRITE).expect("a look");
    assert_eq!((seen.kind, seen.pid), (F_WRLCK, a.pid()));
    let wait = face.setlkw(&b, fb, 1, &by(77, &WRITE)).expect("a place");
    let wait = wait.expect("nothing conflicts");
    a.close(fa).expect("closed");
    assert_eq!(wait.end(), Some(Ok(())));
    let fa = open(&a);
    let seen = a.fcntl_getlk(fa, &WRITE).expect("a look");
    assert_eq!((seen.kind, seen.pid), (F_WRLCK, 77));
    // Equal numbers of different faces, and different numbers of one face, are different owners.
    assert_eq!(other.setlk(&b, fb, 1, &WRITE), Err(Errno::EAGAIN));
    assert_eq!(face.setlk(&b, fb, 2, &WRITE), Err(Errno::EAGAIN));
    face.setlk(&b, fb, 1, &WRITE)
        .expect("an owner conflicts with itself");
    // A close in the server's table is no close of an owner behind the face.
    b.close(b.dup(fb).expect("a duplicate")).expect("closed");
    assert_eq!(locks(&vfs), (1, 0));
    face.end(&b, fb, 2).expect("nothing");
    assert_eq!(locks(&vfs), (1, 0));
    face.end(&b, fb, 1).expect("freed");
    assert_eq!(locks(&vfs), (0, 0));
    face.setlk(&b, fb, 1, &WRITE).expect("a lock");
    other
        .setlk(&b, fb, 1, &Flock::new(F_WRLCK, 20, 1))
        .expect("a lock");
    let wait = later(&a, fa, &WRITE);
    drop(face);
    assert_eq!(a.lock_end(&wait), Some(Ok(())));
    assert_eq!(
        locks(&vfs),
        (2, 0),
        "the other face's lock, and the granted one"
    );
}

#[test]
fn a_deadlock_through_a_face_is_refused() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    let face = b.lock_face();
    let second = Flock::new(F_WRLCK, 10, 10);
    face.setlk(&b, fb, 1, &second).expect("a lock");
    let wait = face.setlkw(&b, fb, 1, &WRITE).expect("a place");
    assert_eq!(a.fcntl_setlkw(fa, &second), Err(Errno::EDEADLK));
    drop(wait);
}

#[test]
fn a_list_of_locks_shows_what_blocks_each_waiter() {
    let vfs = world();
    let [(a, fa), (b, fb)] = pair(&vfs);
    a.flock(fa, LOCK_EX).expect("a lock");
    a.fcntl_setlk(fa, &Flock::new(F_RDLCK, 20, 10))
        .expect("a lock");
    let wait = later(&b, fb, &Flock::new(F_WRLCK, 5, 20));
    let all = vfs.locks();
    let waits: Vec<_> = all.iter().filter(|lock| lock.waits).collect();
    let [waiting] = waits[..] else {
        panic!("not exactly one waiter: {all:?}")
    };
    let keeps: Vec<_> = all.iter().filter(|lock| lock.keeps(waiting)).collect();
    assert_eq!(
        keeps.iter().map(|lock| lock.start).collect::<Vec<_>>(),
        [0, 20]
    );
    assert!(keeps.iter().all(|lock| lock.pid == a.pid()));
    drop(wait);
}
