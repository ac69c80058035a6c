// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests of the memory backend a tree in which the test sets the time of each call, and short
//! forms of the backend's operations on directories and files, without a `Vfs`.

#![allow(dead_code, reason = "each test takes what it needs")]

use openpath_abi::{Errno, StatFs, Timespec, mode};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Attr, Inode, LookupResult, NewInode, Rename, SetAttr, SuperBlock, WaitMode};
use std::sync::Arc;

/// A tree with a clock of its own.
pub(crate) struct Fs {
    pub(crate) sb: Arc<SuperBlock>,
}

pub(crate) fn at(sec: i64) -> Timespec {
    Timespec::new(sec, 0)
}

pub(crate) fn fs() -> Fs {
    with(MemOptions::default())
}

pub(crate) fn with(options: MemOptions) -> Fs {
    Fs {
        sb: MemFs::new(options.now(Some(at(1)))),
    }
}

pub(crate) fn new(mode: u32, now: i64) -> NewInode<'static> {
    NewInode {
        mode,
        uid: 7,
        gid: 8,
        rdev: 0,
        body: &[],
        now: at(now),
        tenant: None,
        acls: None,
    }
}

/// Which of access, data and inode change time are `now`.
pub(crate) fn times(a: &Attr, now: i64) -> [bool; 3] {
    [a.atime, a.mtime, a.ctime].map(|t| t == at(now))
}

pub(crate) const NONE: [bool; 3] = [false; 3];
pub(crate) const C: [bool; 3] = [false, false, true];
pub(crate) const MC: [bool; 3] = [false, true, true];
pub(crate) const ALL: [bool; 3] = [true; 3];

impl Fs {
    pub(crate) fn root(&self) -> &Arc<Inode> {
        self.sb.root()
    }
    pub(crate) fn figures(&self) -> StatFs {
        self.sb.ops().statfs().expect("statfs")
    }
    /// Free blocks and free inodes.
    pub(crate) fn free(&self) -> (u64, u64) {
        let f = self.figures();
        (f.bfree, f.ffree)
    }
}

/// The operations of a directory, or of its entries.
pub(crate) trait Dir {
    fn find(&self, name: &str) -> Option<Arc<Inode>>;
    fn get(&self, name: &str) -> Arc<Inode> {
        self.find(name)
            .unwrap_or_else(|| panic!("{name} is not there"))
    }
    fn make(&self, name: &str, mode: u32, now: i64) -> Result<Arc<Inode>, Errno>;
    fn file(&self, name: &str, now: i64) -> Arc<Inode> {
        self.make(name, mode::S_IFREG | 0o644, now).expect("a file")
    }
    fn dir(&self, name: &str, now: i64) -> Arc<Inode> {
        self.make(name, mode::S_IFDIR | 0o755, now)
            .expect("a directory")
    }
    fn symlink(&self, name: &str, body: &[u8], now: i64) -> Result<Arc<Inode>, Errno>;
    fn link(&self, name: &str, target: &Arc<Inode>, now: i64) -> Result<(), Errno>;
    fn remove(&self, name: &str, now: i64) -> Result<(), Errno>;
    fn list(&self) -> Vec<String>;
}

impl Dir for Arc<Inode> {
    fn find(&self, name: &str) -> Option<Arc<Inode>> {
        match self
            .ops()
            .lookup(self, name.as_bytes(), WaitMode::Cached)
            .expect("lookup")
        {
            LookupResult::Inode(inode) => Some(inode),
            LookupResult::Absent => None,
            LookupResult::WouldBlock => panic!("memory never waits"),
        }
    }
    fn make(&self, name: &str, mode: u32, now: i64) -> Result<Arc<Inode>, Errno> {
        self.ops().create(self, name.as_bytes(), &new(mode, now))
    }
    fn symlink(&self, name: &str, body: &[u8], now: i64) -> Result<Arc<Inode>, Errno> {
        let link = NewInode {
            body,
            ..new(mode::S_IFLNK | 0o777, now)
        };
        self.ops().create(self, name.as_bytes(), &link)
    }
    fn link(&self, name: &str, target: &Arc<Inode>, now: i64) -> Result<(), Errno> {
        self.ops().link(self, name.as_bytes(), target, at(now))
    }
    fn remove(&self, name: &str, now: i64) -> Result<(), Errno> {
        let victim = self.get(name);
        if victim.is_dir() {
            self.ops().rmdir(self, name.as_bytes(), &victim, at(now))
        } else {
            self.ops().unlink(self, name.as_bytes(), &victim, at(now))
        }
    }
    fn list(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.ops()
            .readdir(self, 0, &mut |e| {
                names.push(String::from_utf8(e.name.to_vec()).expect("text"));
                true
            })
            .expect("readdir");
        names
    }
}

/// A request to rename `source` from the name `from` to `to`, which `target` has.
pub(crate) fn request<'a>(
    from: (&'a Arc<Inode>, &'a str),
    source: &'a Arc<Inode>,
    to: (&'a Arc<Inode>, &'a str),
    target: Option<&'a Arc<Inode>>,
    now: i64,
) -> Rename<'a> {
    Rename {
        old_dir: from.0,
        old_name: from.1.as_bytes(),
        source,
        new_dir: to.0,
        new_name: to.1.as_bytes(),
        target,
        exchange: false,
        whiteout: None,
        now: at(now),
    }
}

/// Renames; `what` may change the request first.
pub(crate) fn rename(
    from: (&Arc<Inode>, &str),
    to: (&Arc<Inode>, &str),
    now: i64,
    what: impl FnOnce(&mut Rename<'_>),
) -> Result<(), Errno> {
    let source = from.0.get(from.1);
    let target = to.0.find(to.1);
    let mut request = request(from, &source, to, target.as_ref(), now);
    what(&mut request);
    from.0.ops().rename(&request)
}

pub(crate) fn write(file: &Inode, data: &[u8], offset: u64, now: i64) -> Result<usize, Errno> {
    file.ops().write_at(file, data, offset, at(now))
}

pub(crate) fn read(file: &Inode, len: usize, offset: u64) -> Vec<u8> {
    let mut buf = vec![0xee; len];
    let n = file.ops().read_at(file, &mut buf, offset).expect("read");
    buf.truncate(n);
    buf
}

/// Truncates as the core does: with the times.
pub(crate) fn truncate(file: &Inode, size: u64, now: i64) -> Result<(), Errno> {
    let change = SetAttr {
        size: Some(size),
        mtime: Some(at(now)),
        ctime: Some(at(now)),
        ..SetAttr::default()
    };
    file.ops().setattr(file, &change)
}
