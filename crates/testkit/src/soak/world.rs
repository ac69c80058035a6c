// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the trees of the soak (very many operations on rings and futures): one in memory or in a
//! directory of the host, and one with an unreliable backend. At the end it checks that no file,
//! mount or reference is left.

use super::Report;
use crate::scratch::Scratch;
use openpath_abi::fcntl::O_RDONLY;
use openpath_abi::{Errno, StatFs, Timespec, mode};
use openpath_host::{HostFs, HostOptions, Policy};
use openpath_mem::{MemFs, MemOptions};
use openpath_sync::Word;
use openpath_vfs::{
    Attr, Cred, FileOps, Inode, InodeOps, Io, Limits, LookupResult, MountFlags, SuperBlock,
    SuperBlockOps, SuperBlockOptions, Task, Usage, Vfs, WaitMode, flag,
};
use std::sync::Arc;
use std::time::Duration;

/// How often files of the unreliable tree were opened and released.
#[derive(Default)]
struct Book {
    opened: Word,
    released: Word,
    chances: Word,
}

impl Book {
    /// Now and then stalls, fails or panics.
    fn trouble(&self) -> Result<(), Errno> {
        let chance = self.chances.add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        match chance % 64 {
            0 => panic!("a backend that breaks"),
            1..4 => return Err(Errno::EIO),
            4..12 => std::thread::sleep(Duration::from_micros(chance % 200)),
            _ => {}
        }
        Ok(())
    }
}

struct Dir(Arc<Book>);

struct File(Arc<Book>);

struct Opening(Arc<Book>);

impl FileOps for Opening {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn read(&self, buf: &mut [u8], _io: &Io<'_>) -> Option<Result<usize, Errno>> {
        Some(self.0.trouble().map(|()| {
            buf.fill(1);
            buf.len()
        }))
    }
    fn release(&self) {
        self.0.released.add(1);
    }
}

impl InodeOps for File {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn open(
        &self,
        _inode: &Inode,
        _flags: openpath_abi::OFlags,
        wait_mode: WaitMode,
    ) -> Result<Option<Box<dyn FileOps>>, Errno> {
        if wait_mode == WaitMode::Cached {
            return Err(Errno::EAGAIN);
        }
        self.0.trouble()?;
        self.0.opened.add(1);
        Ok(Some(Box::new(Opening(Arc::clone(&self.0)))))
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
        self.0.trouble()?;
        if name[0] == b'a' {
            return Ok(LookupResult::Absent);
        }
        let ino = name.iter().fold(7, |sum, b| sum * 31 + u64::from(*b));
        let file = inode(
            ino,
            mode::S_IFREG | 0o644,
            Box::new(File(Arc::clone(&self.0))),
        );
        file.set_flags(flag::OPEN_HOOK);
        Ok(LookupResult::Inode(file))
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

/// A tree with `/d/f0` to `/d/f7` and a FIFO, and the unreliable tree at `/bad`.
pub(super) struct World {
    vfs: Vfs,
    book: Arc<Book>,
    before: Usage,
    files: u64,
    scratch: Option<Scratch>,
}

impl World {
    pub(super) fn new(seed: u64, over_host: bool) -> Result<Self, Errno> {
        let limits = Limits::default().dentries_max(4096);
        let scratch = over_host
            .then(|| Scratch::new("soak"))
            .transpose()
            .map_err(|_| Errno::EIO)?;
        let root = match &scratch {
            Some(scratch) => {
                let options = HostOptions::default().policy(Policy::Exclusive);
                HostFs::open(scratch.path(), options)?
            }
            None => MemFs::new(MemOptions::default()),
        };
        let vfs = Vfs::builder()
            .secret([seed, 1])
            .limits(limits)
            .build(root)?;
        let task = vfs.task(Cred::root())?;
        for dir in [&b"/d"[..], b"/new", b"/bad"] {
            task.mkdir(dir, 0o777)?;
        }
        for n in 0..8 {
            let fd = task.creat(format!("/d/f{n}").as_bytes(), 0o644)?;
            task.write(fd, &[b'x'; 100])?;
            task.close(fd)?;
        }
        task.mknod(b"/fifo", mode::S_IFIFO | 0o666, 0)?;
        let book = Arc::new(Book::default());
        let dir = inode(1, mode::S_IFDIR | 0o755, Box::new(Dir(Arc::clone(&book))));
        let bad = SuperBlock::new(dir, Box::new(Tree), SuperBlockOptions::default());
        task.mount(bad, b"/bad", MountFlags::default())?;
        drop(task);
        let before = vfs.usage();
        let files = vfs.root_tenant().stats().inodes;
        Ok(Self {
            vfs,
            book,
            before,
            files,
            scratch,
        })
    }

    pub(super) fn task(&self) -> Result<Task, Errno> {
        self.vfs.task(Cred::root())
    }

    /// Checks that every open was closed, and that nothing is held.
    pub(super) fn check(self, report: &mut Report) -> Result<(), Errno> {
        let task = self.task()?;
        let dir = task.open(b"/new", O_RDONLY, 0)?;
        loop {
            let names = task.getdents64(dir, 1 << 16)?;
            if names.is_empty() {
                break;
            }
            for entry in names.iter().filter(|entry| entry.name[0] != b'.') {
                let path = [b"/new/", &entry.name[..]].concat();
                task.unlink(&path).or_else(|_| task.rmdir(&path))?;
            }
        }
        drop(task);
        self.vfs.collect();
        let now = self.vfs.usage();
        if (now.pins, now.mounts) != (self.before.pins, self.before.mounts) {
            report.note(format!("held: {now:?}, before: {:?}", self.before));
        }
        let files = self.vfs.root_tenant().stats().inodes;
        if files != self.files {
            report.note(format!("{files} files, before: {}", self.files));
        }
        let (opened, released) = (self.book.opened.get(), self.book.released.get());
        if opened != released {
            report.note(format!("{opened} openings, {released} released"));
        }
        drop(self.scratch);
        Ok(())
    }
}
