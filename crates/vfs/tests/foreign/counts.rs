// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a read or write fails if the backend reports more bytes than requested or an
//! impossible end of file, and that the core does not repeat a request to a full backend.

use openpath_abi::fcntl::{O_APPEND, O_CREAT, O_RDONLY, O_RDWR};
use openpath_abi::{Errno, OFlags, StatFs, Timespec, mode};
use openpath_vfs::{
    Attr, Cred, Fd, Inode, InodeOps, LookupResult, NewInode, SuperBlock, SuperBlockOps,
    SuperBlockOptions, Task, Vfs, WaitMode,
};
use std::any::Any;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

type Answer = Result<usize, Errno>;

/// The file's answer to each kind of call, and the number of writes.
struct Answers {
    moved: Mutex<Answer>,
    end: AtomicUsize,
    writes: AtomicUsize,
}

impl Answers {
    fn moved(&self) -> Answer {
        *self.moved.lock().unwrap()
    }

    fn written(&self) -> Answer {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.moved()
    }
}

struct Node {
    answers: Arc<Answers>,
    /// The file, if this is the root.
    file: Option<Arc<Inode>>,
}

impl InodeOps for Node {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn lookup(&self, _: &Inode, name: &[u8], _: WaitMode) -> Result<LookupResult, Errno> {
        let found = self.file.as_ref().filter(|_| name == b"f");
        Ok(found.map_or(LookupResult::Absent, |file| {
            LookupResult::Inode(Arc::clone(file))
        }))
    }

    fn create(&self, _: &Inode, _: &[u8], _: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        self.answers
            .written()
            .map(|_| unreachable!("the backend refuses it"))
    }

    fn read_at(&self, _: &Inode, _: &mut [u8], _: u64) -> Answer {
        self.answers.moved()
    }

    fn write_at(&self, _: &Inode, _: &[u8], _: u64, _: Timespec) -> Answer {
        self.answers.written()
    }

    fn append(
        &self,
        _: &Inode,
        _: &[IoSlice<'_>],
        _: Timespec,
    ) -> Result<Option<(usize, u64)>, Errno> {
        let end = self.answers.end.load(Ordering::Relaxed);
        match end {
            0 => Ok(None),
            end => self.answers.written().map(|done| Some((done, end as u64))),
        }
    }

    fn copy_range(&self, _: &Inode, _: u64, _: &Inode, _: u64, _: u64, _: Timespec) -> Answer {
        self.answers.written()
    }

    fn with_pages(&self, _: &Inode, _: u64, _: usize, _: &mut dyn FnMut(&[u8])) -> Answer {
        self.answers.moved()
    }
}

struct Tree;

impl SuperBlockOps for Tree {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs::default())
    }
}

/// A task, the file opened with `O_RDWR` and `flags`, and its answers.
fn world(flags: OFlags) -> (Task, Fd, Arc<Answers>) {
    let answers = Arc::new(Answers {
        moved: Mutex::new(Ok(0)),
        end: AtomicUsize::new(0),
        writes: AtomicUsize::new(0),
    });
    let inode = |ino, mode, file| {
        let attr = Attr {
            mode,
            nlink: 1,
            size: 4096,
            ..Attr::default()
        };
        let answers = Arc::clone(&answers);
        let node = Box::new(Node { answers, file });
        Inode::new(ino, 0, attr, Timespec::default(), node)
    };
    let file = inode(2, mode::S_IFREG | 0o644, None);
    let root = inode(1, mode::S_IFDIR | 0o755, Some(file));
    let sb = SuperBlock::new(root, Box::new(Tree), SuperBlockOptions::default());
    let task = Vfs::builder()
        .build(sb)
        .unwrap()
        .task(Cred::root())
        .unwrap();
    let fd = task.open(b"/f", O_RDWR | flags, 0).unwrap();
    (task, fd, answers)
}

#[test]
fn a_count_beyond_the_request_fails_with_eio() {
    const REFUSED: Answer = Err(Errno::EIO);
    let (task, fd, answers) = world(O_RDONLY);
    for moved in [8, 999, 1 << 40, usize::MAX] {
        *answers.moved.lock().unwrap() = Ok(moved);
        let mut buf = [0; 7];
        assert_eq!(task.read(fd, &mut buf), REFUSED);
        assert_eq!(task.pread(fd, &mut buf, 1), REFUSED);
        let read = task.readv(
            fd,
            &mut [IoSliceMut::new(&mut buf), IoSliceMut::new(&mut [0; 0])],
        );
        assert_eq!(read, REFUSED);
        assert_eq!(task.read_pages(fd, 0, 7, &mut |_| {}), REFUSED);
        assert_eq!(task.write(fd, &buf), REFUSED);
        assert_eq!(task.pwrite(fd, &buf, 1), REFUSED);
        assert_eq!(
            task.writev(fd, &[IoSlice::new(&buf), IoSlice::new(&buf)]),
            REFUSED
        );
        let copied = task.copy_file_range(fd, Some(&mut 0), fd, Some(&mut 100), 7, 0);
        assert_eq!(copied, REFUSED);
        assert_eq!(task.sendfile(fd, fd, Some(&mut 0), 7), REFUSED);
        assert_eq!(task.lseek(fd, 0, 1), Ok(0), "the offset moved");
    }
}

#[test]
fn an_impossible_end_of_file_fails_with_eio() {
    let (task, fd, answers) = world(O_APPEND);
    *answers.moved.lock().unwrap() = Ok(7);
    for end in [6, 1 << 63, usize::MAX] {
        answers.end.store(end, Ordering::Relaxed);
        assert_eq!(task.write(fd, &[0; 7]), Err(Errno::EIO), "{end}");
    }
    answers.end.store(4103, Ordering::Relaxed);
    assert_eq!(task.write(fd, &[0; 6]), Err(Errno::EIO));
    assert_eq!(task.write(fd, &[0; 7]), Ok(7));
}

#[test]
fn a_full_back_end_and_a_short_write_are_not_retried() {
    let (task, fd, answers) = world(O_RDONLY);
    let asked = |answer: Answer, call: &dyn Fn() -> Answer| {
        *answers.moved.lock().unwrap() = answer;
        answers.writes.store(0, Ordering::Relaxed);
        assert_eq!(call(), answer);
        answers.writes.load(Ordering::Relaxed)
    };
    let write = || task.write(fd, &[0; 7]);
    assert_eq!(asked(Ok(3), &write), 1);
    assert_eq!(asked(Ok(7), &write), 1);
    assert_eq!(asked(Err(Errno::ENOSPC), &write), 1);
    assert_eq!(asked(Err(Errno::EDQUOT), &write), 1);
    let copy = || task.copy_file_range(fd, Some(&mut 0), fd, Some(&mut 100), 7, 0);
    assert_eq!(asked(Ok(3), &copy), 1);
    assert_eq!(asked(Err(Errno::ENOSPC), &copy), 1);
    let create = || task.open(b"/new", O_CREAT, 0o644).map(|_| 0);
    assert_eq!(asked(Err(Errno::ENOSPC), &create), 1);
}
