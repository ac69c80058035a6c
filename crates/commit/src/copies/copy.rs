// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies a file or a whole tree: data with its holes, extended attributes, owner, mode and times.
//!
//! # Rules
//! R1. A copy may be made in a directory that another user can write. All its data and metadata go
//!     through the descriptor by which it was made, and everything about its source comes from one
//!     descriptor as well.
//! R2. A directory, a symbolic link or a node has no such descriptor. It is opened after it was
//!     made, and must be new, of this user, and without permissions for others.
//! R3. A new directory gets its metadata after all that is in it, and stays closed to others until
//!     then. The caller sets the metadata of the topmost directory, after it has recorded its
//!     inode.

use crate::attributes::clock::now;
use crate::attributes::file_stat::{Attributes, InodeId};
use crate::attributes::owner::is_own;
use crate::copies::stamp::Stamp;
use crate::host::descriptors::reopen_path;
use crate::host::dir_stack::DirStack;
use crate::host::held_file::HeldFile;
use crate::host::names::names_in;
use crate::report::messages::{failed, shown};
use crate::report::refusal::{Refusal, RefusalKind};
use openpath_abi::mode;
use openpath_abi::stat::{major, minor};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use rustix::io::{Errno, Result};

/// How much is copied between two calls of [`OnCopied`].
const PIECE: usize = 8 << 20;
/// The block of most file systems.
const BLOCK: u64 = 4096;
/// By how many seconds the clock of a file system may be behind.
const BEHIND: i64 = 2;

/// Is called with the number of bytes that were copied.
pub(crate) type OnCopied<'a> = &'a mut dyn FnMut(u64);

/// Copies a file other than a directory; returns its inode and its stamp.
pub(crate) fn copy(
    source: &HeldFile,
    (dir, name): (BorrowedFd<'_>, &[u8]),
    attributes: &Attributes,
    any_owner: bool,
    on_copied: OnCopied<'_>,
) -> Result<(InodeId, Stamp)> {
    let made = match mode::file_type(attributes.mode) {
        mode::S_IFREG => {
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o600))?;
            copy_data(&source.open_readable()?, &file, on_copied)?;
            #[cfg(any(test, feature = "fault-injection"))]
            seam::reached(name);
            HeldFile::of(file)?
        }
        mode::S_IFLNK => {
            let body = rustix::fs::readlinkat(source.fd(), "", Vec::new())?;
            let (before, _) = now();
            rustix::fs::symlinkat(&body, dir, name)?;
            let made = open_new(dir, name, attributes, before)?;
            if rustix::fs::readlinkat(made.fd(), "", Vec::new())? != body {
                return Err(Errno::STALE);
            }
            made
        }
        kind => {
            let rdev = rustix::fs::makedev(major(attributes.rdev), minor(attributes.rdev));
            let mode = Mode::from_raw_mode(0o600);
            let (before, _) = now();
            rustix::fs::mknodat(dir, name, FileType::from_raw_mode(kind), mode, rdev)?;
            open_new(dir, name, attributes, before)?
        }
    };
    made.apply_first_metadata(attributes, any_owner)?;
    let made = made.reread()?;
    Ok((made.id(), Stamp::of(&made)?))
}

/// Makes an empty directory that nobody else can enter.
pub(crate) fn make_dir(dir: BorrowedFd<'_>, name: &[u8]) -> Result<HeldFile> {
    let (before, _) = now();
    rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o700))?;
    let made = HeldFile::open(dir, name)?.ok_or(Errno::STALE)?;
    if !made.stat.is_dir() || made.stat.mode & 0o077 != 0 || !is_new(&made, before) {
        return Err(Errno::STALE);
    }
    // A default access control list or the umask may take its owner's permissions.
    let made = match made.stat.mode & 0o700 {
        0o700 => made,
        _ => {
            rustix::fs::chmod(made.path(), Mode::RWXU)?;
            made.reread()?
        }
    };
    match names_in(made.fd())?.is_empty() {
        true => Ok(made),
        false => Err(Errno::STALE),
    }
}

/// Holds a file that was made just now (R2).
fn open_new(dir: BorrowedFd<'_>, name: &[u8], like: &Attributes, before: i64) -> Result<HeldFile> {
    let made = HeldFile::open(dir, name)?.ok_or(Errno::STALE)?;
    let stat = &made.stat;
    let kind = mode::file_type(stat.mode) == mode::file_type(like.mode);
    let device =
        kind && (!mode::is_chr(like.mode) && !mode::is_blk(like.mode) || stat.rdev == like.rdev);
    let closed = mode::is_lnk(stat.mode) || stat.mode & 0o177 == 0;
    if device && closed && stat.nlink == 1 && is_new(&made, before) {
        Ok(made)
    } else {
        Err(Errno::STALE)
    }
}

fn is_new(made: &HeldFile, before: i64) -> bool {
    let born = made.stat.btime;
    is_own(made.stat.uid) && born.is_none_or(|(seconds, _)| seconds >= before - BEHIND)
}

/// A directory that is being copied.
struct Level {
    /// The names that are left.
    names: Vec<Vec<u8>>,
    attributes: Attributes,
}

/// Copies a tree of any depth, except for the metadata of its topmost directory (R3); returns its
/// inode. `path` is the path in error messages.
pub(crate) fn copy_tree(
    source: HeldFile,
    (dir, name): (BorrowedFd<'_>, &[u8]),
    path: &[u8],
    on_copied: OnCopied<'_>,
) -> std::result::Result<InodeId, Refusal> {
    let fail = |why| match why {
        Errno::STALE => Refusal::new(
            RefusalKind::Conflict,
            format!(
                "{} was changed by another process while it was copied: try again",
                shown(path)
            ),
        ),
        why => failed(path, why),
    };
    if !source.stat.is_dir() {
        let attributes = source.attributes().map_err(fail)?;
        let made = copy(&source, (dir, name), &attributes, false, on_copied);
        return made.map(|(id, _)| id).map_err(fail);
    }
    let made = make_dir(dir, name).map_err(fail)?;
    let top = reopen_path(made.fd()).map_err(fail)?;
    copy_below(source, top, on_copied).map_err(fail)?;
    Ok(made.id())
}

/// Copies all that is in a directory into another one.
fn copy_below(source: HeldFile, to: OwnedFd, on_copied: OnCopied<'_>) -> Result<()> {
    let first = Level {
        names: names_in(source.fd())?,
        attributes: source.attributes()?,
    };
    let mut from = DirStack::new(source.into_fd())?;
    let mut to = DirStack::new(to)?;
    let mut levels = vec![first];
    while let Some(level) = levels.last_mut() {
        let Some(name) = level.names.pop() else {
            let attributes = levels.pop().map(|level| level.attributes);
            from.leave()?;
            let done = to.leave()?;
            if let (Some(done), Some(attributes), false) = (done, attributes, levels.is_empty()) {
                HeldFile::of(done)?.apply_metadata(&attributes, None, false)?;
            }
            continue;
        };
        let Some(held) = HeldFile::open(from.dir()?, &name)? else {
            continue;
        };
        let attributes = held.attributes()?;
        if held.stat.is_dir() {
            let below = make_dir(to.dir()?, &name)?;
            levels.push(Level {
                names: names_in(held.fd())?,
                attributes,
            });
            from.enter(held.into_fd())?;
            to.enter(below.into_fd())?;
        } else {
            copy(&held, (to.dir()?, &name), &attributes, false, on_copied)?;
        }
    }
    Ok(())
}

/// Copies the data of a file.
fn copy_data(from: &OwnedFd, to: &OwnedFd, on_copied: OnCopied<'_>) -> Result<()> {
    let stat = rustix::fs::fstat(from)?;
    let number = |field| u64::try_from(field).unwrap_or(0);
    let (size, used) = (
        number(stat.st_size),
        number(stat.st_blocks).saturating_mul(512),
    );
    // One block has no hole, and nothing is won by sharing it.
    if size > 0 && size <= BLOCK && size <= used {
        let room = usize::try_from(size).unwrap_or(PIECE);
        let copied = copy_piece(from, to, 0, room)? as u64;
        if copied == size {
            on_copied(size);
            return Ok(());
        }
    }
    if size > 0 && rustix::fs::ioctl_ficlone(to.as_fd(), from.as_fd()).is_ok() {
        on_copied(size);
        return Ok(());
    }
    let mut at = 0;
    while at < size {
        let begin = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            Err(Errno::NXIO) => break,
            // The file system reports no holes.
            Err(Errno::INVAL) => at,
            Err(why) => return Err(why),
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(begin)).unwrap_or(size);
        at = begin;
        while at < end {
            let room = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            let copied = copy_piece(from, to, at, room)?;
            if copied == 0 {
                return Err(Errno::IO);
            }
            at += copied as u64;
            on_copied(copied as u64);
        }
    }
    rustix::fs::ftruncate(to, size)
}

fn copy_piece(from: &OwnedFd, to: &OwnedFd, at: u64, room: usize) -> Result<usize> {
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
