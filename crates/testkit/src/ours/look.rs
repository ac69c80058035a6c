// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looking at our tree, for a picture.

use openpath_abi::{Errno, Stat, dirent, fcntl as f, mode};
use openpath_vfs::Task;

use super::Reader;
use crate::eye::{Eye, Xattrs};
use crate::op::Fd;
use crate::outcome::RawDesc;
use crate::scan::{Entry, LIST, LONGEST, Readable as _};

/// The task that looks: root, in the root of the case.
pub(super) struct Look<'t> {
    pub(super) task: &'t Task,
}

/// The path as seen from the root.
fn absolute(path: &[u8]) -> Vec<u8> {
    [b"/", path].concat()
}

/// What a task has open at this number.
pub(super) fn descriptor(task: &Task, fd: i32) -> RawDesc {
    let stat = task.fstat(fd).ok();
    let is_dir = stat.is_some_and(|s| mode::is_dir(s.mode));
    let stands = task.lseek(fd, 0, f::SEEK_CUR);
    let own = task.fcntl(fd, f::F_GETFD, 0).unwrap_or(0);
    RawDesc {
        fd,
        cloexec: own & u64::from(f::FD_CLOEXEC) != 0,
        flags: task.fcntl(fd, f::F_GETFL, 0).map_or(-1, u64::cast_signed),
        pos: stands.map(|at| if is_dir { i64::from(at != 0) } else { at }),
        stat: stat.filter(|s| mode::file_type(s.mode) != 0),
    }
}

/// All entries of a directory that a task has open, by the eyes of root, without changing its
/// times or its position.
pub(super) fn list(task: &Task, eye: &Task, fd: i32) -> Result<Vec<Entry>, Errno> {
    let dir = eye.install(&task.file(fd)?, 0)?;
    let again = eye.openat(dir, b".", f::O_DIRECTORY | f::O_NOATIME, 0);
    eye.close(dir)?;
    let again = again?;
    let all = entries(eye, again);
    eye.close(again)?;
    all
}

/// All entries, with as many calls as the host face makes: watchers hear of each.
fn entries(task: &Task, fd: i32) -> Result<Vec<Entry>, Errno> {
    let mut all = Vec::new();
    loop {
        let got = Reader(task, Fd(fd)).entries(LIST)?;
        let used: usize = got.iter().map(|e| dirent::record_len(e.name.len())).sum();
        all.extend(got);
        if used + LONGEST <= LIST {
            return Ok(all);
        }
    }
}

impl Look<'_> {
    /// Does something with a file opened for reading, without changing its times.
    fn with<T>(
        &self,
        path: &[u8],
        flags: u32,
        work: impl FnOnce(i32) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let flags = flags | f::O_RDONLY | f::O_NOATIME | f::O_NOFOLLOW | f::O_NONBLOCK;
        let fd = self.task.open(&absolute(path), flags, 0)?;
        let done = work(fd);
        self.task.close(fd)?;
        done
    }
}

impl Eye for Look<'_> {
    fn lstat(&mut self, path: &[u8]) -> Result<Stat, Errno> {
        self.task.lstat(&absolute(path))
    }

    fn list(&mut self, path: &[u8]) -> Result<Vec<Entry>, Errno> {
        self.with(path, f::O_DIRECTORY, |fd| entries(self.task, fd))
    }

    fn data(&mut self, path: &[u8], max: usize) -> Result<Vec<u8>, Errno> {
        self.with(path, 0, |fd| {
            let mut data = vec![0; max];
            let got = self.task.pread(fd, &mut data, 0)?;
            data.truncate(got);
            Ok(data)
        })
    }

    fn body(&mut self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        self.task.readlinkat(f::AT_FDCWD, &absolute(path))
    }

    fn xattrs(&mut self, path: &[u8]) -> Result<Xattrs, Errno> {
        let path = absolute(path);
        let list = self.task.llistxattr(&path)?;
        let names = list.split(|&b| b == 0).filter(|n| !n.is_empty());
        names
            .map(|n| Ok((n.to_vec(), self.task.lgetxattr(&path, n)?)))
            .collect()
    }
}
