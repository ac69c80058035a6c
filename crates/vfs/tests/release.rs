// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that an open file is released once, in the call that drops the last reference, even if the
//! backend fails, panics or is slow.

use openpath_abi::fcntl::{O_CLOEXEC, O_CREAT, O_DIRECT, O_RDONLY, O_TRUNC, O_WRONLY};
use openpath_abi::{Errno, OFlags, StatFs, Timespec};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{
    Attr, Cred, FileOps, Inode, InodeOps, LookupResult, SetAttr, SuperBlock, SuperBlockOps,
    SuperBlockOptions, Task, Vfs, WaitMode, flag,
};
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};

/// What the backend was asked to do, in order, and its answers.
#[derive(Default)]
struct Record {
    told: Mutex<Vec<&'static str>>,
    panics: AtomicBool,
    refuses: AtomicBool,
    opened: AtomicU32,
    slow: Mutex<Option<Arc<Barrier>>>,
}

impl Record {
    fn note(&self, what: &'static str) {
        self.told.lock().unwrap().push(what);
    }
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

struct Opening(Arc<Record>);

impl FileOps for Opening {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn flush(&self) -> Result<(), Errno> {
        self.0.note("flush");
        if self.0.refuses.load(Ordering::Relaxed) {
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }
    fn release(&self) {
        self.0.note("release");
        let slow = self.0.slow.lock().unwrap().take();
        if let Some(gate) = slow {
            gate.wait();
            gate.wait();
        }
        assert!(!self.0.panics.load(Ordering::Relaxed), "planted");
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.opened.fetch_sub(1, Ordering::Relaxed);
    }
}

struct File(Arc<Record>);

impl InodeOps for File {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn open(&self, _: &Inode, _: OFlags, _: WaitMode) -> Result<Option<Box<dyn FileOps>>, Errno> {
        self.0.note("open");
        if self.0.refuses.load(Ordering::Relaxed) {
            return Err(Errno::EMEDIUMTYPE);
        }
        self.0.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Box::new(Opening(Arc::clone(&self.0)))))
    }
    fn setattr(&self, _: &Inode, _: &SetAttr) -> Result<(), Errno> {
        Err(Errno::EDQUOT)
    }
}

struct Dir(Arc<Inode>);

impl InodeOps for Dir {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn lookup(&self, _: &Inode, name: &[u8], _: WaitMode) -> Result<LookupResult, Errno> {
        Ok(if name == b"f" {
            LookupResult::Inode(Arc::clone(&self.0))
        } else {
            LookupResult::Absent
        })
    }
}

struct Tree;

impl SuperBlockOps for Tree {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs::default())
    }
}

fn inode(ino: u64, mode: u32, ops: Box<dyn InodeOps>) -> Arc<Inode> {
    let attr = Attr {
        mode,
        nlink: 1,
        ..Attr::default()
    };
    Inode::new(ino, 0, attr, Timespec::EPOCH, ops)
}

fn world() -> (Arc<Record>, Vfs, Task) {
    let record = Arc::new(Record::default());
    let file = inode(2, 0o100_666, Box::new(File(Arc::clone(&record))));
    file.set_flags(flag::OPEN_HOOK);
    let root = inode(1, 0o40_755, Box::new(Dir(file)));
    let sb = SuperBlock::new(root, Box::new(Tree), SuperBlockOptions::default());
    let vfs = Vfs::builder().build(sb).unwrap();
    let task = vfs.task(Cred::root()).unwrap();
    (record, vfs, task)
}

#[test]
fn each_close_flushes_and_the_last_one_releases() {
    let (record, _vfs, task) = world();
    let fd = task.open(b"/f", O_RDONLY, 0).unwrap();
    let second = task.dup(fd).unwrap();
    assert_eq!(record.take(), ["open"]);
    task.close(fd).unwrap();
    assert_eq!(record.take(), ["flush"]);
    task.close(second).unwrap();
    assert_eq!(record.take(), ["flush", "release"]);
    assert_eq!(record.opened.load(Ordering::Relaxed), 0);
}

#[test]
fn the_call_that_drops_the_last_reference_releases_the_file() {
    let (record, vfs, task) = world();
    let open = |flags| task.open(b"/f", flags, 0).unwrap();
    let (one, two) = (open(O_RDONLY), open(O_RDONLY));
    record.take();
    task.dup2(one, two).unwrap();
    assert_eq!(record.take(), ["flush", "release"]);
    task.close_range(0, u32::MAX, 0).unwrap();
    assert_eq!(record.take(), ["flush", "flush", "release"]);
    open(O_CLOEXEC);
    record.take();
    task.exec().unwrap();
    assert_eq!(record.take(), ["flush", "release"]);
    let fd = open(O_RDONLY);
    let file = task.file(fd).unwrap();
    task.close(fd).unwrap();
    assert_eq!(record.take(), ["open", "flush"]);
    drop(file);
    assert_eq!(record.take(), ["release"]);
    open(O_RDONLY);
    let child = task.fork().unwrap();
    drop(task);
    assert_eq!(record.take(), ["open", "flush"]);
    drop(child);
    assert_eq!(record.take(), ["flush", "release"]);
    assert_eq!(vfs.usage().pins, 3);
}

#[test]
fn close_returns_the_error_of_flush_and_frees_the_descriptor() {
    let (record, vfs, task) = world();
    let fd = task.open(b"/f", O_RDONLY, 0).unwrap();
    record.refuses.store(true, Ordering::Relaxed);
    assert_eq!(task.close(fd), Err(Errno::ENOSPC));
    assert_eq!(task.close(fd), Err(Errno::EBADF));
    assert_eq!(record.take(), ["open", "flush", "release"]);
    drop(task);
    assert_eq!(vfs.usage().pins, 3);
}

#[test]
fn a_file_is_released_even_if_release_panics() {
    let (record, vfs, task) = world();
    let fd = task.open(b"/f", O_RDONLY, 0).unwrap();
    record.panics.store(true, Ordering::Relaxed);
    assert_eq!(task.close(fd), Ok(()));
    assert_eq!(record.opened.load(Ordering::Relaxed), 0);
    assert_eq!(task.open(b"/f", O_RDONLY, 0), Ok(fd));
    drop(task);
    assert_eq!(vfs.usage().pins, 3);
}

#[test]
fn a_slow_release_makes_no_other_call_wait() {
    let (record, _vfs, task) = world();
    let other = task.clone_files().unwrap();
    let fd = task.open(b"/f", O_RDONLY, 0).unwrap();
    let gate = Arc::new(Barrier::new(2));
    *record.slow.lock().unwrap() = Some(Arc::clone(&gate));
    let closing = std::thread::spawn(move || other.close(fd));
    gate.wait();
    // The other thread is in `release` now: the table, the file and the directory are usable.
    assert_eq!(task.open(b"/f", O_RDONLY, 0), Ok(fd));
    assert_eq!(task.close(fd), Ok(()));
    assert!(task.stat(b"/f").is_ok());
    gate.wait();
    assert_eq!(closing.join().unwrap(), Ok(()));
}

#[test]
fn a_failed_open_leaves_nothing() {
    let (record, vfs, task) = world();
    record.refuses.store(true, Ordering::Relaxed);
    assert_eq!(task.open(b"/f", O_RDONLY, 0), Err(Errno::EMEDIUMTYPE));
    assert_eq!(record.take(), ["open"], "a failed open is released");
    record.refuses.store(false, Ordering::Relaxed);
    // The backend refuses the truncation after the open: the file is released, not flushed.
    let cut = task.open(b"/f", O_WRONLY | O_TRUNC, 0);
    assert_eq!(cut, Err(Errno::EDQUOT));
    assert_eq!(record.take(), ["open", "release"]);
    assert!(task.open(b"/", O_RDONLY | O_DIRECT, 0).is_err());
    assert!(task.descriptors().is_empty());
    assert_eq!(task.open(b"/f", O_RDONLY, 0), Ok(0));
    drop(task);
    assert_eq!(vfs.usage().pins, 3);
}

/// Creates and unlinks a file of this size, and closes it lazily; what waits to be freed then.
fn close_lazily(vfs: &Vfs, task: &Task, size: usize) -> usize {
    let fd = task.open(b"/f", O_CREAT | O_WRONLY, 0o600).unwrap();
    assert_eq!(task.write(fd, &vec![1; size]), Ok(size));
    task.unlink(b"/f").unwrap();
    task.close_lazily(fd).unwrap();
    vfs.usage().pending_free
}

#[test]
fn lazily_closed_small_files_are_freed_in_batches_and_large_ones_at_once() {
    let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()));
    let vfs = vfs.unwrap();
    let task = vfs.task(Cred::root()).unwrap();
    let free = task.statfs(b"/").unwrap().bfree;
    let waiting: Vec<usize> = (0..300).map(|_| close_lazily(&vfs, &task, 4096)).collect();
    assert!(waiting.iter().all(|n| *n <= 8), "{waiting:?}");
    assert!(waiting.iter().filter(|n| **n == 0).count() <= 40);
    assert_eq!(close_lazily(&vfs, &task, 1 << 20), 0);
    assert_eq!(close_lazily(&vfs, &task, 4096), 1);
    assert_eq!(task.statfs(b"/").unwrap().bfree, free);
    assert_eq!(vfs.usage().pending_free, 0);
}

#[test]
fn lazily_closed_files_give_way_to_a_write_that_needs_room() {
    let tree = MemFs::new(MemOptions::default().size(256 << 10));
    let vfs = Vfs::builder().build(tree).unwrap();
    let task = vfs.task(Cred::root()).unwrap();
    for _ in 0..200 {
        close_lazily(&vfs, &task, 48 << 10);
    }
}
