// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inspects the tree of a case and its tasks (descriptors, mounts, working directories) on
//! openpath, for a snapshot.

use openpath_abi::fcntl::O_RDONLY;
use openpath_abi::{Errno, OFlags, Stat, dirent, fcntl as f, mode};
use openpath_vfs::{Cred, Task};

use super::Reader;
use crate::mounts;
use crate::op::Fd;
use crate::outcome::RawDesc;
use crate::scan::{Entry, LIST, LONGEST, Readable as _};
use crate::snapshot::{TreeReader, Xattrs, relative};
use crate::tree::RawPlace;

/// Inspects a tree as root from an open directory.
pub(super) struct Look<'t> {
    pub(super) task: &'t Task,
    pub(super) root: Fd,
}

/// A task for inspection at another task's place.
pub(super) fn looker(task: &Task) -> Option<Task> {
    let looker = task.fork().ok()?;
    looker.set_cred(Cred::root());
    looker.set_rlimit_nofile(1 << 10);
    Some(looker)
}

/// The place of a task.
pub(super) fn place(task: &Task) -> RawPlace {
    let lines: Vec<String> = task.mountinfo().iter().map(ToString::to_string).collect();
    RawPlace {
        mounts: mounts::lines(&lines.join("\n")),
        root: task.lstat(b"/"),
        cwd: task.fstatat(f::AT_FDCWD, b"", f::AT_EMPTY_PATH),
        cwd_path: task.getcwd(),
    }
}

/// The descriptor of a task with this number.
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

/// All entries of a directory that a task has open, read as root, without changing its times or its
/// position.
pub(super) fn list(task: &Task, inspector: &Task, fd: i32) -> Result<Vec<Entry>, Errno> {
    let dir = inspector.install(&task.file(fd)?, O_RDONLY)?;
    let again = inspector.openat(dir, b".", f::O_DIRECTORY | f::O_NOATIME, 0);
    inspector.close(dir)?;
    let again = again?;
    let all = entries(inspector, again);
    inspector.close(again)?;
    all
}

/// All entries, with as many calls as the host side makes, because watches report each.
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

impl<'t> Look<'t> {
    /// Begins at the root of a task.
    pub(super) fn from_root(task: &'t Task) -> Option<Look<'t>> {
        let root = task.open(b"/", f::O_PATH | f::O_DIRECTORY, 0).ok()?;
        Some(Look {
            task,
            root: Fd(root),
        })
    }

    /// Does work with a file opened for reading, without changing its times.
    fn with<T>(
        &self,
        path: &[u8],
        flags: u32,
        work: impl FnOnce(i32) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let flags = flags
            | f::O_RDONLY.bits()
            | f::O_NOATIME.bits()
            | f::O_NOFOLLOW.bits()
            | f::O_NONBLOCK.bits();
        let fd = self.task.openat(
            self.root.0,
            relative(path),
            OFlags::from_bits_retain(flags),
            0,
        )?;
        let done = work(fd);
        self.task.close(fd)?;
        done
    }
}

impl TreeReader for Look<'_> {
    fn lstat(&mut self, path: &[u8]) -> Result<Stat, Errno> {
        let flags = f::AT_SYMLINK_NOFOLLOW | f::AT_EMPTY_PATH;
        self.task.fstatat(self.root.0, path, flags)
    }

    fn list(&mut self, path: &[u8]) -> Result<Vec<Entry>, Errno> {
        self.with(path, f::O_DIRECTORY.bits(), |fd| entries(self.task, fd))
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
        self.task.readlinkat(self.root.0, path)
    }

    fn xattrs(&mut self, path: &[u8]) -> Result<Xattrs, Errno> {
        self.task.fchdir(self.root.0)?;
        let path = relative(path);
        let list = self.task.llistxattr(path)?;
        let names = list.split(|&b| b == 0).filter(|n| !n.is_empty());
        names
            .map(|n| Ok((n.to_vec(), self.task.lgetxattr(path, n)?)))
            .collect()
    }
}
