// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the server remembers a lock owner while it holds locks or waits for one, and forgets
//! it afterwards. What locks are left after the last close of a file shows it.

use super::{Answered, Locks};
use crate::wire::request::{Lock, LockCommand};
use crate::worker::Worker;
use openpath_abi::fcntl::{O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR};
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK};
use openpath_abi::{Errno, Flock, StatFs, Timespec, mode};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{
    Attr, Cred, Fd, Inode, InodeOps, LockCall, SuperBlock, SuperBlockOps, SuperBlockOptions, Vfs,
};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Two owners: open files of the kernel's.
const X: u64 = 1;
const Y: u64 = 2;

const A: Flock = Flock::new(F_WRLCK, 0, 1);
const B: Flock = Flock::new(F_WRLCK, 1, 1);

const fn free(of: Flock) -> Flock {
    Flock {
        kind: F_UNLCK,
        ..of
    }
}

/// The locks of a mount, its worker, and its tree.
struct Mount {
    locks: Locks,
    w: Worker,
    vfs: Vfs,
    next: u64,
}

impl Mount {
    fn of(tree: Arc<SuperBlock>) -> Self {
        let vfs = Vfs::builder().build(tree).expect("a Vfs");
        let task = vfs.task(Cred::root()).expect("a task");
        let w = Worker::group(&task, 1).expect("a worker").remove(0);
        let locks = Locks::new(&task, 1 << 10);
        Self {
            locks,
            w,
            vfs,
            next: 0,
        }
    }

    /// One with a file that is open twice.
    fn with_openings() -> (Self, [Fd; 2]) {
        let mount = Self::of(MemFs::new(MemOptions::default()));
        let open = || mount.w.task.open(b"/f", O_CREAT | O_RDWR, 0o600);
        let fds = [open().expect("a file"), open().expect("a file")];
        (mount, fds)
    }

    fn set(&self, fd: Fd, owner: u64, range: Flock) -> Result<(), Errno> {
        self.locks
            .set_now(&self.w, fd, &lock(LockCommand::Set, owner, range))
    }

    /// Has an owner wait; returns the number of that request.
    fn waits(&mut self, fd: Fd, owner: u64, range: Flock) -> u64 {
        self.next += 1;
        let lock = lock(LockCommand::Wait, owner, range);
        let answered = self.locks.wait(&self.w, fd, &lock, self.next);
        assert_eq!(answered, Ok(Answered::Later));
        self.next
    }

    /// How many locks are held, and how many are waited for.
    fn count(&self) -> (usize, usize) {
        let all = self.vfs.locks();
        let waiting = all.iter().filter(|lock| lock.waits).count();
        (all.len() - waiting, waiting)
    }

    fn released(&self, fd: Fd) {
        self.locks.opening_released(&self.w, fd);
        self.w.task.close(fd).expect("closed");
    }
}

fn lock(command: LockCommand, owner: u64, range: Flock) -> Lock {
    Lock {
        command,
        handle: 0,
        owner,
        range,
        is_flock: false,
    }
}

#[test]
fn a_waiting_owner_is_not_forgotten_when_it_unlocks_all() {
    let (mut mount, [x, y]) = Mount::with_openings();
    mount.set(x, X, A).expect("a lock");
    mount.set(y, Y, B).expect("a lock");
    mount.waits(x, X, B);
    mount.set(x, X, free(A)).expect("freed");
    mount.set(y, Y, free(B)).expect("freed");
    assert_eq!(mount.count(), (1, 0), "it is granted");
    mount.released(x);
    assert_eq!(mount.count(), (0, 0), "and ends with the opening");
}

#[test]
fn a_waiting_owner_is_not_forgotten_when_another_request_fails() {
    let (mut mount, [x, y]) = Mount::with_openings();
    mount.set(y, Y, A).expect("a lock");
    mount.waits(x, X, A);
    let second = mount.waits(x, X, A);
    assert_eq!(mount.set(x, X, A), Err(Errno::EAGAIN));
    assert!(mount.locks.interrupt(&mount.w, second));
    mount.released(y);
    assert_eq!(mount.count(), (1, 0));
    mount.released(x);
    assert_eq!(mount.count(), (0, 0));
}

#[test]
fn a_table_that_closes_one_descriptor_and_waits_by_another_is_not_forgotten() {
    let (mut mount, [x, y]) = Mount::with_openings();
    mount.set(y, Y, A).expect("a lock");
    mount.waits(x, X, A);
    mount.locks.table_closed(&mount.w, x, X);
    mount.set(y, Y, free(A)).expect("freed");
    assert_eq!(mount.count(), (1, 0));
    // Its other descriptor was gone too when the lock was granted, which is not reported.
    mount.released(x);
    assert_eq!(mount.count(), (0, 0));
}

#[test]
fn an_owner_without_locks_is_forgotten() {
    let (mut mount, [x, y]) = Mount::with_openings();
    let ends: [fn(&mut Mount, Fd, Fd); 3] = [
        |mount, x, _| {
            mount.set(x, X, A).expect("a lock");
            mount.set(x, X, free(A)).expect("freed");
        },
        |mount, x, y| {
            mount.set(y, Y, A).expect("a lock");
            assert_eq!(mount.set(x, X, A), Err(Errno::EAGAIN));
            mount.set(y, Y, free(A)).expect("freed");
        },
        |mount, x, y| {
            mount.set(y, Y, A).expect("a lock");
            let waits = mount.waits(x, X, A);
            assert!(mount.locks.interrupt(&mount.w, waits));
            mount.set(y, Y, free(A)).expect("freed");
        },
    ];
    for end in ends {
        end(&mut mount, x, y);
        // A lock by another opening stays when this one ends.
        mount.set(y, X, A).expect("a lock");
        mount.locks.opening_released(&mount.w, x);
        assert_eq!(mount.count(), (1, 0));
        mount.set(y, X, free(A)).expect("freed");
    }
}

/// A backend that keeps locks, and cannot say which.
struct Silent(Arc<AtomicU32>);

impl InodeOps for Silent {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn lock(&self, _inode: &Inode, call: LockCall<'_>) -> Option<Result<(), Errno>> {
        Some(match call {
            LockCall::Test(_) => Err(Errno::EIO),
            LockCall::Set(lock, _) => {
                if lock.kind.is_none() {
                    self.0.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
        })
    }
}

struct Tree;

impl SuperBlockOps for Tree {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs::default())
    }
}

#[test]
fn an_unlock_succeeds_even_if_the_check_after_it_fails() {
    let freed = Arc::new(AtomicU32::new(0));
    let attr = Attr {
        mode: mode::S_IFDIR | 0o755,
        nlink: 2,
        ..Attr::default()
    };
    let ops = Box::new(Silent(Arc::clone(&freed)));
    let root = Inode::new(1, 0, attr, Timespec::new(0, 0), ops);
    let tree = SuperBlock::new(root, Box::new(Tree), SuperBlockOptions::default());
    let mount = Mount::of(tree);
    let flags = O_RDONLY | O_DIRECTORY;
    let fd = mount.w.task.open(b"/", flags, 0).expect("the root");
    assert_eq!(mount.set(fd, X, Flock::new(F_RDLCK, 0, 2)), Ok(()));
    assert_eq!(mount.set(fd, X, free(A)), Ok(()));
    assert_eq!(freed.load(Ordering::Relaxed), 1);
    // It may still have a lock, and is not forgotten.
    mount.locks.opening_released(&mount.w, fd);
    assert_eq!(freed.load(Ordering::Relaxed), 2);
}
