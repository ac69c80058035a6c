// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests of path calls an empty tree in memory, tasks of root and of other users in it, short
//! forms of common calls (`put`, `body`, `names`), and each result as `0` or the error's name.

#![allow(dead_code, reason = "each test uses a part")]

use openpath_abi::Errno;
use openpath_abi::fcntl::{O_CREAT, O_DIRECTORY, O_RDONLY, O_WRONLY};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Fd, SuperBlock, Task, Vfs};
use std::sync::Arc;

/// A descriptor that is not open.
pub(crate) const BAD: Fd = 9999;

/// An ordinary user.
pub(crate) const NOBODY: u32 = 65534;

pub(crate) fn tree() -> Arc<SuperBlock> {
    MemFs::new(MemOptions::default().mode(0o755))
}

pub(crate) fn vfs() -> Vfs {
    Vfs::builder().build(tree()).expect("a Vfs")
}

/// A task of root.
pub(crate) fn root(vfs: &Vfs) -> Task {
    vfs.task(Cred::root()).expect("a task")
}

/// A task of an ordinary user in the directory of `of`.
pub(crate) fn user(of: &Task, uid: u32) -> Task {
    let task = of.fork().expect("a task");
    task.set_cred(Cred::user(uid, uid, &[]));
    task
}

/// The name of the error, or `0`.
pub(crate) fn says<T>(result: Result<T, Errno>) -> String {
    match result {
        Ok(_) => "0".to_owned(),
        Err(errno) => errno.name().to_owned(),
    }
}

/// Short forms of calls on paths as text; those that return no result must succeed.
pub(crate) trait Short {
    fn dir(&self, path: &str);
    fn touch(&self, path: &str);
    fn body(&self, path: &str) -> Vec<u8>;
    fn put(&self, path: &str, body: &[u8]);
    fn ino(&self, path: &str) -> u64;
    fn mode(&self, path: &str) -> u32;
    fn names(&self, path: &str) -> Vec<String>;
    fn has(&self, path: &str) -> bool;
    /// Closes a descriptor that may have been opened; returns the error of its open.
    fn shut(&self, opened: Result<Fd, Errno>) -> Result<(), Errno>;
}

impl Short for Task {
    #[track_caller]
    fn dir(&self, path: &str) {
        self.mkdir(path.as_bytes(), 0o755).expect(path);
    }
    #[track_caller]
    fn touch(&self, path: &str) {
        self.put(path, b"");
    }
    #[track_caller]
    fn put(&self, path: &str, body: &[u8]) {
        let file = self.open(path.as_bytes(), O_CREAT | O_WRONLY, 0o644);
        let file = file.expect(path);
        assert_eq!(self.pwrite(file, body, 0), Ok(body.len()));
        self.close(file).expect(path);
    }
    #[track_caller]
    fn body(&self, path: &str) -> Vec<u8> {
        let mut body = vec![0; 64];
        let file = self.open(path.as_bytes(), O_RDONLY, 0).expect(path);
        let n = self.pread(file, &mut body, 0).expect(path);
        self.close(file).expect(path);
        body.truncate(n);
        body
    }
    #[track_caller]
    fn ino(&self, path: &str) -> u64 {
        self.lstat(path.as_bytes()).expect(path).ino
    }
    #[track_caller]
    fn mode(&self, path: &str) -> u32 {
        self.lstat(path.as_bytes()).expect(path).mode
    }
    #[track_caller]
    fn names(&self, path: &str) -> Vec<String> {
        let dir = self.open(path.as_bytes(), O_DIRECTORY, 0).expect(path);
        let mut names = Vec::new();
        loop {
            let some = self.getdents64(dir, 4096).expect(path);
            if some.is_empty() {
                break;
            }
            let text = some.into_iter().map(|e| String::from_utf8(e.name));
            names.extend(text.map(|name| name.expect("text")));
        }
        self.close(dir).expect(path);
        names.retain(|name| name != "." && name != "..");
        names.sort();
        names
    }
    fn has(&self, path: &str) -> bool {
        self.lstat(path.as_bytes()).is_ok()
    }
    fn shut(&self, opened: Result<Fd, Errno>) -> Result<(), Errno> {
        self.close(opened?)
    }
}
