// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens a directory that must belong to this user alone, and reads, writes and evicts the files in
//! it.
//!
//! The path is walked from the root, one directory at a time: each is opened and checked before a
//! name in it is followed. In a sticky directory that others may write, such as `/tmp`, only a
//! name's owner can change it, so the next directory is checked for its owner.

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT,
};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path};
use std::time::Duration;

/// Hexadecimal digits of a key.
pub(super) const KEY_LEN: usize = 64;
/// The suffix after a key.
pub(super) const SUFFIX: &str = ".cwasm";
/// The prefix of files that are still being written.
const TEMPORARY_PREFIX: &str = ".new-";
/// The most files that one process writes at a time.
const WRITERS_MAX: u32 = 64;
/// A temporary file older than this was abandoned.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// An open directory.
#[derive(Debug)]
pub(super) struct PrivateDir {
    dir: OwnedFd,
}

impl PrivateDir {
    /// Opens the directory at this path, and creates the missing directories on the way.
    pub(super) fn open(path: &Path) -> io::Result<PrivateDir> {
        let path = std::path::absolute(path)?;
        let mut names = Vec::new();
        for part in path.components() {
            match part {
                Component::RootDir => {}
                Component::Normal(name) => names.push(name),
                _ => return Err(denied("the path contains . or ..")),
            }
        }
        let Some(last) = names.pop() else {
            return Err(denied("the path is the root directory"));
        };
        let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut dir = rustix::fs::open("/", way, Mode::empty())?;
        for name in names {
            check_parent(&rustix::fs::fstat(&dir)?)?;
            dir = open_or_create(&dir, name, way)?;
        }
        check_parent(&rustix::fs::fstat(&dir)?)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = open_or_create(&dir, last, flags)?;
        check_own(&rustix::fs::fstat(&dir)?)?;
        Ok(PrivateDir { dir })
    }

    /// Reads a whole file and marks it as used; `None` if there is none.
    pub(super) fn read(&self, name: &str, max: u64) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.dir, name, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            fd => fd?,
        };
        let stat = rustix::fs::fstat(&fd)?;
        check_own(&stat)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(denied("the file is not regular"));
        }
        let time = |nsec| Timespec {
            tv_sec: 0,
            tv_nsec: nsec,
        };
        let used = Timestamps {
            last_access: time(UTIME_OMIT),
            last_modification: time(UTIME_NOW),
        };
        rustix::fs::futimens(&fd, &used).ok();
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size > max {
            return Err(denied("the file is longer than the bound"));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        File::from(fd).take(max).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Writes the parts to a file, which appears under its name as a whole.
    pub(super) fn write(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let (new, mut file) = self.new_file()?;
        let written = parts
            .iter()
            .try_for_each(|part| file.write_all(part))
            .and_then(|()| Ok(rustix::fs::renameat(&self.dir, &new, &self.dir, name)?));
        if written.is_err() {
            rustix::fs::unlinkat(&self.dir, &new, AtFlags::empty()).ok();
        }
        written
    }

    /// Creates a temporary file.
    fn new_file(&self) -> io::Result<(String, File)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        for number in 0..WRITERS_MAX {
            let new = format!("{TEMPORARY_PREFIX}{}-{number}", std::process::id());
            match rustix::fs::openat(&self.dir, &new, flags, mode) {
                Err(rustix::io::Errno::EXIST) => {}
                fd => return Ok((new, File::from(fd?))),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Removes the least recently used files until the rest is within both bounds.
    pub(super) fn evict(&self, bytes_max: u64, files_max: usize) -> io::Result<()> {
        let mut all = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let new = match Name::of(name.to_bytes()) {
                // Not a file of this cache.
                None => continue,
                Some(name) => name == Name::Temporary,
            };
            let stat = match rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(rustix::io::Errno::NOENT) => continue,
                stat => stat?,
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                continue;
            }
            let old = i64::try_from(ABANDONED_AFTER.as_secs()).unwrap_or(i64::MAX);
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
            if !new || stat.st_mtime.saturating_add(old) < now {
                all.push((
                    (stat.st_mtime, stat.st_mtime_nsec),
                    stat.st_size,
                    name.to_owned(),
                ));
            }
        }
        all.sort();
        let size = |size: i64| u64::try_from(size).unwrap_or(0);
        let mut bytes: u64 = all.iter().map(|(_, bytes, _)| size(*bytes)).sum();
        let mut files = all.len();
        for (_, gone, name) in all {
            let abandoned = Name::of(name.to_bytes()) == Some(Name::Temporary);
            if bytes <= bytes_max && files <= files_max && !abandoned {
                continue;
            }
            match rustix::fs::unlinkat(&self.dir, &*name, AtFlags::empty()) {
                // Another process may have removed it first.
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(why) => return Err(why.into()),
            }
            bytes -= size(gone);
            files -= 1;
        }
        Ok(())
    }
}

/// Opens a directory, and creates it if it is missing; does not follow a link.
fn open_or_create(dir: &OwnedFd, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => {}
        opened => return Ok(opened?),
    }
    match rustix::fs::mkdirat(dir, name, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(why) => return Err(why.into()),
    }
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

/// What a name in the directory stands for.
#[derive(PartialEq, Eq)]
enum Name {
    Module,
    Temporary,
}

impl Name {
    /// `None` if a cache does not use such a name.
    fn of(name: &[u8]) -> Option<Name> {
        if let Some(rest) = name.strip_prefix(TEMPORARY_PREFIX.as_bytes()) {
            let made_up = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
            return rest.iter().all(made_up).then_some(Name::Temporary);
        }
        let key = name.strip_suffix(SUFFIX.as_bytes())?;
        let is_key = key.len() == KEY_LEN && key.iter().all(u8::is_ascii_hexdigit);
        is_key.then_some(Name::Module)
    }
}

/// Checks that only this user and root can replace what is in a directory on the way: any name in
/// it, or the names that they own.
fn check_parent(stat: &Stat) -> io::Result<()> {
    let root = stat.st_uid == 0;
    if !root && stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(denied("a parent directory belongs to another user"));
    }
    let sticky = root && stat.st_mode & 0o1000 != 0;
    if stat.st_mode & 0o022 != 0 && !sticky {
        return Err(denied("a parent directory is writable by others"));
    }
    Ok(())
}

/// Checks that only this user may write it.
fn check_own(stat: &Stat) -> io::Result<()> {
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(denied("it belongs to another user"));
    }
    if stat.st_mode & 0o022 != 0 {
        return Err(denied("it is writable by others"));
    }
    Ok(())
}

fn denied(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
