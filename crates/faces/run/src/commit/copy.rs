// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies of files, whole: data with its holes, attributes, owner, mode and times.

use crate::Refusal;
use crate::commit::facts::{Attributes, Facts, is_ours};
use crate::commit::scan::failed;
use crate::commit::tree::{Tree, by_handle, chmod, join};
use openpath_abi::mode;
use openpath_abi::stat::{major, minor};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, Timestamps, Uid, XattrFlags};
use rustix::io::{Errno, Result};
use std::collections::BTreeMap;

/// How much is copied between two looks at who waits.
const PIECE: usize = 8 << 20;

/// Hears how many bytes were copied.
pub(crate) type Heard<'a> = &'a mut dyn FnMut(u64);

/// Makes a copy of anything but a directory; `any_owner`: one that cannot be given is let go.
pub(crate) fn copy(
    (from, path): (&Tree, &[u8]),
    (to, new): (&Tree, &[u8]),
    attributes: &Attributes,
    any_owner: bool,
    heard: Heard<'_>,
) -> std::result::Result<(), Refusal> {
    let said = |why| failed(path, why);
    let (dir, name) = to.spot(new).map_err(said)?;
    match mode::file_type(attributes.mode) {
        mode::S_IFREG => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&*dir, name, flags, Mode::from_raw_mode(0o600));
            let file = file.map_err(said)?;
            let source = from.read(path).map_err(said)?;
            data(&source, &file, heard).map_err(said)?;
        }
        mode::S_IFLNK => {
            let (source, name_there) = from.spot(path).map_err(said)?;
            let body = rustix::fs::readlinkat(&*source, name_there, Vec::new()).map_err(said)?;
            rustix::fs::symlinkat(body, &*dir, name).map_err(said)?;
        }
        kind => {
            let rdev = rustix::fs::makedev(major(attributes.rdev), minor(attributes.rdev));
            let mode = Mode::from_raw_mode(0o600);
            let kind = FileType::from_raw_mode(kind);
            rustix::fs::mknodat(&*dir, name, kind, mode, rdev).map_err(said)?;
        }
    }
    dress(&dir, name, attributes, None, any_owner).map_err(said)
}

/// Makes a copy of a tree that nobody changes.
pub(crate) fn copy_tree(
    (from, path): (&Tree, &[u8]),
    (to, new): (&Tree, &[u8]),
    heard: Heard<'_>,
) -> std::result::Result<(), Refusal> {
    let said = |why| failed(path, why);
    let facts = from.look(path).map_err(said)?;
    let facts = facts.ok_or_else(|| said(Errno::NOENT))?;
    let attributes = Attributes::read(from, path, &facts).map_err(said)?;
    if !facts.is_dir() {
        return copy((from, path), (to, new), &attributes, false, heard);
    }
    let (dir, name) = to.spot(new).map_err(said)?;
    rustix::fs::mkdirat(&*dir, name, Mode::from_raw_mode(0o700)).map_err(said)?;
    for name in from.names(path).map_err(said)? {
        copy_tree((from, &join(path, &name)), (to, &join(new, &name)), heard)?;
    }
    dress(&dir, name, &attributes, None, false).map_err(said)
}

/// Gives a file owner, attributes, mode and times; `had`: what it has now.
pub(crate) fn dress(
    dir: &OwnedFd,
    name: &[u8],
    to: &Attributes,
    had: Option<&Attributes>,
    any_owner: bool,
) -> Result<()> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let now = look(dir, name)?;
    if (now.uid, now.gid) != (to.uid, to.gid) {
        let ids = (Some(Uid::from_raw(to.uid)), Some(Gid::from_raw(to.gid)));
        match rustix::fs::chownat(dir, name, ids.0, ids.1, flags) {
            // A link's owner is nobody's matter; the group may be one of the user's.
            Err(Errno::PERM) if any_owner || mode::is_lnk(to.mode) => {
                let _if_it_may = rustix::fs::chownat(dir, name, None, ids.1, flags);
            }
            done => done?,
        }
    }
    xattrs(dir, name, to, had)?;
    if !mode::is_lnk(to.mode) {
        chmod(dir, name, to.mode)?;
    }
    let time = |(tv_sec, nanoseconds): (i64, u32)| rustix::fs::Timespec {
        tv_sec,
        tv_nsec: nanoseconds.into(),
    };
    let times = Timestamps {
        last_access: time(to.atime),
        last_modification: time(to.mtime),
    };
    rustix::fs::utimensat(dir, name, &times, flags)
}

fn xattrs(dir: &OwnedFd, name: &[u8], to: &Attributes, had: Option<&Attributes>) -> Result<()> {
    let none = BTreeMap::new();
    let had = had.map_or(&none, |had| &had.xattrs);
    if *had == to.xattrs {
        return Ok(());
    }
    let path = by_handle(dir, name);
    let writable = rustix::process::geteuid().is_root() || mode::is_lnk(to.mode);
    if !writable {
        // Who may not write a file may not set its attributes, even if it is his.
        chmod(dir, name, to.mode | 0o600)?;
    }
    for (key, value) in &to.xattrs {
        if had.get(key) == Some(value) {
            continue;
        }
        let set = rustix::fs::lsetxattr(&path, &key[..], value, XattrFlags::empty());
        match set {
            // What this process cannot give goes without.
            Err(Errno::PERM | Errno::OPNOTSUPP) if !is_ours(key) => {}
            done => done?,
        }
    }
    for key in had.keys().filter(|key| is_ours(key)) {
        if !to.xattrs.contains_key(key) {
            match rustix::fs::lremovexattr(&path, &key[..]) {
                Err(Errno::NODATA) => {}
                done => done?,
            }
        }
    }
    Ok(())
}

fn look(dir: &OwnedFd, name: &[u8]) -> Result<Facts> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let mask = rustix::fs::StatxFlags::BASIC_STATS;
    Ok(Facts::new(&rustix::fs::statx(dir, name, flags, mask)?))
}

/// Copies the data of a file.
fn data(from: &OwnedFd, to: &OwnedFd, heard: Heard<'_>) -> Result<()> {
    let size = rustix::fs::fstat(from)?.st_size;
    let size = u64::try_from(size).unwrap_or(0);
    if size > 0 && rustix::fs::ioctl_ficlone(to.as_fd(), from.as_fd()).is_ok() {
        heard(size);
        return Ok(());
    }
    let mut at = 0;
    while at < size {
        let begin = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            Err(Errno::NXIO) => break,
            // It has no holes that it could tell of.
            Err(Errno::INVAL) => at,
            Err(why) => return Err(why),
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(begin)).unwrap_or(size);
        at = begin;
        while at < end {
            let room = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            let copied = piece(from, to, at, room)?;
            if copied == 0 {
                return Err(Errno::IO);
            }
            at += copied as u64;
            heard(copied as u64);
        }
    }
    rustix::fs::ftruncate(to, size)
}

fn piece(from: &OwnedFd, to: &OwnedFd, at: u64, room: usize) -> Result<usize> {
    let (mut begin, mut end) = (at, at);
    match rustix::fs::copy_file_range(from, Some(&mut begin), to, Some(&mut end), room) {
        Ok(copied) if copied > 0 => return Ok(copied),
        Ok(_) | Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        Err(why) => return Err(why),
    }
    let mut buffer = vec![0; room.min(1 << 20)];
    let read = rustix::io::pread(from, &mut buffer[..], at)?;
    let mut done = 0;
    while done < read {
        done += rustix::io::pwrite(to, &buffer[done..read], at + done as u64)?;
    }
    Ok(read)
}
