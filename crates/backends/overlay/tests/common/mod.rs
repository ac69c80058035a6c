// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests a stack of trees in memory that tasks of their own fill, an overlay of the stack,
//! and functions that read names, inodes and content of the overlay or of one tree.

#![allow(dead_code, reason = "each test uses a part")]

use openpath_abi::fcntl::{O_CREAT, O_DIRECTORY, O_RDONLY, O_TRUNC, O_WRONLY};
use openpath_abi::{Errno, Timespec, mode};
use openpath_mem::{MemFs, MemOptions};
use openpath_overlay::{OverlayFs, OverlayOptions};
use openpath_vfs::{Clock, Cred, Inode, LookupResult, SuperBlock, Task, Vfs, WaitMode};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Trees to be stacked.
pub(crate) struct Stack {
    pub(crate) lowers: Vec<Arc<SuperBlock>>,
    pub(crate) upper: Arc<SuperBlock>,
    /// A task at the root of each lower tree, topmost first.
    pub(crate) below: Vec<Task>,
    _vfs: Vec<Vfs>,
}

/// A task of root in a `Vfs` of its own.
pub(crate) fn task_in(tree: &Arc<SuperBlock>) -> (Vfs, Task) {
    let vfs = Vfs::builder()
        .clock(Box::new(Fine))
        .build(Arc::clone(tree))
        .expect("a Vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    task.umask(0);
    (vfs, task)
}

impl Stack {
    /// So many empty lower trees and an upper one.
    pub(crate) fn new(lowers: usize) -> Self {
        let memory = || MemFs::new(MemOptions::default());
        Self::of((0..lowers).map(|_| memory()).collect(), memory())
    }

    pub(crate) fn of(lowers: Vec<Arc<SuperBlock>>, upper: Arc<SuperBlock>) -> Self {
        let (kept, below): (Vec<_>, Vec<_>) = lowers.iter().map(task_in).unzip();
        Self {
            lowers,
            upper,
            below,
            _vfs: kept,
        }
    }

    pub(crate) fn options(&self) -> OverlayOptions {
        OverlayOptions::default()
            .lowers(self.lowers.clone())
            .upper(Some(Arc::clone(&self.upper)))
    }

    /// A new overlay of them.
    pub(crate) fn mount(&self) -> (Vfs, Task) {
        task_in(&OverlayFs::new(self.options()).expect("an overlay"))
    }
}

/// An inode of a tree, found without a `Vfs`.
pub(crate) fn inode(tree: &SuperBlock, path: &str) -> Arc<Inode> {
    let mut at = Arc::clone(tree.root());
    for name in path.split('/').filter(|name| !name.is_empty()) {
        let found = at.ops().lookup(&at, name.as_bytes(), WaitMode::Wait);
        at = match found.expect(path) {
            LookupResult::Inode(inode) => inode,
            _ => panic!("{path} is not there"),
        };
    }
    at
}

/// The names in a directory, found without a `Vfs`.
pub(crate) fn beneath(tree: &SuperBlock, path: &str) -> Vec<String> {
    let dir = inode(tree, path);
    let mut names = Vec::new();
    let listed = dir.ops().readdir(&dir, 0, &mut |entry| {
        names.push(String::from_utf8(entry.name.to_vec()).expect("text"));
        true
    });
    listed.expect(path);
    names.sort();
    names
}

/// Makes a file or replaces what it holds.
pub(crate) fn put(task: &Task, path: &str, data: &str) {
    let flags = O_WRONLY | O_CREAT | O_TRUNC;
    let fd = task.open(path.as_bytes(), flags, 0o644).expect(path);
    assert_eq!(task.write(fd, data.as_bytes()), Ok(data.len()));
    task.close(fd).expect("close");
}

pub(crate) fn mkdir(task: &Task, path: &str) {
    task.mkdir(path.as_bytes(), 0o755).expect(path);
}

/// The content of a file.
pub(crate) fn get(task: &Task, path: &str) -> Result<String, Errno> {
    let fd = task.open(path.as_bytes(), O_RDONLY, 0)?;
    let mut buf = vec![0; 1 << 16];
    let done = task.read(fd, &mut buf);
    task.close(fd)?;
    buf.truncate(done?);
    Ok(String::from_utf8(buf).expect("text"))
}

/// The names in a directory, in order, each with its number and type.
pub(crate) fn entries(task: &Task, path: &str) -> BTreeMap<String, (u64, u8)> {
    let flags = O_RDONLY | O_DIRECTORY;
    let fd = task.open(path.as_bytes(), flags, 0).expect(path);
    let mut found = BTreeMap::new();
    loop {
        let some = task.getdents64(fd, 300).expect("getdents64");
        if some.is_empty() {
            break;
        }
        for entry in some {
            let name = String::from_utf8(entry.name).expect("text");
            let before = found.insert(name, (entry.ino, entry.kind));
            assert!(before.is_none(), "listed twice");
        }
    }
    task.close(fd).expect("close");
    found.remove(".").expect("itself");
    found.remove("..").expect("its parent");
    found
}

pub(crate) fn names(task: &Task, path: &str) -> Vec<String> {
    entries(task, path).into_keys().collect()
}

/// All that shows below a directory, by path; listings and lookups must agree.
pub(crate) fn shown(task: &Task, path: &str) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (name, (ino, kind)) in entries(task, path) {
        let at = format!("{}/{name}", path.trim_end_matches('/'));
        let st = task.lstat(at.as_bytes()).expect(&at);
        assert_eq!((st.ino, mode::dirent_type(st.mode)), (ino, kind), "{at}");
        let what = match st.mode & mode::S_IFMT {
            mode::S_IFREG => get(task, &at).expect(&at),
            mode::S_IFLNK => {
                let body = task.readlink(at.as_bytes()).expect(&at);
                String::from_utf8(body).expect("text")
            }
            mode::S_IFDIR => {
                all.extend(shown(task, &at));
                String::new()
            }
            _ => st.rdev.to_string(),
        };
        let ids = (st.uid, st.gid);
        let line = format!("{} {:o} {ids:?} {:?} {what}", st.ino, st.mode, st.mtime);
        all.insert(at, line);
    }
    all
}

/// The wall clock in nanoseconds: consecutive changes have different times.
pub(crate) struct Fine;

impl Clock for Fine {
    fn now(&self) -> Timespec {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        Timespec::new(now.as_secs().cast_signed(), now.subsec_nanos())
    }
}
