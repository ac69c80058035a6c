// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives shuttle tests a `Vfs` over one directory of numbered files, each of which reads as its
//! number. Its backend records an open file that is used after its release, or released twice.

use openpath_abi::{Errno, OFlags, StatFs, Timespec, mode};
use openpath_vfs::{
    Attr, Clock, Cred, FileOps, Inode, InodeOps, Io, Limits, LookupResult, NewInode, Profile,
    SuperBlock, SuperBlockOps, SuperBlockOptions, Task, Vfs, WaitMode, flag,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A record of the calls. A panic in the backend would only be `EIO`, so errors are found in the
/// record at the end as well. The lock is the system's: no switch happens while it is held.
#[derive(Default)]
pub(crate) struct Record {
    /// For each open file: how often it was flushed and released.
    open_files: Mutex<Vec<(u32, u32)>>,
    wrong: Mutex<Vec<&'static str>>,
}

impl Record {
    fn lock(&self) -> MutexGuard<'_, Vec<(u32, u32)>> {
        self.open_files
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, what: &'static str) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.push(what);
    }

    /// # Panics
    /// If a file was released twice or used after its release, or more than `lost` were not
    /// released.
    pub(crate) fn assert_closed(&self, lost: usize) {
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(wrong.is_empty(), "{wrong:?}");
        let open_files = self.lock().clone();
        let open = open_files.iter().filter(|&&(_, released)| released == 0);
        assert!(
            open.count() <= lost && open_files.iter().all(|&(_, released)| released <= 1),
            "open files as flushed and released: {open_files:?}"
        );
    }
}

struct OpenedFile {
    record: Arc<Record>,
    number: usize,
    file: u8,
}

impl OpenedFile {
    /// Makes a call on the open file, which must not be released.
    fn in_use<T>(&self, call: impl FnOnce() -> T) -> T {
        let check = |what| {
            if self.record.lock()[self.number].1 != 0 {
                self.record.note(what);
            }
        };
        check("used after its release");
        shuttle::thread::yield_now();
        let done = call();
        check("released while in use");
        done
    }
}

impl FileOps for OpenedFile {
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
        self.in_use(|| self.record.lock()[self.number].0 += 1);
        Ok(())
    }
    fn release(&self) {
        let mut record = self.record.lock();
        record[self.number].1 += 1;
    }
}

/// A file, which contains its number.
struct File {
    record: Arc<Record>,
}

impl InodeOps for File {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn open(
        &self,
        inode: &Inode,
        _flags: OFlags,
        _wait_mode: WaitMode,
    ) -> Result<Option<Box<dyn FileOps>>, Errno> {
        let mut open_files = self.record.lock();
        open_files.push((0, 0));
        Ok(Some(Box::new(OpenedFile {
            record: Arc::clone(&self.record),
            number: open_files.len() - 1,
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

/// The only directory.
struct Dir {
    record: Arc<Record>,
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
    fn lookup(
        &self,
        _dir: &Inode,
        name: &[u8],
        _wait_mode: WaitMode,
    ) -> Result<LookupResult, Errno> {
        let found = self.files().get(name).cloned();
        Ok(found.map_or(LookupResult::Absent, LookupResult::Inode))
    }
    fn create(&self, _dir: &Inode, name: &[u8], _new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        let file = file(name, &self.record);
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

/// A file from its name: a letter for its kind, and digits for its number.
fn file(name: &[u8], record: &Arc<Record>) -> Arc<Inode> {
    let number = std::str::from_utf8(&name[1..]).expect("digits");
    let ops = File {
        record: Arc::clone(record),
    };
    let number = number.parse().expect("a number");
    let file = inode(number, mode::S_IFREG | 0o644, Box::new(ops));
    if name[0] == b'h' {
        file.set_flags(flag::OPEN_HOOK);
    }
    file
}

/// The name of a file with an open hook, which each open has to ask, or of one without.
pub(crate) fn name(hooked: bool, number: u8) -> Vec<u8> {
    format!("/{}{number}", if hooked { 'h' } else { 'p' }).into_bytes()
}

/// A clock that stands still.
struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timespec {
        Timespec::new(1000, 0)
    }
}

/// A small instance, always the same.
pub(crate) fn build(sb: Arc<SuperBlock>) -> Vfs {
    like(sb, Profile::default())
}

/// Like [`build`], with the profile of another kernel.
pub(crate) fn like(sb: Arc<SuperBlock>, profile: Profile) -> Vfs {
    let limits = Limits::default()
        .dentries_max(256)
        .mounts_max(64)
        .pins_max(64 * 16)
        .path_cache_entries(64)
        .nr_open(4096);
    let vfs = Vfs::builder().secret([1, 2]).clock(Box::new(FixedClock));
    vfs.profile(profile)
        .limits(limits)
        .build(sb)
        .expect("a Vfs")
}

/// An instance over the one directory, with files `1..=files` of each kind, all cached.
pub(crate) struct World {
    pub(crate) vfs: Vfs,
    pub(crate) record: Arc<Record>,
}

impl World {
    pub(crate) fn new(files: u8) -> Self {
        let record = Arc::new(Record::default());
        let all = (1..=files).flat_map(|n| [name(true, n), name(false, n)]);
        let all = all.map(|path| (path[1..].to_vec(), file(&path[1..], &record)));
        let dir = Dir {
            files: Mutex::new(all.collect()),
            record: Arc::clone(&record),
        };
        let root = inode(1, mode::S_IFDIR | 0o755, Box::new(dir));
        let sb = SuperBlock::new(root, Box::new(Tree), SuperBlockOptions::default());
        let vfs = build(sb);
        Self { vfs, record }
    }

    /// A task of root.
    pub(crate) fn task(&self) -> Task {
        self.vfs.task(Cred::root()).expect("a task")
    }

    /// Checks, after all tasks are gone, that every open file was released once and nothing is
    /// held.
    pub(crate) fn assert_at_rest(&self) {
        self.record.assert_closed(0);
        let usage = self.vfs.usage();
        assert_eq!((usage.pins, usage.mounts), (3, 2), "pins and mounts held");
    }
}

/// The number of the file at `fd`.
pub(crate) fn number_at(task: &Task, fd: i32) -> Result<u8, Errno> {
    let mut buf = [0; 1];
    task.pread(fd, &mut buf, 0).map(|_| buf[0])
}
