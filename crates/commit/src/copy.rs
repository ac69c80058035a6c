// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies of files, whole: data with its holes, attributes, owner, mode and times.
//!
//! # Rules
//! R1. A copy may be made in a directory that another user can write. All that is given to it goes
//!     through the descriptor by which it was made, and everything about its source comes from one
//!     descriptor as well.
//! R2. What has no such descriptor (a directory, a symbolic link, a node) is opened after it was
//!     made, and must be what was made: new, of this user, without permissions for others.
//! R3. A new directory gets its attributes after all that is in it, and stays closed to others
//!     until then. The topmost one is left to the caller, which records first which inode it is.

use crate::facts::{Attributes, Id};
use crate::held::Held;
use crate::ladder::Ladder;
use crate::messages::{failed, text};
use crate::names::names_in;
use crate::refusal::Refusal;
use crate::stamp::Stamp;
use openpath_abi::mode;
use openpath_abi::stat::{major, minor};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::{Errno, Result};
use std::time::{SystemTime, UNIX_EPOCH};

/// How much is copied between two calls of [`Heard`].
const PIECE: usize = 8 << 20;
/// By how many seconds the clock of a file system may be behind.
const BEHIND: i64 = 2;

/// Hears how many bytes were copied.
pub(crate) type Heard<'a> = &'a mut dyn FnMut(u64);

/// Makes a copy of anything but a directory, and says which inode it is and what it has.
pub(crate) fn copy(
    source: &Held,
    (dir, name): (BorrowedFd<'_>, &[u8]),
    attributes: &Attributes,
    any_owner: bool,
    heard: Heard<'_>,
) -> Result<(Id, Stamp)> {
    let made = match mode::file_type(attributes.mode) {
        mode::S_IFREG => {
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o600))?;
            data(&source.read()?, &file, heard)?;
            #[cfg(any(test, feature = "fault-injection"))]
            seam::reached(name);
            Held::of(file)?
        }
        mode::S_IFLNK => {
            let body = rustix::fs::readlinkat(source.fd(), "", Vec::new())?;
            let before = now();
            rustix::fs::symlinkat(&body, dir, name)?;
            let made = fresh(dir, name, attributes, before)?;
            if rustix::fs::readlinkat(made.fd(), "", Vec::new())? != body {
                return Err(Errno::STALE);
            }
            made
        }
        kind => {
            let rdev = rustix::fs::makedev(major(attributes.rdev), minor(attributes.rdev));
            let mode = Mode::from_raw_mode(0o600);
            let before = now();
            rustix::fs::mknodat(dir, name, FileType::from_raw_mode(kind), mode, rdev)?;
            fresh(dir, name, attributes, before)?
        }
    };
    made.dress(attributes, None, any_owner)?;
    let made = made.again()?;
    Ok((made.id(), Stamp::of(&made)?))
}

/// Makes an empty directory that nobody else can enter.
pub(crate) fn make_dir(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Held> {
    let before = now();
    rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o700))?;
    let made = Held::open(dir, name)?.ok_or(Errno::STALE)?;
    let good = made.facts.is_dir() && made.facts.mode & 0o777 == 0o700 && is_fresh(&made, before);
    if good && names_in(made.fd())?.is_empty() {
        Ok(made)
    } else {
        Err(Errno::STALE)
    }
}

/// Holds what was made just now (R2).
fn fresh(dir: BorrowedFd<'_>, name: &[u8], like: &Attributes, before: i64) -> Result<Held> {
    let made = Held::open(dir, name)?.ok_or(Errno::STALE)?;
    let facts = &made.facts;
    let kind = mode::file_type(facts.mode) == mode::file_type(like.mode);
    let device =
        kind && (!mode::is_chr(like.mode) && !mode::is_blk(like.mode) || facts.rdev == like.rdev);
    let closed = mode::is_lnk(facts.mode) || facts.mode & 0o177 == 0;
    if device && closed && facts.nlink == 1 && is_fresh(&made, before) {
        Ok(made)
    } else {
        Err(Errno::STALE)
    }
}

fn is_fresh(made: &Held, before: i64) -> bool {
    let own = made.facts.uid == rustix::process::geteuid().as_raw();
    let born = made.facts.btime;
    own && born.is_none_or(|(seconds, _)| seconds >= before - BEHIND)
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(now.unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
}

/// A directory that is being copied.
struct Level {
    /// The names that are left.
    names: Vec<Vec<u8>>,
    attributes: Attributes,
}

/// Makes a copy of a tree, however deep, but for the attributes of its topmost directory (R3);
/// which inode it is. `path` is what errors name.
pub(crate) fn copy_tree(
    source: Held,
    (dir, name): (BorrowedFd<'_>, &[u8]),
    path: &[u8],
    heard: Heard<'_>,
) -> std::result::Result<Id, Refusal> {
    let said = |why| match why {
        Errno::STALE => Refusal::new(format!(
            "{} was changed by another process while it was copied: try again",
            text(path)
        )),
        why => failed(path, why),
    };
    if !source.facts.is_dir() {
        let attributes = source.attributes().map_err(said)?;
        let made = copy(&source, (dir, name), &attributes, false, heard);
        return made.map(|(id, _)| id).map_err(said);
    }
    let made = make_dir(dir, name).map_err(said)?;
    let top = open_again(made.fd()).map_err(said)?;
    copy_below(source, top, heard).map_err(said)?;
    Ok(made.id())
}

/// Copies all that is in a directory into another one.
fn copy_below(source: Held, to: OwnedFd, heard: Heard<'_>) -> Result<()> {
    let first = Level {
        names: names_in(source.fd())?,
        attributes: source.attributes()?,
    };
    let mut from = Ladder::new(source.into_fd())?;
    let mut to = Ladder::new(to)?;
    let mut levels = vec![first];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.names.pop() else {
            let attributes = levels.pop().map(|level| level.attributes);
            from.leave()?;
            let done = to.leave()?;
            if let (Some(done), Some(attributes), false) = (done, attributes, levels.is_empty()) {
                Held::of(done)?.dress(&attributes, None, false)?;
            }
            continue;
        };
        let Some(held) = Held::open(from.dir()?, &name)? else {
            continue;
        };
        let attributes = held.attributes()?;
        if held.facts.is_dir() {
            let below = make_dir(to.dir()?, &name)?;
            levels.push(Level {
                names: names_in(held.fd())?,
                attributes,
            });
            from.enter(held.into_fd())?;
            to.enter(below.into_fd())?;
        } else {
            copy(&held, (to.dir()?, &name), &attributes, false, heard)?;
        }
    }
    Ok(())
}

fn open_again(dir: BorrowedFd<'_>) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(dir, ".", flags, Mode::empty())
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

/// Where a test can act between the data of a copy and its attributes.
#[cfg(any(test, feature = "fault-injection"))]
pub(crate) mod seam {
    use std::cell::RefCell;

    type Hook = Box<dyn FnMut(&[u8])>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    /// Calls this with the name of each copy of this thread.
    pub(crate) fn set(hook: Option<Hook>) {
        HOOK.with(|cell| *cell.borrow_mut() = hook);
    }

    pub(super) fn reached(name: &[u8]) {
        HOOK.with(|cell| {
            if let Some(hook) = &mut *cell.borrow_mut() {
                hook(name);
            }
        });
    }
}
