// SPDX-License-Identifier: MIT OR Apache-2.0
//! A backend that keeps a book of its openings: one directory, whose files contain their names.

use openpath_abi::{Errno, OFlags, StatFs, Timespec, mode};
use openpath_vfs::{
    Attr, Clock, Cred, FileOps, Found, Inode, InodeOps, Io, Limits, NewInode, Patience, Profile,
    SuperBlock, SuperBlockOps, SuperBlockOptions, Task, Vfs, flag,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the backend was told. A panic in the backend would be `EIO`, so what is wrong is found in
/// the book in the end as well. The lock is the system's: nothing is switched while it is held.
#[derive(Default)]
pub(crate) struct Book {
    /// Of each opening: how often it was flushed and released.
    openings: Mutex<Vec<(u32, u32)>>,
    wrong: Mutex<Vec<&'static str>>,
}

impl Book {
    fn lock(&self) -> MutexGuard<'_, Vec<(u32, u32)>> {
        self.openings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, what: &'static str) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.push(what);
    }

    /// # Panics
    /// If an opening was released twice, or used after its release, or more than `lost` were not
    /// released.
    pub(crate) fn assert_closed(&self, lost: usize) {
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(wrong.is_empty(), "{wrong:?}");
        let openings = self.lock().clone();
        let open = openings.iter().filter(|&&(_, released)| released == 0);
        assert!(
            open.count() <= lost && openings.iter().all(|&(_, released)| released <= 1),
            "openings as flushed and released: {openings:?}"
        );
    }
}

struct Opening {
    book: Arc<Book>,
    number: usize,
    file: u8,
}

impl Opening {
    /// Does something with the opening, which must not be over.
    fn in_use<T>(&self, call: impl FnOnce() -> T) -> T {
        let check = |what| {
            if self.book.lock()[self.number].1 != 0 {
                self.book.note(what);
            }
        };
        check("used after its release");
        shuttle::thread::yield_now();
        let done = call();
        check("released while in use");
        done
    }
}

impl FileOps for Opening {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn read(&self, buf: &mut [u8], _io: &Io<'_>) -> Option<Result<usize, Errno>> {
        Some(self.in_use(|| {
            buf.fill(self.file);
            Ok(buf.len())
        }))
    }
    fn flush(&self) -> Result<(), Errno> {
        self.in_use(|| self.book.lock()[self.number].0 += 1);
        Ok(())
    }
    fn release(&self) {
        let mut book = self.book.lock();
        book[self.number].1 += 1;
    }
}

/// A file: what it holds is its number.
struct File {
    book: Arc<Book>,
}

impl InodeOps for File {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn open(
        &self,
        inode: &Inode,
        _flags: OFlags,
        _patience: Patience,
    ) -> Result<Option<Box<dyn FileOps>>, Errno> {
        let mut openings = self.book.lock();
        openings.push((0, 0));
        Ok(Some(Box::new(Opening {
            book: Arc::clone(&self.book),
            number: openings.len() - 1,
            file: inode.ino() as u8,
        })))
    }
    fn read_at(&self, inode: &Inode, buf: &mut [u8], _offset: u64) -> Result<usize, Errno> {
        buf.fill(inode.ino() as u8);
        Ok(buf.len())
    }
    fn write_at(
        &self,
        _inode: &Inode,
        data: &[u8],
        _offset: u64,
        _now: Timespec,
    ) -> Result<usize, Errno> {
        Ok(data.len())
    }
}

/// The one directory.
struct Dir {
    book: Arc<Book>,
    files: Mutex<BTreeMap<Vec<u8>, Arc<Inode>>>,
}

impl Dir {
    fn files(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Arc<Inode>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InodeOps for Dir {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn lookup(&self, _dir: &Inode, name: &[u8], _patience: Patience) -> Result<Found, Errno> {
        let found = self.files().get(name).cloned();
        Ok(found.map_or(Found::Absent, Found::Inode))
    }
    fn create(&self, _dir: &Inode, name: &[u8], _new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        let file = file(name, &self.book);
        self.files().insert(name.to_vec(), Arc::clone(&file));
        Ok(file)
    }
    fn unlink(
        &self,
        _dir: &Inode,
        name: &[u8],
        _victim: &Arc<Inode>,
        _now: Timespec,
    ) -> Result<(), Errno> {
        self.files().remove(name);
        Ok(())
    }
}

struct Tree;

impl SuperBlockOps for Tree {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs::default())
    }
}

fn inode(ino: u64, bits: u32, ops: Box<dyn InodeOps>) -> Arc<Inode> {
    let attr = Attr {
        mode: bits,
        nlink: 1,
        size: 1,
        ..Attr::default()
    };
    Inode::new(ino, 0, attr, Timespec::default(), ops)
}

/// A letter says what the file is like, digits which number it has.
fn file(name: &[u8], book: &Arc<Book>) -> Arc<Inode> {
    let number = std::str::from_utf8(&name[1..]).expect("digits");
    let ops = File {
        book: Arc::clone(book),
    };
    let number = number.parse().expect("a number");
    let file = inode(number, mode::S_IFREG | 0o644, Box::new(ops));
    if name[0] == b'h' {
        file.set_flags(flag::OPEN_HOOK);
    }
    file
}

/// The name of a file that keeps a book, which an open has to ask, or of one that does not.
pub(crate) fn name(hooked: bool, number: u8) -> Vec<u8> {
    format!("/{}{number}", if hooked { 'h' } else { 'p' }).into_bytes()
}

/// A clock that stands still.
struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timespec {
        Timespec::new(1000, 0)
    }
}

/// A small instance, the same each time.
pub(crate) fn build(sb: Arc<SuperBlock>) -> Vfs {
    like(sb, Profile::default())
}

/// As [`build`], by the rules of another kernel.
pub(crate) fn like(sb: Arc<SuperBlock>, profile: Profile) -> Vfs {
    let limits = Limits {
        dentries_max: 256,
        mounts_max: 64,
        pins_max: 64 * 16,
        path_cache_entries: 64,
        nr_open: 4096,
        ..Limits::default()
    };
    let vfs = Vfs::builder().secret([1, 2]).clock(Box::new(Noon));
    vfs.profile(profile)
        .limits(limits)
        .build(sb)
        .expect("a Vfs")
}

/// An instance over the one directory, with files `1..=files` of either kind, all cached.
pub(crate) struct World {
    pub(crate) vfs: Vfs,
    pub(crate) book: Arc<Book>,
}

impl World {
    pub(crate) fn new(files: u8) -> Self {
        let book = Arc::new(Book::default());
        let all = (1..=files).flat_map(|n| [name(true, n), name(false, n)]);
        let all = all.map(|path| (path[1..].to_vec(), file(&path[1..], &book)));
        let dir = Dir {
            files: Mutex::new(all.collect()),
            book: Arc::clone(&book),
        };
        let root = inode(1, mode::S_IFDIR | 0o755, Box::new(dir));
        let sb = SuperBlock::new(root, Box::new(Tree), SuperBlockOptions::default());
        let vfs = build(sb);
        Self { vfs, book }
    }

    /// A task of the superuser.
    pub(crate) fn task(&self) -> Task {
        self.vfs.task(Cred::root()).expect("a task")
    }

    /// What holds when every task is gone: every opening was released, once, and nothing is held.
    pub(crate) fn assert_at_rest(&self) {
        self.book.assert_closed(0);
        let usage = self.vfs.usage();
        assert_eq!((usage.pins, usage.mounts), (3, 2), "pins and mounts held");
    }
}

/// The number of the file at `fd`.
pub(crate) fn number_at(task: &Task, fd: i32) -> Result<u8, Errno> {
    let mut buf = [0; 1];
    task.pread(fd, &mut buf, 0).map(|_| buf[0])
}
