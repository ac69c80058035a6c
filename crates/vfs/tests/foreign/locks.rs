// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a backend that manages file locks itself gets each request and is notified when the
//! owner of a lock ends, and that the core keeps no lock beside it.

use openpath_abi::fcntl::{O_DIRECTORY, O_RDONLY};
use openpath_abi::lock::{F_RDLCK, F_UNLCK, LOCK_EX, LOCK_NB};
use openpath_abi::{Errno, Flock, StatFs, Timespec, mode};
use openpath_vfs::{
    Attr, Cred, FileLock, Inode, InodeOps, LockCall, LockKind, LockOwner, SuperBlock,
    SuperBlockOps, SuperBlockOptions, Vfs,
};
use std::any::Any;
use std::sync::{Arc, Mutex};

/// The requests that it got.
type Requests = Arc<Mutex<Vec<String>>>;

struct LockingNode(Requests);

impl InodeOps for LockingNode {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn lock(&self, _inode: &Inode, call: LockCall<'_>) -> Option<Result<(), Errno>> {
        let owner = |owner| match owner {
            LockOwner::Table(_) => "table",
            LockOwner::Face(..) => "face",
            LockOwner::File(_) => "file",
            LockOwner::Flock(_) => "flock",
        };
        let (said, done) = match call {
            LockCall::Test(lock) => {
                lock.kind = Some(LockKind::Write);
                (lock.pid, lock.start, lock.end) = (4711, 5, i64::MAX);
                (format!("{} tests", owner(lock.owner)), Ok(()))
            }
            LockCall::Set(
                FileLock {
                    kind: None,
                    owner: o,
                    ..
                },
                _,
            ) => (format!("{} ends", owner(*o)), Ok(())),
            LockCall::Set(lock, wait) => {
                let said = format!(
                    "{} {:?} waits {}",
                    owner(lock.owner),
                    lock.kind,
                    wait.is_some()
                );
                (
                    said,
                    if wait.is_some() {
                        Ok(())
                    } else {
                        Err(Errno::EAGAIN)
                    },
                )
            }
        };
        self.0.lock().expect("a list").push(said);
        Some(done)
    }
}

struct Tree;

impl SuperBlockOps for Tree {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs::default())
    }
}

#[test]
fn a_back_end_with_locks_gets_each_request_and_each_end() {
    let heard = Requests::default();
    let attr = Attr {
        mode: mode::S_IFDIR | 0o755,
        nlink: 2,
        ..Attr::default()
    };
    let root = Inode::new(
        1,
        0,
        attr,
        Timespec::new(0, 0),
        Box::new(LockingNode(Arc::clone(&heard))),
    );
    let tree = SuperBlock::new(root, Box::new(Tree), SuperBlockOptions::default());
    let vfs = Vfs::builder().build(tree).expect("a Vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    let said = || std::mem::take(&mut *heard.lock().expect("a list"));
    let fd = task
        .open(b"/", O_RDONLY | O_DIRECTORY, 0)
        .expect("the root");
    let read = Flock::new(F_RDLCK, 0, 1);
    let found = task.fcntl_getlk(fd, &read).expect("a lock");
    assert_eq!((found.start, found.len, found.pid), (5, 0, 4711));
    assert_eq!(task.fcntl_setlk(fd, &read), Err(Errno::EAGAIN));
    assert_eq!(task.fcntl_setlkw(fd, &read), Ok(()));
    assert_eq!(task.ofd_setlkw(fd, &read), Ok(()));
    assert_eq!(task.flock(fd, LOCK_EX | LOCK_NB), Err(Errno::EAGAIN));
    assert_eq!(task.fcntl_setlk(fd, &Flock::new(F_UNLCK, 0, 1)), Ok(()));
    assert!(vfs.locks().is_empty(), "the core keeps a lock");
    assert_eq!(
        said(),
        [
            "table tests",
            "table Some(Read) waits false",
            "table Some(Read) waits true",
            "file Some(Read) waits true",
            "flock Some(Write) waits false",
            "table ends",
        ]
    );
    // Such a lock has no waiter without a thread.
    let later = task
        .fcntl_setlkw_later(fd, &read)
        .map(|wait| wait.is_some());
    assert_eq!(later, Err(Errno::ENOLCK));
    let nb = task.flock_later(fd, LOCK_EX | LOCK_NB);
    assert_eq!(nb.map(|wait| wait.is_some()), Err(Errno::EAGAIN));
    let face = task.lock_face();
    assert_eq!(face.setlk(&task, fd, 1, &read), Err(Errno::EAGAIN));
    assert_eq!(face.end(&task, fd, 1), Ok(()));
    assert_eq!(
        said(),
        [
            "table Some(Read) waits false",
            "flock Some(Write) waits false",
            "face Some(Read) waits false",
            "face ends",
        ]
    );
    task.close(fd).expect("closed");
    assert_eq!(said(), ["table ends", "file ends", "flock ends"]);
}
