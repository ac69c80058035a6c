// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the directory of a view open, and reads, replaces and lists its control files and
//! subdirectories, all relative to the descriptor.
//!
//! # Rules
//! R1. The descriptor is opened once, and its owner is checked, before anything in it is touched.
//! R2. No name in the directory is followed through a symbolic link. A control file is a regular
//!     file of this user; anything else under its name is an error, and is never waited for.
//! R3. New files have mode 0600 and new directories 0700, whatever the umask.
//! R4. A control file is replaced as a whole: written under a second name (`NAME.new`), synced,
//!     and renamed.

use crate::attributes::owner::is_own;
use crate::host::descriptors::{path_by_number, reopen_readable};
use crate::host::names::names_in;
use crate::report::refusal::Refusal;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read as _, Take, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a directory is opened to be held.
pub(crate) const HOLD: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// No name leads out of the directory (R2).
const INSIDE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A directory of a view, or one in it, held open.
#[derive(Clone, Debug)]
pub struct ViewDir {
    fd: Arc<OwnedFd>,
    path: PathBuf,
}

impl AsFd for ViewDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl ViewDir {
    /// Holds an open directory; `path` is for messages.
    pub(crate) fn from_fd(fd: OwnedFd, path: PathBuf) -> ViewDir {
        let fd = Arc::new(fd);
        ViewDir { fd, path }
    }

    /// The path that the directory was opened by, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path that the kernel knows the directory by.
    pub fn kernel_path(&self) -> PathBuf {
        let link = std::fs::read_link(path_by_number(&self.fd));
        link.unwrap_or_else(|_| self.path.clone())
    }

    /// A path that leads to the directory and no other.
    pub(crate) fn proc_path(&self) -> String {
        path_by_number(&self.fd)
    }

    /// A further descriptor of the directory.
    ///
    /// # Errors
    /// Those of dup(2).
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// Opens a control file for reading; `None` if there is none.
    ///
    /// # Errors
    /// It is not a regular file of this user; those of openat(2).
    pub(crate) fn open_file(&self, name: &str) -> io::Result<Option<File>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match self.openat(name, flags, Mode::empty()) {
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP) => Err(foreign(name, "a symbolic link")),
            file => Ok(Some(checked(file?, name)?.into())),
        }
    }

    /// Reads a control file of at most `max` bytes; `None` if there is none.
    ///
    /// # Errors
    /// Those of [`ViewDir::open_file`]; the file is longer; those of read(2).
    pub(crate) fn read(&self, name: &str, max: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(mut file) = self.open_limited(name, max)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Opens a control file of at most `max` bytes for reading; `None` if there is none.
    ///
    /// # Errors
    /// Those of [`ViewDir::open_file`]; the file is longer.
    pub(crate) fn open_limited(&self, name: &str, max: u64) -> io::Result<Option<Take<File>>> {
        let Some(file) = self.open_file(name)? else {
            return Ok(None);
        };
        if file.metadata()?.len() > max {
            let text = format!("{name} is longer than {max} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(Some(file.take(max)))
    }

    /// Makes a control file that does not exist, and opens it for reading and writing.
    ///
    /// # Errors
    /// Those of openat(2), `EEXIST` for anything under the name.
    pub(crate) fn create_new(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = self.openat(name, flags, PRIVATE_FILE)?;
        // R3
        rustix::fs::fchmod(&file, PRIVATE_FILE)?;
        Ok(file.into())
    }

    /// Gives a control file this content, all of it or none, and syncs it (R4).
    ///
    /// # Errors
    /// Those of openat(2), write(2), fsync(2) and renameat(2).
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.replace_by(name, |file| file.write_all(bytes))
    }

    /// The same with the content that `write` writes.
    ///
    /// # Errors
    /// Those of [`ViewDir::replace`] and of `write`.
    pub(crate) fn replace_by(
        &self,
        name: &str,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let beside = format!("{name}.new");
        // What an interrupted call left.
        self.remove_file(&beside)?;
        let mut file = self.create_new(&beside)?;
        if let Err(why) = write(&mut file) {
            // It may be long, and have filled the disk.
            self.remove_file(&beside)?;
            return Err(why);
        }
        file.sync_all()?;
        self.rename(&beside, name)?;
        self.sync()
    }

    /// Renames within the directory.
    ///
    /// # Errors
    /// Those of renameat(2).
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// Removes a file; one that does not exist is no error.
    ///
    /// # Errors
    /// Those of unlinkat(2).
    pub(crate) fn remove_file(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            done => Ok(done?),
        }
    }

    /// Holds a directory in this one; `None` if there is none.
    ///
    /// # Errors
    /// It is not a directory; those of openat2(2).
    pub fn subdir(&self, name: &str) -> io::Result<Option<ViewDir>> {
        match self.openat(name, HOLD, Mode::empty()) {
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => Err(foreign(name, "not a directory")),
            dir => Ok(Some(ViewDir::from_fd(dir?, self.path.join(name)))),
        }
    }

    /// Makes a directory in this one, and holds it.
    ///
    /// # Errors
    /// Those of mkdirat(2), `EEXIST` for anything under the name.
    pub(crate) fn make_subdir(&self, name: &str) -> io::Result<ViewDir> {
        rustix::fs::mkdirat(&self.fd, name, Mode::RWXU)?;
        let dir = self.subdir(name)?.ok_or(io::ErrorKind::NotFound)?;
        dir.close_to_others()?;
        Ok(dir)
    }

    /// Is there anything under this name?
    ///
    /// # Errors
    /// Those of statx(2).
    pub(crate) fn has(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(false),
            found => Ok(found.map(|_| true)?),
        }
    }

    /// The names in the directory, in order.
    ///
    /// # Errors
    /// Those of getdents64(2).
    pub(crate) fn names(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(names_in(self.as_fd())?)
    }

    /// Brings the names in the directory to the disk.
    ///
    /// # Errors
    /// Those of fsync(2).
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(reopen_readable(self)?)?)
    }

    /// Takes all permissions of others away from the directory (R3).
    pub(crate) fn close_to_others(&self) -> io::Result<()> {
        let stat = self.stat()?;
        if stat.st_mode & 0o777 == 0o700 {
            return Ok(());
        }
        // The descriptor stands for a place, which chmod(2) takes by this name alone.
        Ok(rustix::fs::chmod(path_by_number(&self.fd), Mode::RWXU)?)
    }

    pub(crate) fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.fd)?)
    }

    /// The sentence for a step in this directory that failed.
    #[must_use]
    pub fn failed(&self, why: impl std::fmt::Display) -> Refusal {
        Refusal::step(&self.path.display().to_string(), why)
    }

    fn openat(&self, name: &str, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat2(&self.fd, name, flags, mode, INSIDE)
    }
}

/// R2
fn checked(file: OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(foreign(name, "not a regular file"));
    }
    if !is_own(stat.st_uid) {
        return Err(foreign(name, "a file of another user"));
    }
    Ok(file)
}

fn foreign(name: &str, what: &str) -> io::Error {
    let text = format!("{name} is {what}, so the view cannot be trusted");
    io::Error::new(io::ErrorKind::InvalidData, text)
}
