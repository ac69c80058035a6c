// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and changes a directory of control groups through its descriptor: no file in it is opened
//! by a full path.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::{Errno, Result};
use std::path::Path;

/// The longest file that is read, in bytes.
const FILE_MAX: usize = 64 << 10;
/// The file system type of control groups of version 2, as fstatfs(2) reports it.
const CGROUP2: rustix::fs::FsWord = 0x6367_7270;

/// A directory.
#[derive(Debug)]
pub(super) struct Dir(OwnedFd);

impl Dir {
    /// The directory at an absolute path.
    pub(super) fn open(path: &Path) -> Result<Dir> {
        open(CWD, path).map(Dir)
    }

    /// A directory that another process has opened.
    pub(super) fn from_fd(fd: OwnedFd) -> Dir {
        Dir(fd)
    }

    /// A directory in this one; `..` is the one above.
    pub(super) fn dir(&self, name: &str) -> Result<Dir> {
        open(self.0.as_fd(), Path::new(name)).map(Dir)
    }

    /// Whether this is a directory of control groups of version 2.
    pub(super) fn is_cgroup2(&self) -> bool {
        let stat = rustix::fs::fstatfs(&self.0);
        stat.is_ok_and(|stat| stat.f_type == CGROUP2)
    }

    /// The user that owns it.
    pub(super) fn owner(&self) -> Result<u32> {
        rustix::fs::fstat(&self.0).map(|stat| stat.st_uid)
    }

    /// The text of a file.
    pub(super) fn read(&self, file: &str) -> Result<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, file, flags, Mode::empty())?;
        let mut text = Vec::new();
        let mut part = [0; 4096];
        loop {
            match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut part))? {
                0 => break,
                got => text.extend_from_slice(&part[..got]),
            }
            if text.len() > FILE_MAX {
                return Err(Errno::FBIG);
            }
        }
        String::from_utf8(text).map_err(|_| Errno::ILSEQ)
    }

    /// Writes a setting in one call, as the kernel requires.
    pub(super) fn write(&self, file: &str, text: &str) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, file, flags, Mode::empty())?;
        match rustix::io::write(&file, text.as_bytes())? {
            all if all == text.len() => Ok(()),
            _ => Err(Errno::IO),
        }
    }

    /// Whether this process may write to a file, or with `.` make groups.
    pub(super) fn may_write(&self, file: &str) -> Result<()> {
        rustix::fs::accessat(&self.0, file, Access::WRITE_OK, AtFlags::EACCESS)
    }

    /// Makes a group.
    pub(super) fn make(&self, name: &str) -> Result<()> {
        rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o755))
    }

    /// Removes a group, which the kernel does if there is nothing in it.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)
    }

    /// The names of the groups in it.
    pub(super) fn groups(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        // An `O_PATH` descriptor cannot be listed.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let list = rustix::fs::openat(&self.0, ".", flags, Mode::empty())?;
        for entry in rustix::fs::Dir::new(list)? {
            let entry = entry?;
            let name = entry.file_name().to_str().unwrap_or_default();
            let is_group = entry.file_type() == rustix::fs::FileType::Directory;
            if is_group && !matches!(name, "" | "." | "..") {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn open(at: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty())
}
