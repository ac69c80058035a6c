// SPDX-License-Identifier: MIT OR Apache-2.0
//! A directory of this user's alone, and its files.
//!
//! The way to it is walked from the root, a directory at a time, each held and looked at before a
//! name in it is believed. In a directory that others may write and that keeps names to their
//! owners, as `/tmp`, the next one is its owner's, which is looked at in turn.

use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT,
};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path};
use std::time::Duration;

/// Characters of a key.
pub(super) const KEY: usize = 64;
/// What stands behind a key.
pub(super) const MODULE: &str = ".cwasm";
/// What is being written has a name that begins with this.
const UNDER_WAY: &str = ".new-";
/// How many may be written by one process at a time.
const WRITERS_MAX: u32 = 64;
/// What is being written for longer than this was given up.
const GIVEN_UP: Duration = Duration::from_secs(24 * 60 * 60);

/// The directory, held.
#[derive(Debug)]
pub(super) struct Place {
    dir: OwnedFd,
}

impl Place {
    /// The directory at this path, which is made with what is missing on the way to it.
    pub(super) fn open(path: &Path) -> io::Result<Place> {
        let path = std::path::absolute(path)?;
        let mut names = Vec::new();
        for part in path.components() {
            match part {
                Component::RootDir => {}
                Component::Normal(name) => names.push(name),
                _ => return Err(refused("the path has a part that is no name")),
            }
        }
        let Some(last) = names.pop() else {
            return Err(refused("it is the root"));
        };
        let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut dir = rustix::fs::open("/", way, Mode::empty())?;
        for name in names {
            trusted(&rustix::fs::fstat(&dir)?)?;
            dir = enter(&dir, name, way)?;
        }
        trusted(&rustix::fs::fstat(&dir)?)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = enter(&dir, last, flags)?;
        own(&rustix::fs::fstat(&dir)?)?;
        Ok(Place { dir })
    }

    /// All of a file, which counts as used then; `None`: there is none.
    pub(super) fn read(&self, name: &str, max: u64) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.dir, name, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            fd => fd?,
        };
        let stat = rustix::fs::fstat(&fd)?;
        own(&stat)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(refused("it is no regular file"));
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
            return Err(refused("it is too long"));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        File::from(fd).take(max).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Puts a file of these parts in place.
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

    /// A new file, beside all others.
    fn new_file(&self) -> io::Result<(String, File)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        for number in 0..WRITERS_MAX {
            let new = format!("{UNDER_WAY}{}-{number}", std::process::id());
            match rustix::fs::openat(&self.dir, &new, flags, mode) {
                Err(rustix::io::Errno::EXIST) => {}
                fd => return Ok((new, File::from(fd?))),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Removes what was used longest ago, until there are no more files and bytes than these.
    pub(super) fn bound(&self, bytes_max: u64, files_max: usize) -> io::Result<()> {
        let mut all = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.dir)? {
            let entry = entry?;
            let name = entry.file_name();
            let new = match Name::of(name.to_bytes()) {
                // What else is there is another's.
                None => continue,
                Some(name) => name == Name::UnderWay,
            };
            let stat = match rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(rustix::io::Errno::NOENT) => continue,
                stat => stat?,
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                continue;
            }
            let old = i64::try_from(GIVEN_UP.as_secs()).unwrap_or(i64::MAX);
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
            let given_up = Name::of(name.to_bytes()) == Some(Name::UnderWay);
            if bytes <= bytes_max && files <= files_max && !given_up {
                continue;
            }
            match rustix::fs::unlinkat(&self.dir, &*name, AtFlags::empty()) {
                // Another process was there first.
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(why) => return Err(why.into()),
            }
            bytes -= size(gone);
            files -= 1;
        }
        Ok(())
    }
}

/// The directory of this name, made if there is none; a link is not followed.
fn enter(dir: &OwnedFd, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => {}
        entered => return Ok(entered?),
    }
    match rustix::fs::mkdirat(dir, name, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(why) => return Err(why.into()),
    }
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

/// What a name in the directory is of.
#[derive(PartialEq, Eq)]
enum Name {
    Module,
    UnderWay,
}

impl Name {
    /// `None`: of nothing that a cache has made.
    fn of(name: &[u8]) -> Option<Name> {
        if let Some(rest) = name.strip_prefix(UNDER_WAY.as_bytes()) {
            let made_up = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
            return rest.iter().all(made_up).then_some(Name::UnderWay);
        }
        let key = name.strip_suffix(MODULE.as_bytes())?;
        let is_key = key.len() == KEY && key.iter().all(u8::is_ascii_hexdigit);
        is_key.then_some(Name::Module)
    }
}

/// Whether only this user and root may say what is in a directory on the way: each name in it, or
/// the names that are theirs.
fn trusted(stat: &Stat) -> io::Result<()> {
    let root = stat.st_uid == 0;
    if !root && stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refused("a directory on the way is another user's"));
    }
    let sticky = root && stat.st_mode & 0o1000 != 0;
    if stat.st_mode & 0o022 != 0 && !sticky {
        return Err(refused("others may write a directory on the way"));
    }
    Ok(())
}

/// Whether nobody else may write it.
fn own(stat: &Stat) -> io::Result<()> {
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refused("it is another user's"));
    }
    if stat.st_mode & 0o022 != 0 {
        return Err(refused("others may write it"));
    }
    Ok(())
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
